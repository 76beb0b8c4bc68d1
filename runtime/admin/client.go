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
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/identity"
	"github.com/shardgen/shardgen/internal/operator"
	"github.com/shardgen/shardgen/runtime/membership"
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
	// Name is the operator's, of the same characters, as the broker's permissions grant it.
	// Default "shardctl-<pid>".
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
type Client struct{ *requester }

// answerTimeout is the default of Options.AnswerTimeout.
const answerTimeout = 3 * time.Second

// Dial connects to the broker, without a request to the cluster. ctx bounds the
// connecting. Commands have a connection of their own, which the first one opens: an operator
// who may only read needs no rights for it.
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
	c := &requester{cluster: o.Cluster, options: o, timeout: o.AnswerTimeout, next: rand.Uint64(), pending: map[uint64]chan reply{}}
	if _, err := c.line(ctx, identity.Reader); err != nil {
		return nil, fmt.Errorf("reach cluster %s: %w", o.Cluster, err)
	}
	return &Client{c}, nil
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

// hosts are the members that host a type, those that are up and reachable first.
func hosts(ctx context.Context, c *Client, kind string) ([]transport.Address, error) {
	v, err := c.Members(ctx)
	if err != nil {
		return nil, err
	}
	var at []transport.Address
	var kinds []string
	for _, m := range v.Members {
		if slices.Contains(m.Hosts, kind) {
			if m.Reachable && m.Status == membership.Up {
				at = slices.Insert(at, 0, m.Address)
			} else {
				at = append(at, m.Address)
			}
		}
		kinds = append(kinds, m.Hosts...)
	}
	if len(at) == 0 {
		slices.Sort(kinds)
		return nil, fmt.Errorf("cluster %s: no member hosts the type %s (there are: %v)", c.cluster, kind, slices.Compact(kinds))
	}
	return at, nil
}

// Members returns the cluster as one of its members sees it. If no member is up it fails:
// with ErrNoMember and the names of the processes, or with ErrNoCluster if none answers.
func (c *Client) Members(ctx context.Context) (View, error) {
	a, err := c.ask(ctx, anyMember, operator.Request{Command: operator.Members})
	if err == nil {
		return a.View, nil
	}
	if !errors.Is(err, errNobody) {
		return View{}, fmt.Errorf("cluster %s: %w", c.cluster, err)
	}
	// A member that is up serves a moment later, and not while its lease has
	// lapsed; the roll call reaches it all the same.
	views, err := c.RollCall(ctx)
	if err != nil {
		return View{}, err
	}
	for _, v := range views {
		if v.Status == membership.Up || v.Status == membership.Leaving {
			return v, nil
		}
	}
	return View{}, fmt.Errorf("cluster %s: %w: %s", c.cluster, ErrNoMember, describe(views))
}

// describe tells of processes that are no members how far they are.
func describe(views []View) string {
	var waiting, others []string
	for _, v := range views {
		if v.Waits {
			waiting = append(waiting, v.Self.Name)
		} else {
			others = append(others, fmt.Sprintf("%s is %v", v.Self.Name, v.Status))
		}
	}
	var parts []string
	if len(waiting) > 0 {
		parts = append(parts, fmt.Sprintf("waiting to be told to join: %s (shardctl join %s)", strings.Join(waiting, ", "), waiting[0]))
	}
	if len(others) > 0 {
		parts = append(parts, strings.Join(others, ", ")+" (are there Config.MinMembers of them?)")
	}
	return strings.Join(parts, "; ")
}

// rollCallWait is how long answers to a roll call are gathered.
const rollCallWait = 500 * time.Millisecond

// RollCall asks every process of the cluster for its own view and collects the answers of
// half a second, ordered by name. It fails with ErrNoCluster if nobody answers.
func (c *Client) RollCall(ctx context.Context) ([]View, error) {
	id, replies, end := c.open()
	defer end()
	if err := c.send(ctx, everyProcess, id, operator.Request{Command: operator.RollCall}); err != nil {
		return nil, fmt.Errorf("cluster %s: roll call: %w", c.cluster, err)
	}
	enough := time.NewTimer(rollCallWait)
	defer enough.Stop()
	var views []View
	for {
		select {
		case r := <-replies:
			if r.denied != nil {
				return nil, fmt.Errorf("cluster %s: roll call: %w", c.cluster, r.denied)
			}
			if r.answer.Refusal == "" && !r.nobody {
				views = append(views, r.answer.View)
			}
			continue
		case <-enough.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("cluster %s: roll call: %w", c.cluster, context.Cause(ctx))
		}
		break
	}
	if len(views) == 0 {
		return nil, fmt.Errorf("cluster %s: %w (is the name right, does a node run, and is it at this broker?)", c.cluster, ErrNoCluster)
	}
	slices.SortFunc(views, func(a, b View) int { return a.Self.Compare(b.Self) })
	return views, nil
}

// look is how often a command looks whether it has had its effect.
const look = 200 * time.Millisecond

// Join commands the process called name, which was started with Config.JoinByCommand, to
// join through the nodes named by seeds, or through those of its own config if there are
// none. It waits until the process is up, or until ctx ends.
func (c *Client) Join(ctx context.Context, name string, seeds ...string) (transport.Address, error) {
	a, err := c.ask(ctx, everyProcess, operator.Request{Command: operator.Join, Node: transport.Address{Name: name}, Seeds: seeds})
	switch {
	case errors.Is(err, ErrRefused):
		return a.View.Self, fmt.Errorf("cluster %s: %w", c.cluster, err)
	case err != nil:
		return transport.Address{}, fmt.Errorf("cluster %s: join %s: no process of that name answers: %w (is it started with Config.JoinByCommand, and connected to this broker?)", c.cluster, name, err)
	}
	node := a.View.Self
	err = c.until(ctx, func() (bool, error) {
		a, err := c.ask(ctx, recipient{to: node, what: node.String()}, operator.Request{Command: operator.Members})
		if errors.Is(err, errNobody) {
			return false, fmt.Errorf("%v has ended (its log says why)", node)
		}
		return err == nil && a.View.Status >= membership.Up, nil
	})
	if err != nil {
		return node, fmt.Errorf("cluster %s: join %v: it was told to, and is not up: %w", c.cluster, node, err)
	}
	return node, nil
}

// Leave commands a member ("name" or "name#incarnation") to leave in order. It waits
// until it is no longer a member, or until ctx ends.
func (c *Client) Leave(ctx context.Context, node string) (transport.Address, error) {
	m, _, err := c.find(ctx, "leave", node)
	if err != nil {
		return transport.Address{}, err
	}
	if _, err := c.ask(ctx, recipient{to: m.Address, what: m.Address.String()}, operator.Request{Command: operator.Leave, Node: m.Address}); err != nil {
		if errors.Is(err, errNobody) {
			err = fmt.Errorf("%w (if its process is dead, down it)", err)
		}
		return m.Address, fmt.Errorf("cluster %s: %w", c.cluster, err)
	}
	err = c.until(ctx, func() (bool, error) {
		v, err := c.Members(ctx)
		switch {
		case errors.Is(err, ErrNoCluster):
			return true, nil // it was the last
		case errors.Is(err, ErrNoMember):
			return c.absent(ctx, m.Address), nil
		case err != nil:
			return false, nil // asked again
		}
		now, err := v.Find(m.Address.String())
		if err == nil && now.Status == membership.Down {
			return false, fmt.Errorf("%v was downed while it left", m.Address)
		}
		return err != nil, nil
	})
	if err != nil {
		return m.Address, fmt.Errorf("cluster %s: leave %v: it was told to, and is still a member: %w", c.cluster, m.Address, err)
	}
	return m.Address, nil
}

// absent reports whether a process does not answer a roll call.
func (c *Client) absent(ctx context.Context, node transport.Address) bool {
	views, err := c.RollCall(ctx)
	return errors.Is(err, ErrNoCluster) ||
		err == nil && !slices.ContainsFunc(views, func(v View) bool { return v.Self == node })
}

// Down makes another member declare a member dead ("name" or "name#incarnation"). Its
// shards are then given to others, so its process must have stopped; the operator answers
// for that. A member that is up and reachable is refused unless force.
func (c *Client) Down(ctx context.Context, node string, force bool) (transport.Address, error) {
	m, v, err := c.find(ctx, "down", node)
	if err != nil {
		return transport.Address{}, err
	}
	by := v.Self
	for _, o := range v.Members {
		if by == m.Address && o.Address != m.Address && o.Status == membership.Up && o.Reachable {
			by = o.Address // its own word would end it before the others heard it
		}
	}
	_, err = c.ask(ctx, recipient{to: by, what: by.String()}, operator.Request{Command: operator.Down, Node: m.Address, Force: force})
	if err != nil {
		return m.Address, fmt.Errorf("cluster %s: %w", c.cluster, err)
	}
	return m.Address, nil
}

func (c *Client) find(ctx context.Context, op, node string) (Member, View, error) {
	v, err := c.Members(ctx)
	if err != nil {
		return Member{}, v, err
	}
	m, err := v.Find(node)
	if err != nil {
		return Member{}, v, fmt.Errorf("cluster %s: %s %w", c.cluster, op, err)
	}
	return m, v, nil
}

// until repeats a check until it holds or fails.
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
