package sharding

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/coordinator"
	"github.com/shardgen/shardgen/internal/singleton"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A control is a member's control plane: it drives a singleton.Manager, the
// coordinator.Coordinator while it is here, and a coordinator.Follower, as the
// control loop of package shard does.
type control struct {
	process   *process
	manager   *singleton.Manager
	coord     *coordinator.Coordinator
	follower  *coordinator.Follower
	seen      uint64           // the number of views until now
	view      *membership.View // nil: none yet
	status    singleton.Status // 0: none yet
	up        uint32
	exitReady bool
	exiting   bool // nothing comes in any more

	done    map[placement.ShardID]placement.Epoch
	aborted map[placement.ShardID]placement.Epoch
	asking  bool                       // calls wait for a home
	left    map[transport.Address]bool // homes that were removed unseen
	wishes  uint64
	wished  map[uint64]bool // wishes that are kept

	wakeAt time.Time // of the earliest step that is due
	gateway
}

func newControl(p *process) *control {
	c := &control{
		process: p, follower: coordinator.NewFollower(true),
		done: map[placement.ShardID]placement.Epoch{}, aborted: map[placement.ShardID]placement.Epoch{},
		wished: map[uint64]bool{}, left: map[transport.Address]bool{},
	}
	c.gateway.init(c)
	var err error
	if c.manager, err = singleton.New(singleton.Config{Name: "coordinator", Self: p.self.Address}); err != nil {
		p.w.fail("%v", err)
	}
	return c
}

// start begins what goes on all the time.
func (c *control) start() { c.process.after(c.process.w.upTo(resendEvery), c.resend) }

// resendEvery is the time between two sendings of what the coordinator has to know.
const resendEvery = 500 * time.Millisecond

func (c *control) resend() {
	c.process.after(resendEvery, c.resend)
	c.retell()
	c.gateway.tick()
	c.checkExit()
}

// retell tells everything again whose effect does not show.
func (c *control) retell() {
	p := c.process
	for _, id := range p.w.ids {
		if e, ok := c.done[id]; ok {
			c.report(coordinator.MoveDone{Term: c.follower.Term(), ShardID: id, Epoch: e})
		}
		if e, ok := c.aborted[id]; ok {
			c.report(coordinator.MoveAborted{Term: c.follower.Term(), ShardID: id, Epoch: e, Reason: "simulated"})
		}
	}
	if c.asking = c.asking && (p.held() > 0 || c.gateway.wants()); c.asking {
		c.report(coordinator.Ask{Kind: kindName, Have: c.follower.Table().Version()})
	}
}

// ask asks for homes, if it was not just asked.
func (c *control) ask() {
	if !c.asking {
		c.asking = true
		c.report(coordinator.Ask{Kind: kindName, Have: c.follower.Table().Version()})
	}
}

// report sends a message to the coordinator, if one is known.
func (c *control) report(m coordinator.Message) {
	a := c.follower.Coordinator()
	if !lives(c.view, a) {
		a = c.manager.Oldest()
	}
	if !a.IsZero() {
		c.send(c.process.w.process(a), m)
	}
}

// send brings a message of the placement protocol to another member, or a client.
func (c *control) send(to *process, m coordinator.Message) {
	w, from := c.process.w, c.process
	b, err := coordinator.Encode(m)
	if err != nil {
		w.fail("%v", err)
		return
	}
	_, table := m.(coordinator.Table)
	w.post(from, to, func() {
		m, err := coordinator.Decode(b)
		if err != nil {
			w.fail("%v", err)
			return
		}
		deliver := func() { to.placement(from, m) }
		if table && to.late && w.faulty {
			to.after(w.upTo(w.plan.stale), deliver)
			return
		}
		deliver()
	})
}

// placement handles a message of the placement protocol.
func (p *process) placement(from *process, m coordinator.Message) {
	if !p.host {
		p.client.step(from, m)
		return
	}
	switch m.(type) {
	case coordinator.Register, coordinator.Ask, coordinator.TableRequest, coordinator.Place, coordinator.PinsKept,
		coordinator.MoveStatus, coordinator.MoveDone, coordinator.MoveAborted, coordinator.MoveCancelled:
		if !from.host {
			p.control.gateway.placement(from, m)
		} else if p.control.coord != nil {
			p.control.coordinate(coordinator.Receive{From: from.self.Address, Message: m})
		}
		return
	}
	if p.control.heeds(from) && p.control.follow(from.self.Address, m) {
		p.control.order(m)
	}
}

// heeds reports whether a process may be the coordinator of this one.
func (c *control) heeds(from *process) bool {
	if from.self.Client || c.view == nil {
		return false
	}
	_, member := c.view.Member(from.self.Address)
	return member
}

// onView takes what the membership says.
func (c *control) onView(v *membership.View) {
	c.seen++
	c.view = v
	if me, ok := v.Member(v.Self); ok {
		c.status, c.up = statusOf(me.Status), me.UpNumber
	}
	c.gateway.membersChanged()
	c.manage(managed(v))
	if c.coord != nil {
		c.coordinate(placed(v))
	}
	for _, id := range c.process.w.ids {
		c.partWithAbsent(c.process.routes[id].Core.Owner)
	}
	c.checkExit()
}

// onEvent ends dealings with members that went down or left.
func (c *control) onEvent(e membership.Event) {
	p := c.process
	lose := func(a transport.Address) {
		if a != p.self.Address {
			p.peerGone(a, false, true)
			c.gateway.lostMember(a)
		}
	}
	switch e := e.(type) {
	case membership.MemberDowned:
		lose(e.Member.Address)
	case membership.MemberRemoved:
		if s := e.Member.Status; s == membership.Exiting || s == membership.Leaving {
			p.after(byeGrace, func() { p.peerGone(e.Member.Address, false, true) })
		} else {
			lose(e.Member.Address)
		}
	}
}

// byeGrace is how long a member that left in order may still say goodbye.
const byeGrace = 3 * time.Second

// partWithAbsent ends dealings with a home of shards that was removed before this
// process was let in, so that nobody tells it so.
func (c *control) partWithAbsent(a transport.Address) {
	p := c.process
	up := c.status == singleton.Up || c.status == singleton.Leaving
	home := slices.ContainsFunc(p.w.ids, func(id placement.ShardID) bool { return p.routes[id].Core.Owner == a })
	if !up || a.IsZero() {
		return
	}
	if _, member := c.view.Member(a); home && !member && !c.left[a] {
		c.left[a] = true
		p.after(byeGrace, func() { p.peerGone(a, false, true) })
	}
}

// manage steps the manager, whose instance is the coordinator.
func (c *control) manage(in singleton.Input) {
	p := c.process
	out := c.manager.Step(p.w.now, in)
	if err := c.manager.Check(); err != nil {
		p.w.fail("%s: %v", p.name, err)
	}
	for _, e := range out.Send {
		if to := p.w.process(e.To); to != nil {
			m := e.Message
			p.w.post(p, to, func() { to.control.manage(singleton.Receive{From: p.self.Address, Message: m}) })
		}
	}
	if out.StopInstance {
		p.w.log("%s: coordinator stops", p.name)
		c.coord = nil
		c.manage(singleton.InstanceStopped{})
	}
	if out.StartInstance {
		c.startCoordinator()
	}
	c.wake(out.WakeAt)
}

func (c *control) startCoordinator() {
	p := c.process
	term := placement.Term{Number: c.up, Incarnation: p.self.Incarnation}
	p.w.oracle.term(p, term)
	coord, err := coordinator.New(coordinator.Config{
		Self: p.self.Address, Term: term, MaxMoves: 4, RebalanceInterval: 200 * time.Millisecond,
	})
	if err != nil {
		p.w.fail("%v", err)
		return
	}
	p.w.log("%s: coordinator starts, term %v", p.name, term)
	c.coord = coord
	c.manage(singleton.InstanceStarted{})
	c.coordinate(placed(c.view))
}

// coordinate steps the coordinator.
func (c *control) coordinate(in coordinator.Input) {
	p := c.process
	out := c.coord.Step(p.w.now, in)
	if err := c.coord.Check(); err != nil {
		p.w.fail("%s: %v", p.name, err)
	}
	for _, e := range out.Events {
		p.w.log("%s: coordinator: %v", p.name, e)
		p.w.oracle.event(p, e)
	}
	for _, e := range out.Send {
		if to := p.w.process(e.To); to != nil {
			c.send(to, e.Message)
			continue
		}
		for _, to := range p.w.procs {
			if to.host && to.alive {
				c.send(to, e.Message)
			}
		}
	}
	c.wake(out.WakeAt)
}

// follow steps the follower. It reports whether the message is to be obeyed.
func (c *control) follow(from transport.Address, m coordinator.Message) bool {
	p := c.process
	term, version := c.follower.Term(), c.follower.Table().Version()
	before := c.follower.Coordinator()
	out := c.follower.Step(p.w.now, from, m)
	if c.follower.Coordinator() != before {
		p.after(0, c.retell) // what the former one was told may be lost with it
	}
	if c.follower.Term().Compare(term) < 0 || c.follower.Table().Version().Compare(version) < 0 {
		p.w.fail("%s: table went back from %v to %v", p.name, version, c.follower.Table().Version())
	}
	if out.Table != nil {
		p.setTable(out.Table)
		c.tableChanged(out.Table)
	}
	to := p.w.process(out.Coordinator)
	if out.Register {
		c.send(to, c.follower.Register(p.self.Address, []coordinator.KindInfo{{
			Name: kindName, Package: "p", Shards: uint32(p.w.plan.shards), HashName: "xxh64", Hosts: true,
		}}, p.owned()))
	}
	for _, m := range out.Send {
		c.send(to, m)
	}
	c.wake(out.WakeAt)
	return !out.Refused
}

// wake has the machines stepped when one of them is due.
func (c *control) wake(at time.Time) {
	p := c.process
	if at.IsZero() || !c.wakeAt.IsZero() && !at.Before(c.wakeAt) {
		return
	}
	c.wakeAt = at
	p.after(max(at.Sub(p.w.now), time.Millisecond), func() {
		if !c.wakeAt.Equal(at) {
			return
		}
		c.wakeAt = time.Time{}
		c.manage(singleton.Tick{})
		c.follow(transport.Address{}, nil)
		if c.coord != nil {
			c.coordinate(coordinator.Tick{})
		}
	})
}

// tableChanged drops the reports whose effect shows.
func (c *control) tableChanged(t *placement.Table) {
	maps.DeleteFunc(c.done, func(id placement.ShardID, epoch placement.Epoch) bool {
		e, ok := t.Lookup(id)
		return ok && e.Epoch >= epoch
	})
	maps.DeleteFunc(c.aborted, func(id placement.ShardID, epoch placement.Epoch) bool {
		e, ok := t.Lookup(id)
		return ok && e.Epoch > epoch
	})
	c.gateway.tableChanged(t)
	c.checkExit()
}

// opened reports a shard that runs here, unless the table said so.
func (c *control) opened(id placement.ShardID, epoch placement.Epoch) {
	if e, ok := c.follower.Table().Lookup(id); !ok || e.Epoch < epoch {
		c.done[id] = epoch
		c.report(coordinator.MoveDone{Term: c.follower.Term(), ShardID: id, Epoch: epoch})
	}
	c.progressed()
}

// abort gives a move up that this process should have made, unless it is too late.
func (c *control) abort(id placement.ShardID, epoch placement.Epoch) {
	if !c.process.shards[id].CancelMove(epoch) {
		return
	}
	c.process.w.log("%s: %v stays, the move at %v is given up", c.process.name, id, epoch)
	c.aborted[id] = epoch
	c.report(coordinator.MoveAborted{Term: c.follower.Term(), ShardID: id, Epoch: epoch, Reason: "simulated"})
}

// progressed registers anew while a new coordinator still goes by registrations.
func (c *control) progressed() {
	if c.follower.Unsettled() && c.follower.Term() != (placement.Term{}) {
		c.follower.Changed()
		c.follow(transport.Address{}, nil)
	}
	c.checkExit()
}

// order obeys the coordinator's word about one shard.
func (c *control) order(m coordinator.Message) {
	switch m := m.(type) {
	case coordinator.PlaceDone:
		c.wished[m.ID] = true
	case coordinator.MoveBegin:
		c.obey(m.ShardID, m)
	case coordinator.MoveCancel:
		c.obey(m.ShardID, m)
	}
}

// obey brings an order to its shard, and the shard's answer to the coordinator.
func (c *control) obey(id placement.ShardID, m coordinator.Message) {
	if answer := c.process.shards[id].Obey(m, c.follower.Term()); answer != nil {
		c.report(answer)
	}
}

// wish wishes for a home of a shard, or takes such a wish back.
func (c *control) wish(id placement.ShardID, node string) {
	p := c.process
	c.wishes++
	n := c.wishes
	if p.w.one(4) {
		node = ""
	}
	p.w.log("%s wishes %v at %q", p.name, id, node)
	c.place(n, id, node)
}

// place asks for a home of a shard, again and again for a while.
func (c *control) place(n uint64, id placement.ShardID, node string) {
	place := coordinator.Place{ID: n, Kind: kindName, Pins: []coordinator.Pin{{Shard: id.Shard, Node: node}}}
	var ask func(tries int)
	ask = func(tries int) {
		if c.wished[n] || tries == 0 {
			return
		}
		c.report(place)
		c.process.after(resendEvery, func() { ask(tries - 1) })
	}
	ask(6)
}

// checkExit tells the membership when this leaving process has nothing left.
func (c *control) checkExit() {
	p := c.process
	if c.exitReady || c.status != singleton.Leaving || p.busy() {
		return
	}
	others := slices.ContainsFunc(c.view.ByAge, func(m membership.MemberView) bool {
		return m.Address != p.self.Address && m.Status == membership.Up
	})
	if others && slices.ContainsFunc(p.w.ids, func(id placement.ShardID) bool { return p.shards[id].holds() }) {
		return
	}
	p.w.log("%s has nothing left to give", p.name)
	c.exitReady, c.exiting = true, true
	p.w.members.Give(p.node, membership.ExitReady{})
}

// owned is what a process registers.
func (p *process) owned() (all []coordinator.Owned) {
	for _, id := range p.w.ids {
		if o, ok := p.shards[id].Owned(); ok {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b coordinator.Owned) int { return cmp.Compare(a.Shard, b.Shard) })
	return all
}

// holds reports whether the shard, or calls for it, are still here.
func (s *hosted) holds() bool {
	o, ok := s.Owned()
	return ok && (o.State != coordinator.Forwarding || s.Holds())
}
