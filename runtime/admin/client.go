package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// Causes of a client's errors; test with errors.Is.
var (
	// ErrNoCluster: no process of the cluster answers. The error's text names the faulty part.
	ErrNoCluster = errors.New("no process of this cluster answers")
	// ErrNoMember: processes answer, but none of them is a member that is up.
	ErrNoMember = errors.New("no member is up")
	// ErrUnknownNode: no member has the requested name or incarnation.
	ErrUnknownNode = operator.ErrUnknownNode
	// ErrAmbiguous: several incarnations have the requested name.
	ErrAmbiguous = operator.ErrAmbiguous
	// ErrRefused: the process does not carry out the command; the error's text has the reason.
	ErrRefused = errors.New("refused")
)

// Options configure a client. Cluster and Transport must be set.
type Options struct {
	// Cluster is the name of the cluster: 1 to 64 of A-Z a-z 0-9 _ -.
	Cluster string
	// Transport reaches the cluster's broker.
	Transport transport.Transport
	// Name is the operator's name, formed like Cluster, for which the broker's permissions grant
	// rights. Default "shardctl".
	Name string
	// AnswerTimeout bounds the wait for one answer. Meanwhile the request is sent again every
	// 500ms, or every 100ms if any member can answer, because the broker may have picked a hanging
	// member. Default 3s; above 0.
	AnswerTimeout time.Duration
	// Logger receives the transport's log messages. Default: none are logged.
	Logger *slog.Logger
}

// defaultName is the default of Options.Name. Several operators may share it.
const defaultName = "shardctl"

// A Client sends queries and commands to a cluster from a process that is not a member. It is safe
// for concurrent use, and must be closed. A method sends its command again until an answer comes.
// So a process may carry out a command twice, which does no harm. Errors wrap one of this package's
// Err values if one fits, otherwise the error of the transport or of ctx.
type Client struct {
	cluster string
	options Options
	timeout time.Duration
	wg      sync.WaitGroup

	mu      sync.Mutex
	next    uint64
	pending map[uint64]chan reply

	opening sync.Mutex // guards the fields below; held while a link opens
	lines   map[identity.Class]*line
	closed  bool
}

const answerTimeout = 3 * time.Second

// Dial connects to the broker within ctx. It sends no request to the cluster. The first command
// opens a second connection, so an operator who only reads needs no right to command.
func Dial(ctx context.Context, o Options) (*Client, error) {
	switch {
	case o.Transport == nil:
		return nil, fmt.Errorf("reach cluster %s: Transport is nil (set natstransport.New(url))", o.Cluster)
	case o.AnswerTimeout < 0:
		return nil, fmt.Errorf("reach cluster %s: AnswerTimeout is %v (want more than 0, or 0 for the default of %v)", o.Cluster, o.AnswerTimeout, answerTimeout)
	}
	o.Name = cmp.Or(o.Name, defaultName)
	if o.AnswerTimeout == 0 {
		o.AnswerTimeout = answerTimeout
	}
	c := &Client{cluster: o.Cluster, options: o, timeout: o.AnswerTimeout, next: rand.Uint64(), pending: map[uint64]chan reply{}}
	if _, err := c.line(ctx, identity.Reader); err != nil {
		return nil, fmt.Errorf("reach cluster %s: %w", o.Cluster, err)
	}
	return c, nil
}

// State returns an entity with its encoded state, unless a turn of the entity is under way. It
// needs an operator's right to command, and the member logs each call with the operator's name. The
// id is in wire form: a string unchanged, an integer in decimal, or MarshalText's result.
func (c *Client) State(ctx context.Context, kind, id string) (Entity, error) {
	return c.askEntity(ctx, operator.Request{Command: operator.State, Entity: Entity{Kind: kind, ID: id}})
}

// SetState replaces the state of an inactive entity. A nil state drops the entity's state, and the
// next call begins a fresh entity. The request is refused if the entity is active (call it
// instead), or if its node cannot decode the state.
func (c *Client) SetState(ctx context.Context, kind, id string, state []byte) (Entity, error) {
	return c.askEntity(ctx, operator.Request{Command: operator.SetState, Entity: Entity{Kind: kind, ID: id, State: state}})
}

const look = 200 * time.Millisecond

// Join commands the process called name, started with Config.Membership.JoinByCommand, to join
// through the nodes named by seeds or, without seeds, as its own config says. It waits until the
// process is up, or until ctx ends.
func (c *Client) Join(ctx context.Context, name string, seeds ...string) (transport.Address, error) {
	a, err := c.ask(ctx, everyProcess, operator.Request{Command: operator.Join, Node: transport.Address{Name: name}, Seeds: seeds})
	switch {
	case errors.Is(err, ErrRefused):
		return a.View.Self, fmt.Errorf("cluster %s: %w", c.cluster, err)
	case err != nil:
		return transport.Address{}, fmt.Errorf("cluster %s: join %s: no process of that name answers: %w (is it started with Config.Membership.JoinByCommand, and connected to this broker?)", c.cluster, name, err)
	}
	node := a.View.Self
	err = c.until(ctx, func() (bool, error) {
		a, err := c.ask(ctx, recipient{to: node, what: node.String()}, operator.Request{Command: operator.Members})
		if errors.Is(err, errNobody) {
			return false, fmt.Errorf("%v has ended (see its log)", node)
		}
		return err == nil && a.View.Status >= membership.Up, nil
	})
	if err != nil {
		return node, fmt.Errorf("cluster %s: join %v: the process accepted the command, but is not up yet: %w", c.cluster, node, err)
	}
	return node, nil
}

// Leave commands a member ("name" or "name#incarnation") to leave in order. It waits until the
// cluster has removed the member, or until ctx ends.
func (c *Client) Leave(ctx context.Context, node string) (transport.Address, error) {
	m, _, err := c.find(ctx, "leave", node)
	if err != nil {
		return transport.Address{}, err
	}
	if _, err := c.ask(ctx, recipient{to: m.Address, what: m.Address.String()}, operator.Request{Command: operator.Leave, Node: m.Address}); err != nil {
		if errors.Is(err, errNobody) {
			err = fmt.Errorf("%w (if the member's process is dead: shardctl down)", err)
		}
		return m.Address, fmt.Errorf("cluster %s: %w", c.cluster, err)
	}
	err = c.until(ctx, func() (bool, error) {
		v, err := c.Members(ctx)
		switch {
		case errors.Is(err, ErrNoCluster):
			return true, nil // the member was the last one
		case errors.Is(err, ErrNoMember):
			return c.absent(ctx, m.Address), nil
		case err != nil:
			return false, nil // ask again
		}
		now, err := v.Find(m.Address.String())
		if err == nil && now.Status == membership.Down {
			return false, fmt.Errorf("%v was downed while it left", m.Address)
		}
		return err != nil, nil
	})
	if err != nil {
		return m.Address, fmt.Errorf("cluster %s: leave %v: the process accepted the command, but is still a member: %w", c.cluster, m.Address, err)
	}
	return m.Address, nil
}

// Place pins the shard of an entity to the member named home; the pin survives restarts of members
// (see shard.Node.PinShards). An empty home withdraws the pin. Place returns the present home,
// because the shard moves later.
func (c *Client) Place(ctx context.Context, kind, id, home string) (Place, error) {
	if home != "" {
		if _, _, err := c.find(ctx, "place at", home); err != nil {
			return Place{}, err
		}
	}
	return c.askHost(ctx, operator.Request{Command: operator.Place, Entity: Entity{Kind: kind, ID: id}, Home: home})
}

// MoveShard moves a shard once to the member named home, without pinning it (see
// shard.Node.MoveShard). It does not wait for the end of the move.
func (c *Client) MoveShard(ctx context.Context, kind string, shard uint32, home string) error {
	if _, _, err := c.find(ctx, "move to", home); err != nil {
		return err
	}
	_, err := c.answerOfHost(ctx, operator.Request{Command: operator.MoveShard, Entity: Entity{Kind: kind}, Count: shard, Home: home})
	return err
}

// SizePool asks for a number of instances of a pool; 0 lets its load decide again (see
// shard.Node.SizePool). It does not wait for the instances.
func (c *Client) SizePool(ctx context.Context, kind string, instances uint32) error {
	_, err := c.answerOfHost(ctx, operator.Request{Command: operator.SizePool, Entity: Entity{Kind: kind}, Count: instances})
	return err
}

// Rebalance makes the coordinator begin rebalancing moves at once, including those of shards whose
// moves just failed. Rebalance returns the number of moves as text. It is refused while rebalancing
// is paused, and while the members do not agree on the view.
func (c *Client) Rebalance(ctx context.Context) (result string, err error) {
	return c.balance(ctx, operator.Rebalance)
}

// PauseRebalancing stops rebalancing moves until [Client.ResumeRebalancing], even if the
// coordinator changes. Moves under way go on, shards without a home still get one, and shards still
// move away from leaving members and to the homes of [Client.Place]. PauseRebalancing returns when
// all members with hosted types have confirmed the pause. [View] shows the pause. The pause ends if
// all members stop at once.
func (c *Client) PauseRebalancing(ctx context.Context) error {
	_, err := c.balance(ctx, operator.PauseRebalancing)
	return err
}

// ResumeRebalancing ends a pause. It does nothing if there is none.
func (c *Client) ResumeRebalancing(ctx context.Context) error {
	_, err := c.balance(ctx, operator.ResumeRebalancing)
	return err
}

func (c *Client) balance(ctx context.Context, what operator.Command) (string, error) {
	a, err := c.ask(ctx, anyMember, operator.Request{Command: what})
	if err != nil {
		return "", fmt.Errorf("cluster %s: %w", c.cluster, err)
	}
	return a.Result, nil
}

// Down declares a member ("name" or "name#incarnation") down, through another member. The downed
// member's shards get new homes, so the operator must make sure that its process has stopped.
// Without force, Down refuses a member that is up and reachable.
func (c *Client) Down(ctx context.Context, node string, force bool) (transport.Address, error) {
	m, v, err := c.find(ctx, "down", node)
	if err != nil {
		return transport.Address{}, err
	}
	by := v.Self
	for _, o := range v.Members {
		if by == m.Address && o.Address != m.Address && o.Status == membership.Up && o.Reachable {
			by = o.Address // the member itself would stop before telling the others
		}
	}
	_, err = c.ask(ctx, recipient{to: by, what: by.String()}, operator.Request{Command: operator.Down, Node: m.Address, Force: force})
	if err != nil {
		return m.Address, fmt.Errorf("cluster %s: %w", c.cluster, err)
	}
	return m.Address, nil
}

func (c *Client) until(ctx context.Context, holds func() (bool, error)) error {
	again := time.NewTicker(look)
	defer again.Stop()
	for {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
