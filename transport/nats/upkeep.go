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

// An upkeep makes and watches a channel's connections, and replaces ended or stale ones.
type upkeep struct {
	*channel
	held holder // sockets of stale connections
}

// run replaces each connection that ends, until ctx ends. Open makes the first call of OnState;
// after that, only run calls it. run reports the end of a connection before it stores the next one.
//
// If a server is silent, run ends the connection to it. The socket of Control stays open until the
// next connection listens. Lost packets may silence a server for seconds. If run closed that
// socket, the server would report that nobody listens, and the node would count as gone.
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

// watch returns when s has ended or is stale, or ctx ends. s is stale after MaxPingsOut intervals
// without an answer, or when a second connection, spare, is ready. spare has no subscriptions yet.
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

// ping pings the server of s. After one PingInterval without an answer, ping begins to dial a
// second connection, spare. s is stale when spare is connected, or after MaxPingsOut intervals
// without an answer. While a lane receives anything, ping does not dial, because the answer may
// wait behind other messages. Intervals are counted as ticks, so a process that was stopped for
// long reads its messages before s counts as stale.
func (u *upkeep) ping(ctx context.Context, s *connection) (spare *connection) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel() // runs before wg.Wait
	answer := make(chan error, 1)
	wg.Go(func() { answer <- s.flush(ctx) })
	spares := make(chan *connection, 1)
	late := time.NewTicker(u.options.PingInterval)
	defer late.Stop()
	read, dials := s.wire.reads.Load(), false
	for missed := 0; ; {
		select {
		case <-answer: // an error means that s or ctx has ended
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

// taken returns a ready spare, or nil. A spare may become ready just as ping stops waiting.
func taken(spares <-chan *connection) *connection {
	select {
	case spare := <-spares:
		return spare
	default:
		return nil
	}
}

const (
	// atOnce is how many attempts at a control connection run side by side, because each may hang
	// while packets are lost.
	atOnce = 3
	// dialApart is the time between starts of attempts.
	dialApart = 300 * time.Millisecond
)

// dialAny dials until one connection is ready. For Control, atOnce attempts run side by side. It
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
	for range n { // wait for all attempts to end
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

// dialAgain first waits for the given duration, then dials until a connection is ready. It returns
// nil when ctx ends.
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

// reopen tries to connect until it succeeds. It returns nil if the channel was closed. The first
// attempt uses spare, if there is one. If patient is true, reopen waits before the first attempt,
// because the last connection ended within a second after it began.
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

// open makes the first connection. It retries until ctx ends or a retry cannot succeed.
func (u *upkeep) open(ctx context.Context) error {
	var last error
	for {
		s, err := u.connect(ctx, interest{})
		if err == nil {
			u.connection.Store(s)
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // the error of an attempt that ctx cut short says less
		}
		if _, permanent := remedy(err); permanent {
			return explain(err)
		}
		if !u.pause(ctx) {
			return fmt.Errorf("%w: %w", context.Cause(ctx), explain(last))
		}
	}
}

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
