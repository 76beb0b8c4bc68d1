package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

// openTimeout bounds Open's wait for a stopped broker.
const openTimeout = 5 * time.Second

// A Transport opens links to its broker.
type Transport struct{ broker *Broker }

var _ transport.Transport = (*Transport)(nil)

// Open opens a link. While the broker is stopped it waits, until ctx ends or for 5 s.
func (t *Transport) Open(ctx context.Context, o transport.Options) (transport.Link, error) {
	l, err := t.broker.open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open link: broker %s: %w", t.broker.options.Name, err)
	}
	return l, nil
}

func (b *Broker) open(ctx context.Context, o transport.Options) (*link, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	l := &link{broker: b, self: o.Self, client: o.Client, onState: o.OnState}
	for id := transport.Control; int(id) < o.Lanes; id++ {
		l.channels = append(l.channels, &channel{link: l, id: id, ready: make(chan struct{}, 1)})
	}
	if err := b.lockRunning(ctx); err != nil {
		return nil, err
	}
	if b.away[o.Self.Name] {
		b.mu.Unlock()
		return nil, fmt.Errorf("node %s is disconnected (call Broker.Reconnect)", o.Self.Name)
	}
	if b.byPeer[l.peer()] != nil {
		b.mu.Unlock()
		return nil, fmt.Errorf("%v already has a link (choose another incarnation)", o.Self)
	}
	b.byPeer[l.peer()] = l
	b.links = append(b.links, l)
	changed := b.updateLocked(l)
	b.mu.Unlock()
	for _, c := range changed {
		c.tell()
	}
	return l, nil
}

// lockRunning waits until the broker runs. It returns with b.mu held.
func (b *Broker) lockRunning(ctx context.Context) error {
	for {
		b.mu.Lock()
		if b.running {
			return nil
		}
		started := b.started
		b.mu.Unlock()
		select {
		case <-started:
		case <-ctx.Done():
			return fmt.Errorf("stopped: %w", ctx.Err())
		}
	}
}

// A link is one process's connections, guarded by the broker's mutex.
type link struct {
	broker   *Broker
	self     transport.Address
	client   bool
	onState  func(transport.Channel, transport.State)
	channels []*channel // control first
	serves   bool       // takes Anycast
	closed   bool
}

var (
	_ transport.Link         = (*link)(nil)
	_ transport.Counter      = (*link)(nil)
	_ transport.Confidential = (*link)(nil)
)

func (l *link) peer() transport.Peer { return transport.Peer{Address: l.self, Client: l.client} }

// sender returns zero for a member, because over NATS receivers cannot identify members either.
func (l *link) sender() transport.Address {
	if l.client {
		return l.self
	}
	return transport.Address{}
}

func (l *link) channel(ch transport.Channel) (*channel, error) {
	if i := int(ch) + 1; i >= 0 && i < len(l.channels) {
		return l.channels[i], nil
	}
	return nil, fmt.Errorf("channel %d: the link has lanes 0 to %d and Control", ch, len(l.channels)-2)
}

// Confidential returns nil, because messages do not leave the process.
func (l *link) Confidential() error { return nil }

// listening returns the channel if messages can reach it. l may be nil.
func (l *link) listening(ch transport.Channel) *channel {
	if l == nil {
		return nil
	}
	if c, err := l.channel(ch); err == nil && c.subscribed() {
		return c
	}
	return nil
}

func (l *link) readyLocked(c *channel, payload []byte) error {
	switch {
	case l.closed:
		return transport.ErrClosed
	case len(payload) > l.MaxPayload():
		return fmt.Errorf("%d bytes: %w of %d", len(payload), transport.ErrTooLarge, l.MaxPayload())
	case !c.state.Connected || len(c.untold) > 1:
		// Two unreported states: OnState has not reported the break yet.
		return fmt.Errorf("channel %d: %w", c.id, transport.ErrDisconnected)
	}
	return nil
}

// Send puts payload into the peer's queue.
func (l *link) Send(ch transport.Channel, to transport.Peer, token uint64, payload []byte) error {
	c, err := l.channel(ch)
	if err == nil {
		err = transport.CheckName("node", to.Name)
	}
	if err != nil {
		return fmt.Errorf("send to %v: %w", to.Address, err)
	}
	l.broker.mu.Lock()
	defer l.broker.mu.Unlock()
	if err := l.readyLocked(c, payload); err != nil {
		return fmt.Errorf("send to %v: %w", to.Address, err)
	}
	l.broker.sendLocked(delivery{from: c, peer: to, kind: transport.Direct, token: token, payload: bytes.Clone(payload)})
	return nil
}

// Broadcast puts payload into the control queue of every member.
func (l *link) Broadcast(payload []byte) error {
	if identity.Of(l.self.Incarnation) == identity.Client {
		return errors.New("broadcast: not allowed for a client (open the link as a member or an operator)")
	}
	l.broker.mu.Lock()
	defer l.broker.mu.Unlock()
	if err := l.readyLocked(l.channels[0], payload); err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	l.broker.broadcastLocked(l.channels[0], payload)
	return nil
}

// Anycast puts payload into the control queue of one serving member, chosen by the seed.
func (l *link) Anycast(token uint64, payload []byte) error {
	l.broker.mu.Lock()
	defer l.broker.mu.Unlock()
	if err := l.readyLocked(l.channels[0], payload); err != nil {
		return fmt.Errorf("anycast: %w", err)
	}
	l.broker.anycastLocked(l.channels[0], token, payload)
	return nil
}

// Serve sets whether the link can be chosen for an Anycast.
func (l *link) Serve(ctx context.Context, on bool) error {
	if l.client {
		return errors.New("serve: not allowed for a client (open the link as a member)")
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	l.broker.mu.Lock()
	defer l.broker.mu.Unlock()
	if l.closed {
		return fmt.Errorf("serve: %w", transport.ErrClosed)
	}
	l.serves = on
	return nil
}

// Receive waits for the channel's next message.
func (l *link) Receive(ch transport.Channel) (transport.Message, error) {
	c, err := l.channel(ch)
	if err != nil {
		return transport.Message{}, fmt.Errorf("receive: %w", err)
	}
	for {
		m, ok, err := c.pop()
		if ok || err != nil {
			return m, err
		}
		<-c.ready
	}
}

// TryReceive returns the next message if there is one.
func (l *link) TryReceive(ch transport.Channel) (transport.Message, bool) {
	c, err := l.channel(ch)
	if err != nil {
		return transport.Message{}, false
	}
	m, ok, _ := c.pop()
	return m, ok
}

// State returns the state of the channel's connection, or the zero State for a channel that does
// not exist.
func (l *link) State(ch transport.Channel) transport.State {
	l.broker.mu.Lock()
	defer l.broker.mu.Unlock()
	c, err := l.channel(ch)
	if err != nil || l.closed {
		return transport.State{}
	}
	return c.state
}

// Counts returns how many messages the channel had to drop, by reason.
func (l *link) Counts(ch transport.Channel) transport.Counts {
	l.broker.mu.Lock()
	defer l.broker.mu.Unlock()
	c, err := l.channel(ch)
	if err != nil {
		return transport.Counts{}
	}
	return transport.Counts{Dropped: c.dropped}
}

func (l *link) MaxPayload() int { return int(l.broker.maxPayload.Load()) }

// Flush returns at once, because Send has already routed its message.
func (l *link) Flush(ctx context.Context, ch transport.Channel) error {
	c, err := l.channel(ch)
	if err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	l.broker.mu.Lock()
	defer l.broker.mu.Unlock()
	if err := l.readyLocked(c, nil); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	return ctx.Err()
}

// Drain ends the lanes' subscriptions at once.
func (l *link) Drain(context.Context) error {
	l.broker.mu.Lock()
	defer l.broker.mu.Unlock()
	if l.closed {
		return fmt.Errorf("drain: %w", transport.ErrClosed)
	}
	for _, c := range l.channels[1:] {
		c.drained = true
		c.wake()
	}
	return nil
}

// Close removes the link from the broker.
func (l *link) Close() error {
	b := l.broker
	b.mu.Lock()
	if !l.closed {
		l.closed = true
		delete(b.byPeer, l.peer())
		b.links = slices.DeleteFunc(b.links, func(o *link) bool { return o == l })
		for _, c := range l.channels {
			c.untold = nil
			c.queue = nil
			c.wake()
		}
	}
	b.mu.Unlock()
	for _, c := range l.channels {
		c.awaitTeller()
	}
	return nil
}
