package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/bounded"
	"github.com/shardgen/shardgen/internal/operator"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// operatorMessage handles what an operator says; see package operator.
func (c *control) operatorMessage(kind transport.Kind, from transport.Peer, body []byte) {
	id, r, _, err := operator.Decode(body)
	if err != nil {
		c.foreign(len(body), err)
		return
	}
	if r == nil {
		c.plane.counters.add(frameForeign) // an answer: this node asks nothing
		return
	}
	concerned := r.Node == c.self || r.Command == operator.Join && r.Node.Name == c.self.Name
	if kind == transport.Broadcast && r.Command != operator.RollCall && !concerned {
		return // meant for another
	}
	if r.Command == operator.Members && c.singles.Seek() {
		time.AfterFunc(seekTime, func() {
			c.loop.Post(func() { c.answerOperator(id, from, operator.Answer{View: c.operatorView()}) })
		})
		return
	}
	if r.Command == operator.State || r.Command == operator.SetState {
		c.node.plane.wg.Go(func() { // decoders are the user's, and may take long
			var a operator.Answer
			var err error
			if a.Entities, err = (repairs{c.node}).states(r); err != nil {
				a.Refusal = err.Error()
			}
			c.loop.Post(func() { c.answerOperator(id, from, a) })
		})
		return
	}
	c.answerOperator(id, from, c.obey(from, r))
	if r.Command == operator.Down && r.Node == c.self && c.refuseDown(r) == nil {
		c.stepMembers(membership.DownNode{Node: c.self}) // behind the answer, for it ends the node
	}
}

// obey does what a request asks for and returns the answer.
func (c *control) obey(from transport.Peer, r *operator.Request) operator.Answer {
	var err error
	switch r.Command {
	case operator.Members, operator.RollCall:
	case operator.Join:
		c.node.log.Info("told to join", "by", from.Name, "seeds", bounded.Text(strings.Join(r.Seeds, ",")))
		err = c.join(r.Seeds)
	case operator.Leave:
		if r.Node != c.self {
			err = fmt.Errorf("this is %v", c.self)
			break
		}
		c.node.log.Info("told to leave", "by", from.Name)
		c.node.leaveByOrder()
	case operator.Down:
		if err = c.refuseDown(r); err == nil && r.Node != c.self {
			c.node.log.Warn("told to down a member", "by", from.Name, "member", r.Node.String(), "force", r.Force)
			c.stepMembers(membership.DownNode{Node: r.Node})
		}
	default:
		err = fmt.Errorf("%v is unknown to this version (upgrade this node)", r.Command)
	}
	a := operator.Answer{View: c.operatorView()}
	if err != nil {
		a.Refusal = err.Error()
	}
	return a
}

// refuseDown returns the reason for refusing an operator's command to down a member.
func (c *control) refuseDown(r *operator.Request) error {
	v := c.members.View()
	m, ok := v.Member(r.Node)
	switch {
	case v.SelfStatus == membership.NoStatus:
		return fmt.Errorf("%s is no member itself (ask one that is)", c.self.Name)
	case !ok:
		return fmt.Errorf("%v is no member (shardctl members lists them)", r.Node)
	case m.Reachable && m.Status != membership.Down && !r.Force:
		return fmt.Errorf("%v is %v and reachable: what it runs would be given to others while it still does (let it leave; or force it if its process has certainly stopped)", r.Node, m.Status)
	}
	return nil
}

// operatorView is what operators are shown.
func (c *control) operatorView() operator.View {
	v := c.members.View()
	view := operator.View{
		Self: c.self, Status: v.SelfStatus, Waits: !c.joining, Founder: v.Founder, Leader: v.Leader, Converged: v.Converged, Why: v.Why,
	}
	for _, m := range v.ByAge {
		p := memberOf(m.Member, m.Reachable, m.Evidence)
		view.Members = append(view.Members, operator.Member{
			Address: p.Address, Status: p.Status, Age: m.UpNumber, Reachable: p.Reachable, Evidence: p.Evidence, Roles: p.Roles, Hosts: p.Hosts,
		})
	}
	view.Singletons = c.singles.Rows(v)
	return view
}

// seekTime is how long an operator waits for the answer to where singletons run,
// if this node did not know: far more than the question takes.
const seekTime = 100 * time.Millisecond

func (c *control) answerOperator(id uint64, to transport.Peer, a operator.Answer) {
	b, err := operator.Encode(id, nil, &a)
	if limit := c.link.MaxPayload() - operatorOverhead; err == nil && len(b) > limit {
		what := fmt.Sprintf("the list of %d members", len(a.View.Members))
		if len(a.Entities) > 0 {
			what = fmt.Sprintf("what is known of %d entities", len(a.Entities))
		}
		b, err = operator.Encode(id, nil, &operator.Answer{Refusal: fmt.Sprintf(
			"%s has %d bytes and the broker takes %d (raise its max_payload)", what, len(b), limit)})
	}
	c.send(to, wire.ControlTopic_CONTROL_TOPIC_ADMIN, b, err)
}

// operatorOverhead is what the control envelope adds to an answer, at most.
const operatorOverhead = 512

// join begins joining, through the given nodes if there are any. It does nothing
// once joining has begun.
func (c *control) join(seeds []string) error {
	if c.joining {
		return nil
	}
	for _, s := range seeds {
		if err := transport.CheckName("seed", s); err != nil {
			return err
		}
	}
	names := c.node.cfg.Seeds
	if len(seeds) > 0 {
		names = seeds
		m, err := c.newMembers(seeds)
		if err != nil {
			return err
		}
		c.members = m
		s := c.link.State(transport.Control)
		c.stepMembers(membership.ConnState{Connected: s.Connected, Server: s.Server})
	}
	c.joining = true
	c.seeds.begin(names, c.self.Name, c.node.cfg.Membership.SeedTimeout, time.Now())
	c.stepMembers(membership.Start{})
	return nil
}

// Join makes a node that was started with Config.JoinByCommand join, through the
// nodes named by seeds or, if there are none, as its config says; the first seed
// may be this node, which then founds the cluster if no other answers. It returns
// when the node is Up, or with the reason why it cannot be. ctx bounds the
// waiting alone. Called again it waits like the first call.
func (n *Node) Join(ctx context.Context, seeds ...string) error {
	if !n.cfg.JoinByCommand {
		return fmt.Errorf("join node %s: it joins at Start (set Config.JoinByCommand)", n.cfg.Name)
	}
	if err := n.order(ctx, "join node "+n.cfg.Name, func() error { return n.control.join(seeds) }); err != nil {
		return err
	}
	if n.awaitUp(ctx) {
		return n.startErr()
	}
	return fmt.Errorf("join node %s: %w: %s", n.cfg.Name, ctx.Err(), n.whyNotUp())
}

// Down declares a member dead: "name", or "name#incarnation" where several have
// the name. What it had is given to others, so it must have stopped; the caller
// answers for that. A member that is up and reachable is refused unless force. A
// downed node that is alive stops itself with [ErrDowned].
func (n *Node) Down(ctx context.Context, member string, force bool) error {
	return n.order(ctx, "down "+member, func() error {
		c := n.control
		m, err := c.operatorView().Find(member)
		if err != nil {
			return err
		}
		if err := c.refuseDown(&operator.Request{Node: m.Address, Force: force}); err != nil {
			return err
		}
		c.node.log.Warn("member downed by this process", "member", m.Address.String(), "force", force)
		c.stepMembers(membership.DownNode{Node: m.Address})
		return nil
	})
}

var errNotStarted = errors.New("the node is not started (call Start first)")

// order runs f on the control loop of a node that runs.
func (n *Node) order(ctx context.Context, op string, f func() error) error {
	n.mu.Lock()
	state := n.state
	n.mu.Unlock()
	if state == stateNew || state == stateOpening {
		return fmt.Errorf("%s: %w", op, errNotStarted)
	}
	done := make(chan error, 1)
	n.control.loop.Post(func() { done <- f() })
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		return nil
	case <-n.done:
		return fmt.Errorf("%s: %w", op, n.plane.errClosed())
	case <-ctx.Done():
		return fmt.Errorf("%s: %w: node %s does not get to it (try again)", op, ctx.Err(), n.cfg.Name)
	}
}

// leaveByOrder is Shutdown by an operator's word.
func (n *Node) leaveByOrder() {
	n.ordered.Do(func() {
		go func() { // ends with the node, which waits for none but its own
			ctx, cancel := context.WithTimeout(context.Background(), n.cfg.LeaveTimeout+10*time.Second)
			defer cancel()
			_ = n.Shutdown(ctx) // Err tells
		}()
	})
}

// An entity whose state does not decode cannot be activated. Its state is kept as it
// is, its calls say so, and an operator reads it, replaces it or drops it.

// errUnreadable names the commands for the state of such an entity.
func errUnreadable(kind, id string, err error) error {
	return fmt.Errorf("the state of %s/%s cannot be read and is kept as it is: %w (see it with shardctl state %s %s; the flags -from FILE and -drop replace or drop it)",
		kind, clip(id), err, kind, clip(id))
}

// unreadable are the entities of a type whose state could not be read lately.
type unreadable struct {
	mu  sync.Mutex // guards ids
	ids map[string]struct{}
}

// maxUnreadable bounds the ids that are noted of a type.
const maxUnreadable = 1000

func (u *unreadable) add(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ids == nil {
		u.ids = make(map[string]struct{})
	}
	if len(u.ids) < maxUnreadable {
		u.ids[id] = struct{}{}
	}
}

func (u *unreadable) remove(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.ids, id)
}

func (u *unreadable) all() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.ids))
}

// repairs show and set the states of entities of a node.
type repairs struct{ node *Node }

// states does what an operator asks for about entities of this node, outside
// the control loop: it may have to wait for their decoders.
func (p repairs) states(r *operator.Request) (found []operator.Entity, err error) {
	defer func() {
		if r := recover(); r != nil {
			found, err = nil, panicError("reading the state", r)
		}
	}()
	h, err := p.hostOf(r.Entity.Kind)
	if err != nil {
		return nil, err
	}
	if r.Entity.ID != "" {
		one, err := p.one(h, r)
		return []operator.Entity{one}, err
	}
	for _, id := range h.unreadable.all() {
		one, err := p.one(h, &operator.Request{Command: operator.State, Entity: operator.Entity{Kind: r.Entity.Kind, ID: id}})
		if err == nil && one.Why != "" {
			one.State = nil // all of them would be too much for one answer
			found = append(found, one)
		} else if err == nil {
			h.unreadable.remove(id) // it is elsewhere, or was mended
		}
	}
	return found, nil
}

func (p repairs) hostOf(kind string) (*host, error) {
	k := (*p.node.plane.kinds.Load())[kind]
	switch {
	case k == nil || k.host == nil:
		return nil, fmt.Errorf("this node does not host %s", clip(kind))
	case k.host.desc.Singleton:
		return nil, fmt.Errorf("%s is a singleton: one whose state cannot be read starts anew by itself", clip(kind))
	case k.host.desc.DecodeState == nil:
		return nil, fmt.Errorf("%s has no state", clip(kind))
	}
	return k.host, nil
}

// one shows the state of one entity, or sets it.
func (p repairs) one(h *host, r *operator.Request) (operator.Entity, error) {
	at := operator.Entity{Kind: r.Entity.Kind, ID: r.Entity.ID}
	_, number, err := port{h.kind}.Locate(at.ID)
	if err != nil {
		return at, err
	}
	s := p.node.hostedShard(placement.ShardID{Kind: at.Kind, Shard: number})
	if s == nil {
		return at, errors.New("no such shard")
	}
	s.Mu.Lock()
	open := s.Core.State() == region.Open
	var e *region.Entity
	if open {
		e = s.Core.Take(at.ID, p.node.plane.clock.Load())
	}
	s.Mu.Unlock()
	switch {
	case e != nil:
	case open:
		return at, errors.New("a call of it is under way (try again)")
	default:
		home, ok := p.node.plane.table.Load().Kind(at.Kind).Lookup(number)
		if !ok || home.Owner.IsZero() || home.Owner == p.node.control.self {
			return at, errors.New("its shard is on its way (try again)")
		}
		at.Node = home.Owner
		return at, nil
	}
	defer s.endTurn(e)
	at.Node, at.Active = p.node.control.self, e.Value != nil
	if r.Command == operator.SetState {
		return at, setState(s, e, r.Entity.State)
	}
	return at, showState(s, e, &at)
}

// showState takes the state of an entity whose turn the caller has.
func showState(s *hostedShard, e *region.Entity, to *operator.Entity) (err error) {
	if e.Value != nil {
		to.State, err = s.encodeState(e)
		return err
	}
	if to.State = slices.Clone(e.State); e.State != nil {
		if _, err := s.decodeState(s.host.desc.New(), e.State); err != nil {
			to.Why = err.Error()
		}
	}
	return nil
}

// setState replaces the state of an entity whose turn the caller has.
func setState(s *hostedShard, e *region.Entity, state []byte) error {
	if e.Value != nil {
		return errors.New("it is active, so its state is fine: call it")
	}
	if !s.mayRun() {
		return errors.New("its shard may be another node's (try again)")
	}
	if state != nil {
		if _, err := s.decodeState(s.host.desc.New(), state); err != nil {
			return fmt.Errorf("the new state cannot be read either: %w", err)
		}
	}
	before := len(e.State)
	e.State = state
	s.host.unreadable.remove(e.ID)
	s.plane().log.Warn("state set by an operator", "kind", s.ID.Kind, "entity", clip(e.ID), "bytes", len(state), "before", before, "dropped", state == nil)
	return nil
}
