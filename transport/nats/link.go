package natstransport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/bounded"
	"github.com/shardgen/shardgen/transport"
)

// A link is one process's connections: control first, then the lanes.
type link struct {
	channels     []*channel
	outage       *outage
	closeTimeout time.Duration
	ctx          context.Context // of the channels' goroutines, from Open to Close
	cancel       context.CancelFunc
	wg           sync.WaitGroup
	closing      sync.Once
}

var (
	_ transport.Link    = (*link)(nil)
	_ transport.Counter = (*link)(nil)
)

func (l *link) channel(ch transport.Channel) (*channel, error) {
	if i := int(ch) + 1; i >= 0 && i < len(l.channels) {
		return l.channels[i], nil
	}
	return nil, fmt.Errorf("channel %d: the link has lanes 0 to %d and Control", ch, len(l.channels)-2)
}

// Send publishes to the peer's own subject.
func (l *link) Send(ch transport.Channel, to transport.Peer, token uint64, payload []byte) error {
	c, err := l.channel(ch)
	if err != nil {
		return fmt.Errorf("send to %v: %w", to.Address, err)
	}
	r, err := c.route(to)
	if err != nil {
		return fmt.Errorf("send to %v: %w", to.Address, err)
	}
	if err := c.publish(r.subject, replySubject(r.reply, token), payload); err != nil {
		return fmt.Errorf("send to %v: %w", to.Address, err)
	}
	return nil
}

// Broadcast publishes to the subject of all members. Without a reply subject
// nobody is told when there are none.
func (l *link) Broadcast(payload []byte) error {
	c := l.channels[0]
	if err := c.publish(c.subjects.broadcast, "", payload); err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	return nil
}

// Anycast publishes to the gateway's queue group.
func (l *link) Anycast(token uint64, payload []byte) error {
	c := l.channels[0]
	if err := c.publish(c.subjects.gateway, replySubject(c.subjects.anycast, token), payload); err != nil {
		return fmt.Errorf("anycast: %w", err)
	}
	return nil
}

func (c *channel) publish(subject, reply string, payload []byte) error {
	if c.isClosed() {
		return transport.ErrClosed
	}
	s := c.session.Load()
	err := s.nc.PublishRequest(subject, reply, payload)
	if err == nil {
		return nil
	}
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%d bytes: %w of %d (send less, or raise max_payload)",
			len(payload), transport.ErrTooLarge, s.nc.MaxPayload())
	case c.isClosed():
		return transport.ErrClosed
	}
	// Other failures are of a connection that has ended or, after a failed write, is
	// about to.
	return fmt.Errorf("channel %s: %w: %w", c.subjects.channel, transport.ErrDisconnected, err)
}

// MaxPayload returns the least of the limits that the servers behind the channels set now: a server may
// be told another limit while it runs.
func (l *link) MaxPayload() int {
	least := l.channels[0].session.Load().nc.MaxPayload()
	for _, c := range l.channels[1:] {
		least = min(least, c.session.Load().nc.MaxPayload())
	}
	return int(least)
}

// State tells the connection of the channel; one that does not exist has none.
func (l *link) State(ch transport.Channel) transport.State {
	c, err := l.channel(ch)
	if err != nil {
		return transport.State{}
	}
	return c.state()
}

// Counts returns how many messages the channel had to drop, by reason.
func (l *link) Counts(ch transport.Channel) transport.Counts {
	c, err := l.channel(ch)
	if err != nil {
		return transport.Counts{}
	}
	return transport.Counts{Dropped: c.countDropped(), Foreign: c.foreign.Load(), Denied: c.denied.Load()}
}

// Flush waits for a round trip to the server.
func (l *link) Flush(ctx context.Context, ch transport.Channel) error {
	c, err := l.channel(ch)
	if err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	if c.isClosed() {
		return fmt.Errorf("flush: %w", transport.ErrClosed)
	}
	if err := c.session.Load().flush(ctx); err != nil {
		return fmt.Errorf("flush: channel %s: %w", c.subjects.channel, c.broken(ctx, err))
	}
	return nil
}

// broken names an error of a round trip.
func (c *channel) broken(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case c.isClosed():
		return transport.ErrClosed
	}
	return fmt.Errorf("%w: %w", transport.ErrDisconnected, err)
}

// Drain ends the subscriptions of all lanes. It may be called again after an
// error. A lane whose connection breaks meanwhile is drained by that: its next
// connection subscribes to nothing.
func (l *link) Drain(ctx context.Context) error {
	lanes := l.channels[1:]
	errs := make([]error, len(lanes))
	var wg sync.WaitGroup
	for i, c := range lanes {
		wg.Go(func() { errs[i] = c.drain(ctx) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	return nil
}

func (c *channel) drain(ctx context.Context) error {
	c.mu.Lock()
	c.interest.drained = true
	closed, s := c.closed, c.session.Load()
	c.mu.Unlock()
	if closed {
		return transport.ErrClosed
	}
	s.drain()
	if err := s.settle(ctx); err != nil {
		return fmt.Errorf("channel %s: %w", c.subjects.channel, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.dry:
	default:
		close(c.dry)
	}
	return nil
}

// Close flushes and closes all channels side by side.
func (l *link) Close() error {
	l.closing.Do(func() {
		l.outage.close()
		l.cancel() // first, so that nobody takes the end of a session for a break
		var wg sync.WaitGroup
		for _, c := range l.channels {
			wg.Go(func() { c.close(l.closeTimeout) })
		}
		wg.Wait()
	})
	l.wg.Wait()
	return nil
}

func (c *channel) close(timeout time.Duration) {
	close(c.quit)
	c.mu.Lock()
	c.closed = true
	s := c.session.Load()
	c.mu.Unlock()
	if s == nil {
		return // never opened
	}
	// Closing a socket with unread bytes resets it, and the server may lose the last
	// writes: wait until it has read them.
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := s.flush(ctx); err != nil {
		c.log.Debug("closed without a last flush", "cause", err)
	}
	s.end()
}

// statusHeader and noResponders are how a server says that nobody listens.
const (
	statusHeader = "Status"
	noResponders = "503"
)

// Receive waits for the channel's next message.
func (l *link) Receive(ch transport.Channel) (transport.Message, error) {
	c, err := l.channel(ch)
	if err != nil {
		return transport.Message{}, fmt.Errorf("receive: %w", err)
	}
	for {
		m, err := c.next()
		if err != nil {
			return transport.Message{}, err
		}
		if msg, ok := c.parse(m); ok {
			return msg, nil
		}
	}
}

// TryReceive returns the next message if there is one.
func (l *link) TryReceive(ch transport.Channel) (transport.Message, bool) {
	c, err := l.channel(ch)
	if err != nil || c.isClosed() {
		return transport.Message{}, false
	}
	for {
		select {
		case m := <-c.messages:
			if msg, ok := c.parse(m); ok {
				return msg, true
			}
		default:
			return transport.Message{}, false
		}
	}
}

func (c *channel) next() (*nats.Msg, error) {
	if c.isClosed() {
		return nil, transport.ErrClosed
	}
	select { // a queue that holds something is the common case, and one case is cheap
	case m := <-c.messages:
		return m, nil
	default:
	}
	select {
	case m := <-c.messages:
		return m, nil
	case <-c.quit:
		return nil, transport.ErrClosed
	case <-c.dry:
	}
	select {
	case m := <-c.messages:
		return m, nil
	default:
		return nil, transport.ErrClosed
	}
}

// parse finds the kind of m by the letter that follows "sh.<cluster>.": the link's
// own subscriptions leave no more to tell apart.
func (c *channel) parse(m *nats.Msg) (transport.Message, bool) {
	if i := len(c.subjects.prefix); len(m.Subject) > i {
		switch m.Subject[i] {
		case 'n':
			return transport.Message{Kind: transport.Direct, Payload: m.Data}, true
		case 'r':
			if word, ok := strings.CutPrefix(m.Subject, c.subjects.replies); ok {
				if msg, ok := c.parseReply(word, m); ok {
					return msg, true
				}
			}
		case 'c':
			return transport.Message{Kind: transport.Broadcast, Payload: m.Data}, true
		case 'g':
			return transport.Message{Kind: transport.Anycast, Payload: m.Data}, true
		}
	}
	if n := c.foreign.Add(1); powerOfTwo(n) {
		c.log.Warn("foreign message ignored", "subject", bounded.Text(m.Subject), "bytes", len(m.Data), "count", n)
	}
	return transport.Message{}, false
}

func (c *channel) parseReply(word string, m *nats.Msg) (transport.Message, bool) {
	if word == wordFrame {
		return transport.Message{Kind: transport.Direct, Payload: m.Data}, c.client
	}
	// Anybody may publish to a reply subject; only the server sends a bare 503.
	if len(m.Data) != 0 || m.Header.Get(statusHeader) != noResponders {
		return transport.Message{}, false
	}
	msg := transport.Message{Kind: transport.Unreachable}
	kind, rest, _ := strings.Cut(word, ".")
	var ok bool
	switch kind {
	case wordUnreachable:
		msg.From, msg.Token, ok = parseUnreachable(rest)
	case wordAnycast:
		msg.Token, ok = parseToken(rest)
	}
	if ok {
		msg.Server = c.serverOf(m)
	}
	return msg, ok
}
