package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/operator"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// Causes of a client's errors; test with errors.Is.
var (
	// ErrNoCluster: no process of the cluster answers. The error names the faulty part.
	ErrNoCluster = errors.New("no process of this cluster answers")
	// ErrNoMember: processes answer, but none of them is a member that is up.
	ErrNoMember = errors.New("no member is up")
	// ErrUnknownNode: no member has that name or incarnation.
	ErrUnknownNode = operator.ErrUnknownNode
	// ErrAmbiguous: several incarnations have that name.
	ErrAmbiguous = operator.ErrAmbiguous
	// ErrRefused: the process that was asked does not obey; the text says why.
	ErrRefused = errors.New("refused")
)

// Options say which cluster a client speaks to. Cluster and Transport must be set.
type Options struct {
	// Cluster is its name: 1 to 64 of A-Z a-z 0-9 _ -.
	Cluster string
	// Transport reaches the cluster's broker.
	Transport transport.Transport
	// Name is the client's own, of the same characters. Default "shardctl-<pid>".
	Name string
	// AnswerTimeout bounds the wait for one answer, in which the request is sent
	// again every 500ms. Default 3s; above 0.
	AnswerTimeout time.Duration
	// Logger receives the transport's messages. Default: none.
	Logger *slog.Logger
}

// A Client asks and commands a cluster from outside. It is safe for concurrent use, and
// must be closed. Its methods send a command again until it is answered, so a process may
// obey one twice, which does no harm. Errors wrap one of this package's Err values where
// one fits, otherwise the error of the transport or of ctx.
type Client struct {
	cluster string
	timeout time.Duration
	self    transport.Peer
	link    transport.Link
	wg      sync.WaitGroup

	mu      sync.Mutex
	next    uint64
	pending map[uint64]chan reply
}

// reply is the response to a request: an answer, or the broker's notice that nobody
// listens.
type reply struct {
	from   transport.Peer
	answer operator.Answer
	nobody bool
}

// answerTimeout is the default of Options.AnswerTimeout.
const answerTimeout = 3 * time.Second

// Dial connects to the broker, without a request to the cluster. ctx bounds the
// connecting.
func Dial(ctx context.Context, o Options) (*Client, error) {
	switch {
	case o.Transport == nil:
		return nil, fmt.Errorf("reach cluster %s: Transport is nil (set natstransport.New(url))", o.Cluster)
	case o.AnswerTimeout < 0:
		return nil, fmt.Errorf("reach cluster %s: AnswerTimeout is %v (want more than 0, or 0 for the default of %v)", o.Cluster, o.AnswerTimeout, answerTimeout)
	}
	if o.Name == "" {
		o.Name = fmt.Sprintf("shardctl-%d", os.Getpid())
	}
	if o.AnswerTimeout == 0 {
		o.AnswerTimeout = answerTimeout
	}
	c := &Client{cluster: o.Cluster, timeout: o.AnswerTimeout, next: rand.Uint64(), pending: map[uint64]chan reply{}}
	c.self = transport.Peer{Address: transport.Address{Name: o.Name, Incarnation: rand.Uint64()}, Client: true}
	link, err := o.Transport.Open(ctx, transport.Options{
		Cluster: o.Cluster, Self: c.self.Address, Client: true, Lanes: 1, Logger: o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("reach cluster %s: %w", o.Cluster, err)
	}
	c.link = link
	c.wg.Go(c.receive)
	return c, nil
}

// Close ends the connection. It may be called twice.
func (c *Client) Close() error {
	err := c.link.Close()
	c.wg.Wait()
	return err
}

func (c *Client) receive() {
	for {
		m, err := c.link.Receive(transport.Control)
		if err != nil {
			return
		}
		if m.Kind == transport.Unreachable {
			c.hand(m.Token, reply{from: transport.Peer{Address: m.From}, nobody: true})
			continue
		}
		from, topic, body, err := wire.OpenControl(c.cluster, m.Payload)
		if err != nil || topic != wire.ControlTopic_CONTROL_TOPIC_ADMIN {
			continue // not for operators
		}
		if id, _, a, err := operator.Decode(body); err == nil && a != nil {
			c.hand(id, reply{from: from, answer: *a})
		}
	}
}

// repliesKept bounds the answers to one request that wait to be read: the
// processes of the largest cluster that is simulated, and then some.
const repliesKept = 4096

func (c *Client) hand(id uint64, r reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch := c.pending[id]; ch != nil {
		select {
		case ch <- r:
		default: // more processes than anybody reads
		}
	}
}

// open begins a request; end forgets it.
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

// A recipient receives a request.
type recipient struct {
	to   transport.Address // zero: not one process
	what string
	all  bool // every process
}

var (
	anyMember    = recipient{what: "any member"}
	everyProcess = recipient{what: "every process", all: true}
)

func (c *Client) send(to recipient, id uint64, r operator.Request) error {
	body, err := operator.Encode(id, &r, nil)
	if err != nil {
		return err
	}
	b := wire.SealControl(c.cluster, c.self, wire.ControlTopic_CONTROL_TOPIC_ADMIN, body)
	switch {
	case to.all:
		return c.link.Broadcast(b)
	case to.to.IsZero():
		return c.link.Anycast(id, b)
	}
	return c.link.Send(transport.Control, transport.Peer{Address: to.to}, id, b)
}

// askAgain is how long after an unanswered request it is sent once more; all
// commands may be obeyed twice.
const askAgain = 500 * time.Millisecond

var errNobody = errors.New("nobody listens there")

// ask sends a request until it is answered. errNobody is the broker's word that
// nobody listens.
func (c *Client) ask(ctx context.Context, to recipient, r operator.Request) (operator.Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer within %v", c.timeout))
	defer cancel()
	id, replies, end := c.open()
	defer end()
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for {
		if err := c.send(to, id, r); err != nil && !errors.Is(err, transport.ErrDisconnected) {
			return operator.Answer{}, fmt.Errorf("%v: ask %s: %w", r.Command, to.what, err)
		}
		select {
		case got := <-replies:
			switch {
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

// Unreadable lists the entities of a type whose state their nodes could not read when
// they were last called, in order of ids; up to 1,000 of each node. The error names
// members that do not answer; the answers of the others are returned.
func (c *Client) Unreadable(ctx context.Context, kind string) ([]Entity, error) {
	at, err := hosts(ctx, c, kind)
	if err != nil {
		return nil, err
	}
	var found []Entity
	for _, node := range at {
		a, askErr := c.ask(ctx, recipient{to: node, what: node.String()}, operator.Request{Command: operator.State, Entity: Entity{Kind: kind}})
		if askErr != nil {
			err = fmt.Errorf("cluster %s: %w", c.cluster, askErr)
		}
		found = append(found, a.Entities...)
	}
	slices.SortFunc(found, func(a, b Entity) int { return cmp.Compare(a.ID, b.ID) })
	return found, err
}

// State returns an entity with its encoded state. Its id is as on the wire: the string
// itself, an integer in decimal, or its text.
func (c *Client) State(ctx context.Context, kind, id string) (Entity, error) {
	return askEntity(ctx, c, operator.Request{Command: operator.State, Entity: Entity{Kind: kind, ID: id}})
}

// SetState replaces the state of an entity that is not active; nil drops it, so that
// the entity's next call finds it fresh. A state that its node cannot read is refused,
// and so is one for an active entity: call it instead.
func (c *Client) SetState(ctx context.Context, kind, id string, state []byte) (Entity, error) {
	return askEntity(ctx, c, operator.Request{Command: operator.SetState, Entity: Entity{Kind: kind, ID: id, State: state}})
}

// maxWay is how often a request follows an entity that moves.
const maxWay = 4

// askEntity asks the node of an entity, which any host of its type knows.
func askEntity(ctx context.Context, c *Client, r operator.Request) (Entity, error) {
	at, err := hosts(ctx, c, r.Entity.Kind)
	if err != nil {
		return Entity{}, err
	}
	home := at[0]
	for range maxWay {
		a, err := c.ask(ctx, recipient{to: home, what: home.String()}, r)
		switch {
		case err != nil:
			return Entity{}, fmt.Errorf("cluster %s: %s/%s: %w", c.cluster, r.Entity.Kind, r.Entity.ID, err)
		case len(a.Entities) != 1:
			return Entity{}, fmt.Errorf("cluster %s: %s/%s: %s gave %d answers (upgrade it)", c.cluster, r.Entity.Kind, r.Entity.ID, home.Name, len(a.Entities))
		case a.Entities[0].Node == home:
			return a.Entities[0], nil
		}
		home = a.Entities[0].Node
	}
	return Entity{}, fmt.Errorf("cluster %s: %s/%s: it moves (try again)", c.cluster, r.Entity.Kind, r.Entity.ID)
}

// hosts are the members that host a type.
func hosts(ctx context.Context, c *Client, kind string) ([]transport.Address, error) {
	v, err := c.Members(ctx)
	if err != nil {
		return nil, err
	}
	var at []transport.Address
	var kinds []string
	for _, m := range v.Members {
		if slices.Contains(m.Hosts, kind) {
			at = append(at, m.Address)
		}
		kinds = append(kinds, m.Hosts...)
	}
	if len(at) == 0 {
		slices.Sort(kinds)
		return nil, fmt.Errorf("cluster %s: no member hosts the type %s (there are: %v)", c.cluster, kind, slices.Compact(kinds))
	}
	return at, nil
}
