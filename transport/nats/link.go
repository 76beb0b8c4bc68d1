package natstransport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardgen/shardgen/transport"
)

type link struct {
	channels     []*channel
	outage       *outage
	scout        scout
	closeTimeout time.Duration
	ctx          context.Context // of the channels' goroutines, from Open to Close
	cancel       context.CancelFunc
	wg           sync.WaitGroup
	closing      sync.Once
}

var (
	_ transport.Link         = (*link)(nil)
	_ transport.Counter      = (*link)(nil)
	_ transport.Confidential = (*link)(nil)
	_ transport.Expiring     = (*link)(nil)
	_ transport.Scout        = (*link)(nil)
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
	r, err := c.routes.route(to)
	if err != nil {
		return fmt.Errorf("send to %v: %w", to.Address, err)
	}
	if err := c.publish(r.subject, replySubject(r.reply, token), payload); err != nil {
		return fmt.Errorf("send to %v: %w", to.Address, err)
	}
	return nil
}

// Broadcast publishes to the subject of all members. The message has no reply subject, so the
// sender does not learn if there are no members.
func (l *link) Broadcast(payload []byte) error {
	c := l.channels[0]
	if c.subjects.broadcast == "" {
		return errClientBroadcasts
	}
	if err := c.publish(c.subjects.broadcast, "", payload); err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	return nil
}

var errClientBroadcasts = errors.New("broadcast: not allowed for a client (open the link as a member or an operator)")

// Anycast publishes to the queue group of the members that serve.
func (l *link) Anycast(token uint64, payload []byte) error {
	c := l.channels[0]
	if err := c.publish(c.subjects.anycast, replySubject(c.subjects.nobody, token), payload); err != nil {
		return fmt.Errorf("anycast: %w", err)
	}
	return nil
}

// MaxPayload returns the lowest of the present limits of the servers behind the channels. A running
// server may change its limit.
func (l *link) MaxPayload() int {
	least := l.channels[0].connection.Load().nc.MaxPayload()
	for _, c := range l.channels[1:] {
		least = min(least, c.connection.Load().nc.MaxPayload())
	}
	return int(least)
}

// State returns the state of the channel's connection, or the zero State for a channel that does
// not exist.
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

// Confidential checks the present connection of Control. Each new connection may lead to another
// server, so the result may change.
func (l *link) Confidential() error { return l.channels[0].connection.Load().confidential() }

// Move ends the connection of Control, and connects to another server if it can.
func (l *link) Move() { l.channels[0].move() }

// Expiries reads the certificates and the JWT again, because files may have been renewed.
func (l *link) Expiries() []transport.Expiry {
	return expiries(&l.channels[0].options, l.channels[0].connection.Load().nc)
}

// Flush makes a round trip to the server.
func (l *link) Flush(ctx context.Context, ch transport.Channel) error {
	c, err := l.channel(ch)
	if err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	if c.isClosed() {
		return fmt.Errorf("flush: %w", transport.ErrClosed)
	}
	if err := c.connection.Load().flush(ctx); err != nil {
		return fmt.Errorf("flush: channel %s: %w", c.subjects.channel, c.broken(ctx, err))
	}
	return nil
}

// Drain ends the subscriptions of all lanes. It may be called again after an error. If a lane's
// connection breaks during Drain, the lane counts as drained, because the lane's next connection
// makes no subscriptions.
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

// Close flushes and closes all channels at the same time.
func (l *link) Close() error {
	l.closing.Do(func() {
		l.outage.close()
		l.cancel() // first, so that no goroutine takes the end of a connection for a break
		var wg sync.WaitGroup
		for _, c := range l.channels {
			wg.Go(func() { c.close(l.closeTimeout) })
		}
		wg.Go(l.scout.close)
		wg.Wait()
	})
	l.wg.Wait()
	return nil
}

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
		m, ok := c.pull()
		if !ok {
			return transport.Message{}, false
		}
		if msg, ok := c.parse(m); ok {
			return msg, true
		}
	}
}

// Serve joins or leaves the queue group of the serving members. It fails if the server refuses the
// subject; the link then works without serving.
func (l *link) Serve(ctx context.Context, on bool) error {
	if err := l.channels[0].serve(ctx, on); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
