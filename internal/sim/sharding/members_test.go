package sharding

import (
	"time"

	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/runtime/membership"
)

// members is the membership of the hosts. It is the production code, in a world of package sim with
// the processes' time.
type members struct {
	*sim.World
	w      *world
	formed int // clusters that were formed
}

// Times of the membership are shorter than the defaults, so that much happens in a run. After the
// faults, answers may have to wait for some of these times: see answerBound.
const (
	leaseEcho     = 300 * time.Millisecond
	leaseMajority = 1200 * time.Millisecond
	silentAfter   = 2500 * time.Millisecond
)

// memberConfig has the settings that are equal at all members.
var memberConfig = membership.Config{
	FormWindow: 50 * time.Millisecond, ProbeVacancy: true, GossipInterval: 200 * time.Millisecond,
	HeartbeatInterval: 100 * time.Millisecond, PauseAllowance: 200 * time.Millisecond,
	EchoInterval: 100 * time.Millisecond, ProbeInterval: 50 * time.Millisecond, PauseThreshold: leaseEcho,
	SelfHeartbeatTimeout: leaseEcho, QuorumTimeout: leaseMajority,
	GoneAfter: leaseEcho, CutAfter: 1500 * time.Millisecond, AgreedAfter: leaseMajority, SilentAfter: silentAfter,
}

// tableConfig has the settings of members that agree by a table.
var tableConfig = membership.Table{
	Enabled: true, ProbeInterval: 500 * time.Millisecond, Missed: 2, StandInterval: leaseMajority / 12, TouchInterval: 100 * time.Millisecond,
	Refresh: 2 * time.Second, AliveInterval: time.Second, Within: 300 * time.Millisecond,
}

func newMembers(w *world) *members {
	m := &members{w: w}
	m.World = sim.New(sim.Config{
		Seed: w.r.Uint64(), Servers: w.plan.servers(), Jitter: w.upTo(3 * time.Millisecond), Redial: 20 * time.Millisecond,
		RouteTimeout: w.between(300*time.Millisecond, 3*time.Second), HostTimeout: w.between(time.Second, 20*time.Second),
		TableTrouble: 0.05, TableLate: 3 * time.Second, TableGaps: true, Trace: w.membersTrace(),
	})
	m.OnChange, m.OnEnd = m.changed, m.ended
	m.OnEvents = func(_ *sim.Node, events []membership.Event) {
		for _, e := range events {
			if _, ok := e.(membership.Formed); ok {
				m.formed++
			}
		}
	}
	return m
}

func (m *members) join(p *process) {
	c := memberConfig
	c.Self, c.Seed, c.Meta = p.self.Address, m.w.r.Uint64(), metaOf(m.w.plan)
	if m.w.plan.table {
		c.Table = tableConfig
	}
	node, err := m.Add(c, sim.Place{Server: p.server, Drift: m.w.r.IntN(2001) - 1000})
	if err != nil {
		m.w.fail("%v", err)
		return
	}
	p.node = node
	m.Start(node)
}

// now returns the time of the membership's world.
func (m *members) now() time.Time { return epochStart.Add(m.Now()) }

// pass lets the membership's time pass until the given time, or until its next event. It reports
// whether an event came first.
func (m *members) pass(until time.Time) (happened bool) {
	d := until.Sub(m.now())
	if d <= 0 {
		return false
	}
	if at, ok := m.Next(); ok && at < m.Now()+d {
		d, happened = at-m.Now()+1, true // so that the event has happened
	}
	m.Run(d)
	if err := m.Err(); err != nil {
		m.w.fail("membership: %v", err)
	}
	return happened
}

// changed passes a new view to its process. The process's control loop handles it next.
func (m *members) changed(n *sim.Node, events []membership.Event) {
	p := m.w.process(n.Address)
	m.w.now = m.now()
	view := n.View()
	p.after(0, func() {
		m.fenced(view, events)
		p.control.changed(view, events)
	})
}

// fenced marks as lost the state of processes that run no more turns, in a member's view.
func (m *members) fenced(v *membership.View, events []membership.Event) {
	for _, o := range v.ByAge {
		if !o.MayRun() {
			m.w.oracle.writeOff(m.w.process(o.Address))
		}
	}
	for _, e := range events {
		if e, ok := e.(membership.MemberRemoved); ok { // the member may have been downed and fenced in the same step
			m.w.oracle.writeOff(m.w.process(e.Member.Address))
		}
	}
}

// ended ends a process that is no longer a member. A process that has left ends in order.
func (m *members) ended(n *sim.Node, last membership.Event) {
	p := m.w.process(n.Address)
	m.w.now = m.now()
	p.after(0, func() {
		m.w.log("%s: %v", p.name, last)
		switch last := last.(type) {
		case membership.SelfRemoved:
			p.depart()
		case membership.SelfDowned:
			if last.Rejoin {
				p.stop()
				m.w.begin(p.name, true)
			} else {
				p.end()
			}
		default:
			p.end()
		}
	})
}

// leased reports whether a process has a lease, so that turns may begin there.
func (m *members) leased(p *process) bool { return m.Lease(p.node) }
