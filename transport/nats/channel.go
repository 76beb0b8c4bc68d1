package natstransport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/bounded"
	"github.com/shardgen/shardgen/transport"
)

const (
	// queueLength is how many received messages wait for Receive. Beyond it
	// nats.go drops; the credit of the layers above keeps far below it.
	queueLength = 64 << 10
	// maxRoutes bounds the cache of peers' subjects; clients come and go.
	maxRoutes = 4096
	// maxPast is how many ended sessions can still have messages in the queue
	// that are told apart.
	maxPast = 2
	// maxKnown bounds the servers that are tried beside the configured ones.
	maxKnown = 32
)

// A channel is one order of messages: a queue that outlives connections, and
// the session that feeds it now.
type channel struct {
	id       transport.Channel
	options  nats.Options // shared by all sessions; never changed
	subjects subjects
	client   bool
	log      *slog.Logger
	outage   *outage // of all channels of the link
	onState  func(transport.Channel, transport.State)

	messages chan *nats.Msg
	quit     chan struct{} // closed by Close
	dry      chan struct{} // closed by a finished Drain
	serving  chan struct{} // holds a token while a Serve is under way
	session  atomic.Pointer[session]

	foreign atomic.Uint64 // subjects that no link writes
	denied  atomic.Uint64 // errors of the server about sent messages
	crowded atomic.Uint64 // how often the queue was full
	faults  atomic.Uint64 // other errors of the broker

	mu       sync.Mutex // guards the fields below; never held while sending
	closed   bool
	interest interest
	past     []*session // ended, latest first
	dropped  uint64     // by sessions past, because the queue was full
	known    []string   // servers that the cluster told of

	routesMu sync.RWMutex
	routes   map[transport.Peer]route
}

// interest has the changeable part of a channel's subscriptions. It outlives sessions.
type interest struct {
	drained bool // none at all
	serves  bool // the gateway's queue group too
}

func (c *channel) isControl() bool { return c.id == transport.Control }

func (c *channel) isClosed() bool {
	select {
	case <-c.quit:
		return true
	default:
		return false
	}
}

// open makes the first session. It retries until ctx ends, unless the attempt can never
// succeed.
func (c *channel) open(ctx context.Context) error {
	var last error
	for {
		s, err := c.connect(ctx, interest{})
		if err == nil {
			c.session.Store(s)
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // an attempt that the end of ctx cut short says less
		}
		if _, permanent := remedy(err); permanent {
			return explain(err)
		}
		if !c.pause(ctx) {
			return fmt.Errorf("%w: %w", context.Cause(ctx), explain(last))
		}
	}
}

// pause waits between two attempts; false means that ctx ended.
func (c *channel) pause(ctx context.Context) bool {
	wait := c.options.ReconnectWait
	if j := c.options.ReconnectJitter; j > 0 {
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

// adopt makes s the channel's session, unless it came too late: the channel was
// closed, or its interest changed while s subscribed.
func (c *channel) adopt(s *session, subscribed interest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.interest != subscribed {
		return false
	}
	c.session.Store(s)
	return true
}

// retire keeps the still needed part of an ended session.
func (c *channel) retire(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped += s.countDropped()
	c.past = slices.Insert(c.past, 0, s)
	if len(c.past) > maxPast {
		c.past = c.past[:maxPast]
	}
	for _, u := range s.nc.DiscoveredServers() {
		u = c.withUser(u)
		if !slices.Contains(c.known, u) && !slices.Contains(c.options.Servers, u) {
			c.known = slices.Insert(c.known, 0, u)
		}
	}
	if len(c.known) > maxKnown {
		c.known = c.known[:maxKnown]
	}
}

// withUser gives a discovered server the user of the configured ones, which the
// cluster does not tell.
func (c *channel) withUser(server string) string {
	u, err := url.Parse(server)
	if err != nil || u.User != nil || len(c.options.Servers) == 0 {
		return server
	}
	if first, err := url.Parse(c.options.Servers[0]); err == nil {
		u.User = first.User
	}
	return u.String()
}

func (c *channel) servers() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Concat(c.options.Servers, c.known)
}

func (c *channel) tell(s transport.State) {
	if c.onState != nil {
		c.onState(c.id, s)
	}
}

func (c *channel) state() transport.State {
	s := c.session.Load()
	if s == nil || c.isClosed() {
		return transport.State{}
	}
	if s.isOver() {
		return transport.State{}
	}
	return transport.State{Connected: true, Server: s.server}
}

// serverOf tells which instance sent m.
func (c *channel) serverOf(m *nats.Msg) string {
	if s := c.session.Load(); s.replies == m.Sub {
		return s.server
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.past {
		if s.replies == m.Sub {
			return s.server
		}
	}
	return ""
}

// asyncError handles the errors that nats.go and the server report.
func (c *channel) asyncError(s *session, sub *nats.Subscription, err error) {
	switch {
	case errors.Is(err, nats.ErrSlowConsumer) && sub != nil:
		s.countDropped() // nats.go forgets it when the connection ends
		dropped := c.countDropped()
		if n := c.crowded.Add(1); powerOfTwo(n) {
			c.log.Error("received messages dropped: the queue is full", "subject", sub.Subject, "dropped", dropped, "queue", queueLength, "count", n)
		}
	case errors.Is(err, nats.ErrPermissionViolation):
		if n := c.denied.Add(1); powerOfTwo(n) {
			c.log.Error("broker denied a subject", "cause", bounded.Error(explain(err)), "count", n)
		}
	default:
		if n := c.faults.Add(1); powerOfTwo(n) {
			c.log.Warn("broker error", "cause", bounded.Error(err), "count", n)
		}
	}
}

func (c *channel) countDropped() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.dropped
	// A session is past before the next one is stored, and counted there.
	if s := c.session.Load(); s != nil && (len(c.past) == 0 || c.past[0] != s) {
		n += s.countDropped()
	}
	return n
}

// powerOfTwo thins out the log of something that may happen very often: the first time
// is logged, the second, fourth, eighth and so on, with their count.
func powerOfTwo(n uint64) bool { return bits.OnesCount64(n) == 1 }

func (c *channel) route(to transport.Peer) (route, error) {
	c.routesMu.RLock()
	r, ok := c.routes[to]
	c.routesMu.RUnlock()
	if ok {
		return r, nil
	}
	r, err := c.subjects.route(to)
	if err != nil {
		return r, err
	}
	// A name cut from a larger buffer would keep all of it alive.
	to.Name = strings.Clone(to.Name)
	c.routesMu.Lock()
	defer c.routesMu.Unlock()
	if len(c.routes) >= maxRoutes {
		clear(c.routes)
	}
	c.routes[to] = r
	return r, nil
}
