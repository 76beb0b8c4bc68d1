package shard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/bounded"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// operatorMessage handles what an operator says; see package admin.
func (c *control) operatorMessage(kind transport.Kind, from transport.Peer, body []byte) {
	id, r, _, err := admin.Decode(body)
	if err != nil {
		c.foreign(len(body), err)
		return
	}
	if r == nil {
		c.plane.counters.add(frameForeign) // an answer: this node asks nothing
		return
	}
	concerned := r.Node == c.self || r.Command == admin.Join && r.Node.Name == c.self.Name
	if kind == transport.Broadcast && r.Command != admin.RollCall && !concerned {
		return // meant for another
	}
	if r.Command == admin.Members && c.singles.seek() {
		time.AfterFunc(seekTime, func() {
			c.loop.post(func() { c.answerOperator(id, from, admin.Answer{View: c.operatorView()}) })
		})
		return
	}
	c.answerOperator(id, from, c.obey(from, r))
	if r.Command == admin.Down && r.Node == c.self && c.refuseDown(r) == nil {
		c.stepMembers(membership.DownNode{Node: c.self}) // behind the answer, for it ends the node
	}
}

// obey does what a request asks for and returns the answer.
func (c *control) obey(from transport.Peer, r *admin.Request) admin.Answer {
	var err error
	switch r.Command {
	case admin.Members, admin.RollCall:
	case admin.Join:
		c.node.log.Info("told to join", "by", from.Name, "seeds", bounded.Text(strings.Join(r.Seeds, ",")))
		err = c.join(r.Seeds)
	case admin.Leave:
		if r.Node != c.self {
			err = fmt.Errorf("this is %v", c.self)
			break
		}
		c.node.log.Info("told to leave", "by", from.Name)
		c.node.leaveByOrder()
	case admin.Down:
		if err = c.refuseDown(r); err == nil && r.Node != c.self {
			c.node.log.Warn("told to down a member", "by", from.Name, "member", r.Node.String(), "force", r.Force)
			c.stepMembers(membership.DownNode{Node: r.Node})
		}
	default:
		err = fmt.Errorf("%v is unknown to this version (upgrade this node)", r.Command)
	}
	a := admin.Answer{View: c.operatorView()}
	if err != nil {
		a.Refusal = err.Error()
	}
	return a
}

// refuseDown returns the reason for refusing an operator's command to down a member.
func (c *control) refuseDown(r *admin.Request) error {
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
func (c *control) operatorView() admin.View {
	v := c.members.View()
	view := admin.View{
		Self: c.self, Status: v.SelfStatus, Waits: !c.joining, Founder: v.Founder, Leader: v.Leader, Converged: v.Converged, Why: v.Why,
	}
	for _, m := range v.ByAge {
		p := memberOf(m.Member, m.Reachable, m.Evidence)
		view.Members = append(view.Members, admin.Member{
			Address: p.Address, Status: p.Status, Age: m.UpNumber, Reachable: p.Reachable, Evidence: p.Evidence, Roles: p.Roles, Hosts: p.Hosts,
		})
	}
	view.Singletons = c.singles.rows(v)
	return view
}

// seekTime is how long an operator waits for the answer to where singletons run,
// if this node did not know: far more than the question takes.
const seekTime = 100 * time.Millisecond

func (c *control) answerOperator(id uint64, to transport.Peer, a admin.Answer) {
	b, err := admin.Encode(id, nil, &a)
	if limit := c.link.MaxPayload() - operatorOverhead; err == nil && len(b) > limit {
		b, err = admin.Encode(id, nil, &admin.Answer{Refusal: fmt.Sprintf(
			"the list of %d members has %d bytes and the broker takes %d (raise its max_payload)", len(a.View.Members), len(b), limit)})
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
		if err := c.refuseDown(&admin.Request{Node: m.Address, Force: force}); err != nil {
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
	n.control.loop.post(func() { done <- f() })
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
