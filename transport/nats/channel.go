package natstransport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/transport"
)

const (
	// queueLength bounds the messages that wait for Receive. nats.go drops further messages. The
	// windows of sessions are far smaller.
	queueLength = 64 << 10
	// maxPast bounds the ended connections that are kept to recognize their queued messages.
	maxPast = 2
	// maxKnown bounds how many servers are tried beside the configured servers.
	maxKnown = 32
)

// A channel is an ordered stream of messages. Its queue outlives connections.
type channel struct {
	id       transport.Channel
	options  nats.Options // shared by all connections; never changed
	subjects subjects
	routes   routes
	client   bool
	role     string   // arguments of shardctl permissions for this process
	probes   []string // subjects to which the first connection publishes
	log      *slog.Logger
	outage   *outage // shared by all channels of the link
	onState  func(transport.Channel, transport.State)

	messages   chan *nats.Msg
	fair       fairQueue     // taken from messages; belongs to the goroutine that receives
	senders    senders       // belongs to the goroutine that receives
	quit       chan struct{} // closed by Close
	dry        chan struct{} // closed by a finished Drain
	serving    chan struct{} // holds a token while a Serve is under way
	connection atomic.Pointer[connection]

	foreign atomic.Uint64 // messages on subjects that no link writes
	denied  atomic.Uint64 // errors of the server about sent messages
	crowded atomic.Uint64 // how often the queue was full
	faults  atomic.Uint64 // other errors of the broker

	mu       sync.Mutex // guards the fields below; never held while sending
	closed   bool
	interest interest
	past     []*connection // ended connections, latest first
	dropped  uint64        // messages dropped by past connections because the queue was full
	known    []string      // servers that the cluster has announced
	moves    bool          // the next connection must be to another server
	left     []string      // the instances from which the connection has moved, the latest last
}

// An interest is the variable part of a channel's subscriptions. It is kept over reconnects.
type interest struct {
	drained bool // there are no subscriptions
	serves  bool // the subscriptions for Anycast exist, too
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

// adopt makes s the channel's connection. It returns false if the channel was closed, or the
// interest changed while s subscribed.
func (c *channel) adopt(s *connection, subscribed interest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.interest != subscribed {
		return false
	}
	c.connection.Store(s)
	return true
}

// retire remembers an ended connection, its dropped messages, and the servers announced on it.
func (c *channel) retire(s *connection) {
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

// withUser adds the configured user to a server's URL, because announced URLs have no user.
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

// tellDenied makes Receive report a refused right. A full queue drops this report; the next refusal
// makes another.
func (c *channel) tellDenied(to transport.Address, err error) {
	m := &nats.Msg{Data: []byte(deny(err, c.role).Error())} // without a Sub, which all other messages have
	if !to.IsZero() {
		m.Subject = node(to)
	}
	select {
	case c.messages <- m:
	default:
	}
}

func (c *channel) state() transport.State {
	s := c.connection.Load()
	if s == nil || c.isClosed() {
		return transport.State{}
	}
	if s.isOver() {
		return transport.State{}
	}
	return s.state()
}

func (c *channel) serverOf(m *nats.Msg) string {
	if s := c.connection.Load(); s.replies == m.Sub {
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

func (c *channel) asyncError(s *connection, sub *nats.Subscription, err error) {
	switch {
	case errors.Is(err, nats.ErrSlowConsumer) && sub != nil:
		s.countDropped() // nats.go forgets the count when the connection ends
		dropped := c.countDropped()
		if n := c.crowded.Add(1); powerOfTwo(n) {
			c.log.Error("received messages dropped: the queue is full", "subject", sub.Subject, "dropped", dropped, "queue", queueLength, "count", n)
		}
	case errors.Is(err, nats.ErrPermissionViolation):
		if n := c.denied.Add(1); powerOfTwo(n) {
			c.log.Error("broker denied a subject", "cause", bounded.Error(deny(err, c.role)), "count", n)
		}
		subject, publish := deniedSubject(err)
		switch {
		case c.connection.Load() == nil: // Open returns the error
		case publish:
			c.tellDenied(c.subjects.addressee(subject), err)
		case subject != "" && c.connection.Load() == s && !slices.Contains(c.subjects.serve, subject): // otherwise Serve or confirm handles it
			// The right to listen was taken away, so the connection gets no messages on this
			// subject. It is ended; later ones fail with the refusal until the right is back.
			s.wire.drop()
			c.tellDenied(transport.Address{}, err)
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
	n := c.dropped + c.fair.dropped.Load()
	// If s is past[0], it has ended, and c.dropped already counts its messages.
	if s := c.connection.Load(); s != nil && (len(c.past) == 0 || c.past[0] != s) {
		n += s.countDropped()
	}
	return n
}

// powerOfTwo reports whether to log the nth occurrence of an event.
func powerOfTwo(n uint64) bool { return bits.OnesCount64(n) == 1 }

func (c *channel) publish(subject, reply string, payload []byte) error {
	if c.isClosed() {
		return transport.ErrClosed
	}
	s := c.connection.Load()
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
	// Other failures mean that the connection has ended or, after a failed write, will end.
	return fmt.Errorf("channel %s: %w: %w", c.subjects.channel, transport.ErrDisconnected, err)
}

func (c *channel) broken(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case c.isClosed():
		return transport.ErrClosed
	}
	return fmt.Errorf("%w: %w", transport.ErrDisconnected, err)
}

func (c *channel) drain(ctx context.Context) error {
	c.mu.Lock()
	c.interest.drained = true
	closed, s := c.closed, c.connection.Load()
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

func (c *channel) close(timeout time.Duration) {
	close(c.quit)
	c.mu.Lock()
	c.closed = true
	s := c.connection.Load()
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

// A server reports that nobody listens by the header statusHeader with the value noResponders.
const (
	statusHeader = "Status"
	noResponders = "503"
)

func (c *channel) pull() (*nats.Msg, bool) {
	if c.fair.n > 0 {
		return gather(nil, c), true
	}
	select {
	case m := <-c.messages:
		if len(c.messages) > 0 {
			m = gather(m, c)
		}
		return m, m != nil
	default:
		return nil, false
	}
}

func (c *channel) next() (*nats.Msg, error) {
	if c.isClosed() {
		return nil, transport.ErrClosed
	}
	if m, ok := c.pull(); ok {
		return m, nil
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

// parse reads the kind and the sender of a message from the part of its subject after
// "sh.<cluster>.". It does not check that prefix, because the link subscribes only to subjects that
// begin with it.
func (c *channel) parse(m *nats.Msg) (transport.Message, bool) {
	if m.Sub == nil { // of tellDenied
		from, _ := address(m.Subject)
		return transport.Message{Kind: transport.Unreachable, From: from, Payload: m.Data}, true
	}
	if i := len(c.subjects.prefix); len(m.Subject) > i+2 {
		switch m.Subject[i : i+2] {
		case wordMember + ".":
			return transport.Message{Kind: kindTo(m.Subject[i+2:]), Payload: m.Data}, true
		case wordReply + ".":
			if word, ok := strings.CutPrefix(m.Subject, c.subjects.replies); ok {
				if msg, ok := c.parseReply(word, m); ok {
					return msg, true
				}
			}
		case wordClient + ".", wordOperator + ".":
			if from, to, ok := c.senders.sender(m.Subject[i:]); ok {
				return transport.Message{Kind: kindTo(to), From: from, Payload: m.Data}, true
			}
		}
	}
	if n := c.foreign.Add(1); powerOfTwo(n) {
		c.log.Warn("foreign message ignored", "subject", bounded.Text(m.Subject), "bytes", len(m.Data), "count", n)
	}
	return transport.Message{}, false
}

func kindTo(receiver string) transport.Kind {
	switch receiver {
	case wordAll:
		return transport.Broadcast
	case wordAny:
		return transport.Anycast
	}
	return transport.Direct
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

// wish records whether connections must subscribe to Anycast. The caller must change the
// subscriptions of the returned connection. From then on, adopt refuses connections with the former
// interest.
func (c *channel) wish(serves bool) (*connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, transport.ErrClosed
	}
	c.interest.serves = serves
	return c.connection.Load(), nil
}

// connect makes one attempt to connect. It returns when the server has confirmed the subscriptions.
func (c *channel) connect(ctx context.Context, in interest) (*connection, error) {
	s, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.confirm(ctx, s, in); err != nil {
		return nil, err
	}
	return s, nil
}

// dial connects to a server. After a call of move, it first tries the servers from which the
// channel has not moved yet. If it reaches none of these, it tries any server except the one from
// which the channel moved last, and finally any server. A server may have several addresses, so
// only an open connection shows which server it has reached.
func (c *channel) dial(ctx context.Context) (*connection, error) {
	servers, left := c.servers(), c.takeMove()
	if len(left) == 0 {
		return c.dialOf(ctx, servers, false, false)
	}
	for _, avoid := range [][]string{left, left[len(left)-1:]} {
		for range servers {
			s, err := c.dialOf(ctx, servers, true, false)
			if err != nil || !slices.Contains(avoid, s.server) {
				return s, err
			}
			s.end()
			servers = append(servers[1:], servers[0])
		}
	}
	return c.dialOf(ctx, servers, false, false)
}

// dialOf connects to one of the servers. If quiet, it reports no events.
func (c *channel) dialOf(ctx context.Context, servers []string, inOrder, quiet bool) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout+dialExtra)
	defer cancel()
	s := &connection{over: make(chan struct{})}
	o := c.options
	o.PingInterval = 0 // upkeep pings itself, and does not close a socket when an answer is missing
	o.Servers, o.NoRandomize = slices.Clone(servers), o.NoRandomize || inOrder
	if quiet {
		o.ConnectedCB, o.ClosedCB, o.DisconnectedErrCB, o.DiscoveredServersCB, o.LameDuckModeHandler = nil, nil, nil, nil, nil
	}
	closedCB := o.ClosedCB
	o.ClosedCB = func(nc *nats.Conn) {
		close(s.over)
		if closedCB != nil {
			closedCB(nc)
		}
	}
	errorCB := o.AsyncErrorCB
	o.AsyncErrorCB = func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if quiet {
			return
		}
		c.asyncError(s, sub, err)
		if errorCB != nil {
			errorCB(nc, sub, err)
		}
	}
	d := &dialer{ctx: ctx}
	d.use(&o)
	defer d.release()
	nc, err := o.Connect()
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		} else if errors.Is(err, nats.ErrNoServers) && d.lastErr() != nil {
			err = d.lastErr()
		}
		return nil, err
	}
	s.nc, s.wire = nc, d.wire()
	s.server = nc.ConnectedServerId()
	if name := nc.ConnectedServerName(); nc.ConnectedClusterName() != "" && name != s.server {
		s.name = name // in a cluster no two servers have the same name; by default it is the id
	}
	// A server outside a cluster may still serve leaf nodes, which it does not announce. Members
	// configured with one address cannot move to these.
	s.alone = nc.ConnectedClusterName() == "" && len(c.options.Servers) == 1
	return s, nil
}

// move ends the connection, and makes the next one go to another server.
func (c *channel) move() {
	s := c.connection.Load()
	if s == nil {
		return
	}
	c.mu.Lock()
	if slices.Contains(c.left, s.server) || len(c.left) == maxKnown { // it has been everywhere: another round
		c.left = nil
	}
	c.moves, c.left = true, append(c.left, s.server)
	c.mu.Unlock()
	s.nc.Close()
}

// takeMove returns the servers from which the channel has moved, the latest last. The list begins
// anew when the channel moves from one of these servers again, or when the list is full. takeMove
// returns the list once after each call of move, and otherwise nil.
func (c *channel) takeMove() (left []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moves {
		left, c.moves = slices.Clone(c.left), false
	}
	return left
}

// confirm subscribes and awaits the server's confirmation. If confirm fails, s has ended.
func (c *channel) confirm(ctx context.Context, s *connection, in interest) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, s.wire.drop)() // nats.go's writes have no context
	if err := c.subscribe(ctx, s, in); err != nil {
		s.nc.Close()
		return err
	}
	s.began = time.Now()
	return nil
}

func (c *channel) subscribe(ctx context.Context, s *connection, in interest) (err error) {
	first := c.connection.Load() == nil
	for _, subject := range c.probes { // before the subscriptions, so that their refusal is the last error
		if err := s.nc.Publish(subject, nil); err != nil {
			return err
		}
	}
	if !in.drained {
		listen := func(subject, queue string) *nats.Subscription {
			if err != nil {
				return nil
			}
			var sub *nats.Subscription
			sub, err = c.listen(s, subject, queue)
			return sub
		}
		s.replies = listen(c.subjects.replies+">", "")
		for _, subject := range c.subjects.listen {
			listen(subject, "")
		}
		if in.serves {
			for _, subject := range c.subjects.serve {
				if sub := listen(subject, anyQueue); sub != nil {
					s.serving = append(s.serving, sub)
				}
			}
		}
		if err != nil {
			return err
		}
	}
	if err := s.nc.FlushWithContext(ctx); err != nil {
		if last := s.nc.LastError(); last != nil {
			return last
		}
		return err
	}
	// The error of a refused subject comes before the flush's answer. A running process that has
	// lost a right to publish goes on with its other rights.
	if err := s.nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) && (first || !refusedToPublish(err)) {
		return deny(err, c.role)
	}
	return nil
}

func (c *channel) listen(s *connection, subject, queue string) (*nats.Subscription, error) {
	sub, err := s.nc.ChanQueueSubscribe(subject, queue, c.messages)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs = append(s.subs, sub)
	return sub, nil
}
