package natstransport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/transport"
)

// An upkeep keeps a channel connected: it makes the channel's connections, watches the present one,
// and replaces that connection when it has ended or is stale.
type upkeep struct {
	*channel
	held holder // sockets of stale connections
}

// run replaces connections as they end, until ctx ends. Once Open has called OnState for the first
// time, only run calls it. run stores a new connection only after it has reported the end of the
// old one.
//
// run also ends a connection to a silent server, but holds the connection's socket until the next
// connection listens. Lost packets may silence a server for seconds; if the socket were closed, the
// server would report that nobody listens here, and the node would count as gone.
func (u *upkeep) run(ctx context.Context) {
	defer u.held.close()
	for {
		s := u.connection.Load()
		next := u.watch(ctx, s)
		if s.stale {
			if u.isControl() { // without its subjects this node counts as gone
				u.held.hold(s)
			}
			s.end()
		}
		u.retire(s)
		if ctx.Err() != nil {
			if next != nil {
				next.end()
			}
			return
		}
		cause := s.nc.LastError()
		if s.stale {
			cause = nats.ErrStaleConnection
		}
		u.outage.lost(u.id, s.server, cause)
		u.tell(transport.State{})
		next = u.reopen(ctx, next, !s.stale && time.Since(s.began) < time.Second)
		if next == nil {
			return
		}
		u.held.adopted(next)
		u.tell(next.state())
	}
}

// watch returns when s has ended, when ctx ends, or when s is stale. s is stale if its server has
// not answered for MaxPingsOut intervals, or if another connection could be made before the server
// answered. spare is that other connection, which has no subscriptions yet.
func (u *upkeep) watch(ctx context.Context, s *connection) (spare *connection) {
	if u.options.PingInterval <= 0 {
		select {
		case <-s.over:
		case <-ctx.Done():
		}
		return nil
	}
	t := time.NewTicker(u.options.PingInterval)
	defer t.Stop()
	for {
		select {
		case <-s.over:
			return nil
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		u.routes.expire(time.Now())
		if spare = u.ping(ctx, s); s.stale {
			return spare
		}
	}
}

// ping waits for the server's answer. If the answer is a PingInterval late, ping makes another
// connection. s is stale once the other connection stands, or after MaxPingsOut intervals without
// an answer. On a lane the answer may wait behind other messages, so a lane that receives anything
// gets all MaxPingsOut intervals. The intervals are counted by ticks and not by the clock, so that
// a process that was stopped for long reads its messages before it judges the connection.
func (u *upkeep) ping(ctx context.Context, s *connection) (spare *connection) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel() // first
	answer := make(chan error, 1)
	wg.Go(func() { answer <- s.flush(ctx) })
	spares := make(chan *connection, 1)
	late := time.NewTicker(u.options.PingInterval)
	defer late.Stop()
	read, dials := s.wire.reads.Load(), false
	for missed := 0; ; {
		select {
		case <-answer: // an error is the end of s, or of ctx
			cancel()
			wg.Wait()
			if spare = taken(spares); spare != nil {
				spare.end()
			}
			return nil
		case spare = <-spares:
			s.stale = spare != nil
			return spare
		case <-late.C:
			missed++
			if missed >= u.options.MaxPingsOut {
				s.stale = true
				cancel()
				wg.Wait()
				return taken(spares)
			}
			was := read
			read = s.wire.reads.Load()
			if !dials && (u.isControl() || read == was) {
				dials = true
				wg.Go(func() { spares <- u.dialAny(ctx) })
			}
		}
	}
}

// taken returns a connection from spares if one is ready, and nil if not. A spare connection may
// become ready just when its caller stops waiting for it.
func taken(spares <-chan *connection) *connection {
	select {
	case spare := <-spares:
		return spare
	default:
		return nil
	}
}

const (
	// atOnce is how many attempts at another control connection run side by side,
	// for where packets are lost each of them may stand still too.
	atOnce = 3
	// dialApart is how much later each of them begins.
	dialApart = 300 * time.Millisecond
)

// dialAny dials until a connection stands; for Control several goroutines dial, some time apart. It
// returns nil when ctx ends.
func (u *upkeep) dialAny(ctx context.Context) (first *connection) {
	n := 1
	if u.isControl() {
		n = atOnce
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	stood := make(chan *connection, n)
	for i := range n {
		wg.Go(func() { stood <- u.dialAgain(ctx, time.Duration(i)*dialApart) })
	}
	for range n { // all of them end
		s := <-stood
		switch {
		case s == nil:
		case first == nil:
			first = s
			cancel()
		default:
			s.end()
		}
	}
	return first
}

// dialAgain waits for after, and then dials until a connection stands. It returns nil when ctx
// ends.
func (u *upkeep) dialAgain(ctx context.Context, after time.Duration) *connection {
	select {
	case <-time.After(after):
	case <-ctx.Done():
		return nil
	}
	for {
		s, err := u.dial(ctx)
		if err == nil {
			return s
		}
		if !u.pause(ctx) {
			return nil
		}
	}
}

// reopen connects until it succeeds; nil means that the channel was closed. If there is a spare
// connection, the first attempt uses it. The first attempt is made at once, unless patient is set,
// which means that the server ended the last connection within a second.
func (u *upkeep) reopen(ctx context.Context, spare *connection, patient bool) *connection {
	for attempts := 1; ; attempts++ {
		if (patient || attempts > 1) && !u.pause(ctx) {
			return nil
		}
		u.mu.Lock()
		in := u.interest
		u.mu.Unlock()
		var s *connection
		var err error
		if spare != nil {
			s, spare = spare, nil
			err = u.confirm(ctx, s, in)
		} else {
			s, err = u.connect(ctx, in)
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			u.outage.failed(err)
			if isDenial(err) {
				u.tellDenied(transport.Address{}, err)
			}
			continue
		}
		if u.adopt(s, in) {
			u.outage.restored(u.id, s.server)
			return s
		}
		s.end()
	}
}

// open makes the first connection. It tries again until ctx ends, unless an attempt fails in a way
// that cannot succeed later.
func (u *upkeep) open(ctx context.Context) error {
	var last error
	for {
		s, err := u.connect(ctx, interest{})
		if err == nil {
			u.connection.Store(s)
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // an attempt that the end of ctx cut short says less
		}
		if _, permanent := remedy(err); permanent {
			return explain(err)
		}
		if !u.pause(ctx) {
			return fmt.Errorf("%w: %w", context.Cause(ctx), explain(last))
		}
	}
}

// pause waits between two attempts. It reports false if ctx ended.
func (u *upkeep) pause(ctx context.Context) bool {
	wait := u.options.ReconnectWait
	if j := u.options.ReconnectJitter; j > 0 {
		wait += rand.N(j)
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
