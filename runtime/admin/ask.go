package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

type line struct {
	self transport.Peer
	link transport.Link
}

func (c *Client) line(ctx context.Context, class identity.Class) (*line, error) {
	c.opening.Lock()
	defer c.opening.Unlock()
	if l := c.lines[class]; l != nil {
		return l, nil
	}
	if c.closed {
		return nil, transport.ErrClosed
	}
	l := &line{self: transport.Peer{Address: transport.Address{Name: c.options.Name, Incarnation: identity.New(class)}, Client: true}}
	var err error
	l.link, err = c.options.Transport.Open(ctx, transport.Options{
		Cluster: c.cluster, Self: l.self.Address, Client: true, Lanes: 1, Logger: c.options.Logger,
	})
	if err != nil {
		return nil, err
	}
	if c.lines == nil {
		c.lines = map[identity.Class]*line{}
	}
	c.lines[class] = l
	c.wg.Go(func() { c.receive(l.link) })
	return l, nil
}

type reply struct {
	from   transport.Peer
	answer operator.Answer
	nobody bool
	denied error // the broker's refusal
}

// Close ends the connections. It may be called twice.
func (c *Client) Close() error {
	c.opening.Lock()
	c.closed = true
	var errs []error
	for _, l := range c.lines { //arch:order-free each is closed by itself
		errs = append(errs, l.link.Close())
	}
	c.opening.Unlock()
	c.wg.Wait()
	return errors.Join(errs...)
}

func (c *Client) receive(link transport.Link) {
	for {
		m, err := link.Receive(transport.Control)
		if err != nil {
			return
		}
		if m.Kind == transport.Unreachable && len(m.Payload) > 0 {
			c.deny(errors.New(string(m.Payload)))
			continue
		}
		if m.Kind == transport.Unreachable {
			c.hand(m.Token, reply{from: transport.Peer{Address: m.From}, nobody: true})
			continue
		}
		from, topic, body, err := wire.OpenControl(c.cluster, m.Payload)
		if err != nil || topic != wire.ControlTopic_CONTROL_TOPIC_ADMIN || !wire.Vouched(m, from) {
			continue // no operator message
		}
		if id, _, a, err := operator.Decode(body); err == nil && a != nil {
			c.hand(id, reply{from: from, answer: *a})
		}
	}
}

// repliesKept bounds a request's unread answers, at twice the size of the largest simulated
// cluster.
const repliesKept = 4096

func (c *Client) hand(id uint64, r reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch := c.pending[id]; ch != nil {
		select {
		case ch <- r:
		default: // the channel is full
		}
	}
}

// deny fails all waiting requests, because the broker refuses them.
func (c *Client) deny(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.pending { //arch:order-free each is told by itself
		select {
		case ch <- reply{denied: why}:
		default:
		}
	}
}

func (c *Client) open() (id uint64, replies <-chan reply, end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	id = c.next
	ch := make(chan reply, repliesKept)
	c.pending[id] = ch
	return id, ch, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pending, id)
	}
}

type recipient struct {
	to   transport.Address // zero: not to a named process
	what string
	all  bool // every process
}

var (
	anyMember    = recipient{what: "any member"}
	everyProcess = recipient{what: "every process", all: true}
)

func (c *Client) send(ctx context.Context, to recipient, id uint64, r operator.Request) error {
	class := identity.Reader
	if r.Command.ForOperators() {
		class = identity.Operator
	}
	l, err := c.line(ctx, class)
	if err != nil {
		return err
	}
	body, err := operator.Encode(id, &r, nil)
	if err != nil {
		return err
	}
	b := wire.SealControl(c.cluster, l.self, wire.ControlTopic_CONTROL_TOPIC_ADMIN, body)
	switch {
	case to.all:
		return l.link.Broadcast(b)
	case to.to.IsZero():
		return l.link.Anycast(id, b)
	}
	return l.link.Send(transport.Control, transport.Peer{Address: to.to}, id, b)
}

const (
	// askAgain is the time after which a request is repeated. Executing a command twice is
	// harmless.
	askAgain = 500 * time.Millisecond
	// askAnother is used instead of askAgain for requests that any member may answer. It is
	// shorter, because the member that was picked first may hang.
	askAnother = 100 * time.Millisecond
)

func pauseOf(to recipient, r operator.Request) time.Duration {
	if to == anyMember && !r.Command.ForOperators() {
		return askAnother
	}
	return askAgain
}

var errNobody = errors.New("the broker reports no listener")

// ask repeats a request until it is answered. It fails with errNobody if nobody listens.
func (c *Client) ask(ctx context.Context, to recipient, r operator.Request) (operator.Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer within %v", c.timeout))
	defer cancel()
	id, replies, end := c.open()
	defer end()
	again := time.NewTicker(pauseOf(to, r))
	defer again.Stop()
	for {
		if err := c.send(ctx, to, id, r); err != nil && !errors.Is(err, transport.ErrDisconnected) {
			return operator.Answer{}, fmt.Errorf("%v: ask %s: %w", r.Command, to.what, err)
		}
		select {
		case got := <-replies:
			switch {
			case got.denied != nil:
				return operator.Answer{}, fmt.Errorf("%v: ask %s: %w", r.Command, to.what, got.denied)
			case got.nobody:
				return operator.Answer{}, fmt.Errorf("%v: ask %s: %w", r.Command, to.what, errNobody)
			case got.answer.Refusal != "":
				return got.answer, fmt.Errorf("%v: %w by %s: %s", r.Command, ErrRefused, got.from.Name, got.answer.Refusal)
			}
			return got.answer, nil
		case <-again.C:
		case <-ctx.Done():
			return operator.Answer{}, fmt.Errorf("%v: ask %s: %w", r.Command, to.what, context.Cause(ctx))
		}
	}
}
