package sharding

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/control"
	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// clusterName is the name of the cluster on the control channel.
const clusterName = "c"

// A member is a host's control plane. It is the production code, on the world's time, control
// channel and membership.
type member struct {
	*control.Member
	steps
	machine *machine
	exiting bool // the process takes no more shards
	serves  bool // the process serves others that have no table
}

func newMember(p *process) *member {
	c := &member{}
	c.machine = &machine{process: p}
	c.Member = control.New(control.Config{
		Cluster: clusterName, Self: p.self, Lanes: 1, SeedTimeout: time.Second, JoinTimeout: time.Minute, QuarantineAfter: time.Minute,
		Zone: zoneOf(p),
	}, &memberEnv{world: worldEnv{p}, process: p})
	c.steps = steps{process: p, plane: c.Member}
	return c
}

// start joins the cluster.
func (c *member) start() {
	p := c.process
	err := c.Prepare(control.Setup{
		Members:     func([]string) (control.Machine, error) { return c.machine, nil },
		Coordinator: coordinator.Config{MaxMoves: 4, RebalanceInterval: 200 * time.Millisecond, LoadInterval: loadInterval},
		Coordinated: func(e coordinator.Event) {
			p.w.log("%s: coordinator: %v", p.name, e)
			p.w.oracle.event(p, e)
			p.w.oracle.placed(p, e)
		},
		Hosts: true,
		Singletons: func(s singlehost.Process) (*singlehost.Set, error) {
			return singlehost.NewSet(s, clusterName, p.self), nil
		},
		Callable: func(string) singlehost.Callable { return nil },
	})
	if err != nil {
		p.w.fail("%v", err)
	}
	c.do(c.Begin)
	if p.w.plan.loaded {
		p.reportLoads()
	}
}

// status returns the process's own status in the cluster.
func (c *member) status() membership.Status {
	if v := c.View(); v != nil {
		return v.SelfStatus
	}
	return membership.NoStatus
}

// changed passes a change of the membership to the control plane.
func (c *member) changed(v *membership.View, events []membership.Event) {
	c.machine.view, c.machine.news = v, membership.Output{Changed: true, Events: events}
	c.do(func() { c.ConnState(transport.State{Connected: true}) })
}

// setPin asks to pin a shard. It repeats the request for a while.
func (c *member) setPin(id placement.ShardID, node string) {
	o := c.process.w.oracle
	o.pinning[id] = true
	delete(o.pinned, id)
	pins := []coordinator.Pin{{Shard: id.Shard, Node: node}}
	c.request(func(n uint64) coordinator.Message {
		return coordinator.SetPins{ID: n, Type: kindName, Pins: pins}
	}, func(answer coordinator.Message) {
		if m, ok := answer.(coordinator.PinsSet); ok && m.Reason == "" {
			o.pinning[id], o.pinned[id] = false, node
		}
	})
}

// pause asks to pause moves for balance.
func (c *member) pause() {
	c.request(func(n uint64) coordinator.Message {
		return coordinator.Balance{ID: n, Want: coordinator.WantPause, By: "sim"}
	}, func(answer coordinator.Message) {
		if m, ok := answer.(coordinator.Balanced); ok && m.Refusal == "" {
			c.process.w.oracle.paused = true
		}
	})
}

// request makes a request to the coordinator. It repeats the request for a while.
func (c *member) request(ask func(n uint64) coordinator.Message, answered func(coordinator.Message)) {
	done := false
	n := c.Inquire(func(_ transport.Address, m coordinator.Message) {
		if !done { // an answer may arrive again
			done = true
			answered(m)
		}
	})
	var try func(tries int)
	try = func(tries int) {
		if done || tries == 0 {
			c.Conclude(n)
			return
		}
		c.do(func() { c.ToCoordinator(ask(n)) })
		c.process.after(control.ResendEvery, func() { try(tries - 1) })
	}
	try(6)
}

// pin pins a shard to a home, or withdraws its pin.
func (c *member) pin(id placement.ShardID, node string) {
	p := c.process
	if p.w.plan.together && p.w.oracle.pinning[id] { // so that it is known which request was the last
		return
	}
	if p.w.one(4) {
		node = ""
	}
	p.w.log("%s pins %v to %q", p.name, id, node)
	c.setPin(id, node)
}

// steps runs a control plane on the world's time, as the driver's loop does.
type steps struct {
	process *process
	plane   interface {
		Tick()
		WakeAt() time.Time
	}
	wakeAt time.Time // of the next Tick; zero means none is planned
}

func (s *steps) do(f func()) {
	f()
	at, p := s.plane.WakeAt(), s.process
	if !s.wakeAt.IsZero() && !at.Before(s.wakeAt) {
		return
	}
	s.wakeAt = at
	p.after(max(at.Sub(p.w.now), time.Millisecond), func() {
		if s.wakeAt.Equal(at) {
			s.wakeAt = time.Time{}
			s.do(s.plane.Tick)
		}
	})
}

// A machine is a host's membership as its control plane sees it. The membership runs in a world of
// its own.
type machine struct {
	process *process
	view    *membership.View
	news    membership.Output // changes that the control plane has not taken yet
}

var _ control.Machine = (*machine)(nil)

// View returns the latest view that the control plane got.
func (m *machine) View() *membership.View { return m.view }

// Step passes the control plane's decisions to the membership, and returns what has changed there.
func (m *machine) Step(_ time.Time, in membership.Input) membership.Output {
	switch in.(type) {
	case membership.Leave, membership.ExitReady, membership.DownNode, membership.Undeliverable:
		m.process.w.members.Give(m.process.node, in)
	}
	out := m.news
	m.news = membership.Output{}
	return out
}

// A memberEnv is a host in the role of package control's environment.
type memberEnv struct {
	world   worldEnv
	process *process
}

var _ control.Env = (*memberEnv)(nil)

func (v *memberEnv) Now() time.Time     { return v.world.Now() }
func (v *memberEnv) Link() control.Link { return v.world.Link() }
func (v *memberEnv) Post(f func())      { v.After(0, f) }
func (v *memberEnv) After(d time.Duration, f func()) {
	v.process.after(d, func() { v.process.control.do(f) })
}
func (v *memberEnv) CountRefused(membership.Refusal) {}
func (v *memberEnv) Waiting(string) int              { return v.process.held() }
func (v *memberEnv) SetTable(t *placement.Table)     { v.process.takeTable(t) }
func (v *memberEnv) SetExiting(on bool)              { v.process.control.exiting = on }

func (v *memberEnv) Serve(on bool, then func()) {
	v.process.control.serves = on
	if then != nil {
		v.Post(then)
	}
}

func (v *memberEnv) Founding(membership.FoundingRequest, func(membership.FoundingAnswer)) {}
func (v *memberEnv) AskServer(membership.Question, []byte, func(membership.Asked))        {}
func (v *memberEnv) ReadTable(membership.TableRead, func(membership.TableRows))           {}
func (v *memberEnv) WriteTable(membership.TableWrite, func(membership.TableWritten))      {}
func (v *memberEnv) WriteAlive(membership.TableAlive, func(membership.TableWritten))      {}
func (v *memberEnv) LeaseValid() bool                                                     { return v.process.leased() }

func (v *memberEnv) Fail(err error) { v.process.w.fail("%s: %v", v.process.name, err) }

func (v *memberEnv) RememberView(*membership.View)                     {}
func (v *memberEnv) RenewLease(time.Time)                              {} // members.leased has it
func (v *memberEnv) TakeLease(membership.LeaseRequest)                 {}
func (v *memberEnv) InspectShards(string) []coordinator.InspectedShard { return nil }
func (v *memberEnv) LeaveByOrder()                                     {}
func (v *memberEnv) Up()                                               {}
func (v *memberEnv) Leaving()                                          {}
func (v *memberEnv) Left()                                             {} // members.ended ends the process
func (v *memberEnv) Downed(string)                                     {}

// Unasked returns the pool, whose instances are always active.
func (v *memberEnv) Unasked(bool) []string {
	if v.process.w.plan.pool == 0 {
		return nil
	}
	return []string{poolName}
}

func (v *memberEnv) Log(l control.Level, text string, args ...any) { v.world.Log(l, text, args...) }

func (v *memberEnv) LogSeldom(l control.Level, text, _ string, args ...any) {
	v.world.Log(l, text, args...)
}

func (v *memberEnv) Count(e control.Counter) (uint64, bool) { return v.world.Count(e) }

func (v *memberEnv) CountOf(e control.Counter, _ string) (uint64, bool)   { return v.world.Count(e) }
func (v *memberEnv) Publish(*membership.View, []membership.Event)         {}
func (v *memberEnv) Remember(transport.Address, []byte) error             { return nil }
func (v *memberEnv) Direct(transport.Peer, []byte) error                  { return nil }
func (v *memberEnv) Operate(_ *operator.Request, _ func(operator.Answer)) {}

func (v *memberEnv) Shard(id placement.ShardID) control.Shard {
	if s := v.process.shards[id]; s != nil {
		return s
	}
	return nil
}

// Inventory returns the types and shards that the process registers with the coordinator.
func (v *memberEnv) Inventory() (kinds []coordinator.TypeInfo, held []coordinator.HeldShard) {
	p := v.process
	for _, id := range p.w.ids {
		if o, ok := p.shards[id].Held(); ok {
			held = append(held, o)
		}
	}
	slices.SortFunc(held, func(a, b coordinator.HeldShard) int { return cmp.Compare(a.Shard, b.Shard) })
	return p.w.plan.types(), held
}

// HoldsShards reports whether a caller of the process waits for an answer, or the data plane still
// needs the process: see calls.Plane.Needs.
func (v *memberEnv) HoldsShards() bool {
	return v.process.calling() || v.process.data.Needs()
}

// WaitingTypes returns the types of the calls that wait for homes.
func (v *memberEnv) WaitingTypes() []string {
	if v.process.held() > 0 {
		return v.process.w.kinds()
	}
	return nil
}

// PeerGone closes the links to a process that was downed.
func (v *memberEnv) PeerGone(a transport.Address) {
	v.process.data.PeerGone(a, calls.AllLanes, false)
}

// PeerLeft closes the links to a process that has left.
func (v *memberEnv) PeerLeft(a transport.Address) { v.process.data.PeerLeft(a) }

// Homes returns the processes that routes lead to.
func (v *memberEnv) Homes() []transport.Address { return v.process.data.Homes() }

// TakeTerm begins a term, and reports it to the oracle.
func (v *memberEnv) TakeTerm(atLeast uint32, take func(uint32, uint32)) {
	p := v.process
	p.w.log("%s: coordinator starts, term %d", p.name, atLeast)
	p.w.oracle.term(p, placement.Term{Number: atLeast, Incarnation: p.self.Incarnation})
	take(atLeast, 0)
}

// LastTerm does nothing, because there is no store.
func (v *memberEnv) LastTerm(func(uint32)) {}

// metaOf returns the announcement of the types that all members host.
func metaOf(p plan) []membership.KeyValue {
	all := []membership.KeyValue{{Key: hostmeta.EntityKey(kindName), Value: "shards=" + strconv.Itoa(p.shards) + " hash=xxh64 package=p"}}
	if p.pool > 0 {
		all = append(all, membership.KeyValue{Key: hostmeta.EntityKey(poolName), Value: "shards=" + strconv.Itoa(p.pool) + " hash=pool package=p"})
	}
	return all
}
