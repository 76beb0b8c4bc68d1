package sharding

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/singleton"
)

// members is the membership as one who knows all, with what package membership
// promises and no more: each process learns of each change in its own time; who
// is Down gets no lease any more, and is Fenced only when the last one is over;
// the leader acts on convergence, and removes only who is Fenced. Its times are
// shorter than the defaults, so that much happens in a run.
type members struct {
	w    *world
	list []*member // in the order of joining
	out  []*member // removed, whose processes may not know it yet
	seq  uint64    // of the latest change
	sent time.Time // when the latest view went out last
	ups  uint64
}

type member struct {
	memberView
	since    time.Time // since when it cannot be reached; zero: it can
	patience time.Duration
	lease    time.Duration // how long its leases are
	told     bool          // that it is Down or removed
}

// A memberView is what others see of a member.
type memberView struct {
	p           *process
	status      singleton.Status
	up          uint64
	unreachable bool
	fenced      bool
}

// Times of the membership. An answer after the faults waits for some of them: see
// answerBound.
const (
	lookEvery       = 100 * time.Millisecond
	unreachableFrom = 400 * time.Millisecond
	goneWithin      = 1200 * time.Millisecond // a death is proven, and judged
	silentWithin    = 2 * time.Second         // who is silent is judged
	longestLease    = 1200 * time.Millisecond
)

func newMembers(w *world) *members {
	m := &members{w: w}
	w.after(0, m.look)
	return m
}

// of is the member of a process, nil when it is none.
func (m *members) of(p *process) *member {
	for _, o := range m.list {
		if o.p == p {
			return o
		}
	}
	return nil
}

// join lets a process in once no other one of its name is a member.
func (m *members) join(p *process) {
	for _, o := range m.list {
		if o.p.name != p.name {
			continue
		}
		if !o.p.alive && o.status != singleton.Down {
			m.down(o, "another process has its name")
			m.spread()
		}
		p.after(lookEvery, func() { m.join(p) })
		return
	}
	m.list = append(m.list, &member{
		memberView: memberView{p: p, status: singleton.Joining},
		lease:      m.w.between(longestLease/2, longestLease),
	})
	m.spread()
}

// leave lets a member begin to leave.
func (m *members) leave(p *process) {
	o := m.of(p)
	if o == nil || o.status != singleton.Up {
		return
	}
	m.w.log("%s leaves", p.name)
	o.status = singleton.Leaving
	m.spread()
}

// reaches tells whether a process hears, and is heard by, most of the others that
// can hear at all.
func (m *members) reaches(p *process) bool {
	if !p.alive || p.paused {
		return false
	}
	near, all := 1, 1
	for _, o := range m.list {
		if o.p == p || o.status == singleton.Down || !o.p.alive {
			continue
		}
		all++
		if !o.p.paused && !m.w.blocked(p, o.p) && !m.w.blocked(o.p, p) {
			near++
		}
	}
	return 2*near > all
}

// look is what the membership does all the time.
func (m *members) look() {
	m.w.after(lookEvery, m.look)
	changed := false
	for _, o := range m.list {
		if o.status == singleton.Down {
			changed = m.fence(o) || changed
		} else {
			changed = m.judge(o) || changed
		}
	}
	m.tellOutcasts()
	if changed {
		m.spread()
		return
	}
	m.lead()
	if m.w.now.Sub(m.sent) > 400*time.Millisecond {
		m.send(func(p *process) bool { return p.control.seen < m.seq || !p.control.converged })
	}
}

// judge follows whether a member can be reached, and renews its lease if so.
func (m *members) judge(o *member) (changed bool) {
	if m.reaches(o.p) {
		changed = o.unreachable
		o.since, o.unreachable = time.Time{}, false
		o.p.leaseUntil = m.w.now.Add(o.lease)
		return changed
	}
	if o.since.IsZero() {
		o.since = m.w.now
		o.patience = m.w.between(silentWithin/2, silentWithin)
		if !o.p.alive {
			o.patience = m.w.between(goneWithin/2, goneWithin)
		}
	}
	silent := m.w.now.Sub(o.since)
	if !o.p.alive && silent > goneWithin || silent > o.patience && (!o.p.alive || m.healthyMajority()) {
		m.down(o, "it cannot be reached")
		return true
	}
	if !o.unreachable && silent >= unreachableFrom {
		o.unreachable = true
		return true
	}
	return false
}

// healthyMajority tells whether most of those who may live can decide.
func (m *members) healthyMajority() bool {
	good, all := 0, 0
	for _, o := range m.list {
		if o.status == singleton.Down || !o.p.alive {
			continue
		}
		all++
		if m.reaches(o.p) {
			good++
		}
	}
	return 2*good > all
}

func (m *members) down(o *member, why string) {
	m.w.log("%s is down: %s", o.p.name, why)
	o.status = singleton.Down
	m.fence(o)
}

// fence marks a Down member whose last lease is over.
func (m *members) fence(o *member) bool {
	if o.fenced || o.p.alive && m.w.now.Before(o.p.leaseUntil) {
		return false
	}
	m.w.log("%s is fenced", o.p.name)
	o.fenced = true
	m.w.oracle.writeOff(o.p)
	return true
}

// tellOutcasts lets those who are Down or removed learn it when they can be
// reached again.
func (m *members) tellOutcasts() {
	for _, o := range append(slices.Clone(m.list), m.out...) {
		removed := m.of(o.p) != o
		if !removed && o.status != singleton.Down || o.told || !m.reaches(o.p) {
			continue
		}
		o.told = true
		o.p.after(m.w.upTo(400*time.Millisecond), func() {
			if removed && o.status == singleton.Exiting {
				o.p.farewell(0)
				return
			}
			m.w.log("%s learns that it is down", o.p.name)
			o.p.end()
		})
	}
}

// converged tells whether all who count have seen the latest change.
func (m *members) converged() bool {
	for _, o := range m.list {
		if o.status == singleton.Down || o.status == singleton.Exiting {
			continue
		}
		if o.unreachable || !o.since.IsZero() || o.status != singleton.Joining && o.p.control.seen < m.seq {
			return false
		}
	}
	return true
}

// lead is the leader's.
func (m *members) lead() {
	if !m.converged() {
		return
	}
	changed := false
	var kept []*member
	for _, o := range m.list {
		gone := o.status == singleton.Down && o.fenced || o.status == singleton.Exiting
		switch {
		case gone:
			m.w.log("%s is removed", o.p.name)
			m.out = append(m.out, o)
			changed = true
			continue
		case o.status == singleton.Joining:
			m.ups++
			o.status, o.up, changed = singleton.Up, m.ups, true
		case o.status == singleton.Leaving && o.p.control.exitReady:
			o.status, changed = singleton.Exiting, true
		}
		kept = append(kept, o)
	}
	if m.list = kept; changed {
		m.spread()
	}
}

// spread brings a change to all, to each in its own time.
func (m *members) spread() {
	m.seq++
	m.send(func(*process) bool { return true })
}

func (m *members) send(wants func(*process) bool) {
	m.sent = m.w.now
	seq := m.seq
	views := make([]memberView, 0, len(m.list))
	for _, o := range m.list {
		views = append(views, o.memberView)
	}
	for _, o := range m.list {
		if p := o.p; p.alive && wants(p) {
			p.after(m.w.between(5*time.Millisecond, 200*time.Millisecond), func() {
				if m.reaches(p) {
					p.control.onView(seq, views, seq == m.seq && m.converged())
				}
			})
		}
	}
}

// placed is a view as the coordinator takes it: the shards of who is Down are its
// own until it is Fenced.
func placed(views []memberView, converged bool) coordinator.View {
	v := coordinator.View{Converged: converged}
	for _, o := range views {
		status, unreachable := o.status, o.unreachable
		if status == singleton.Down && !o.fenced {
			status, unreachable = singleton.Up, true
		}
		v.Members = append(v.Members, coordinator.Member{Address: o.p.self.Address, Status: status, Unreachable: unreachable, Hosts: true})
	}
	return v
}

func managed(views []memberView) singleton.View {
	v := singleton.View{}
	for _, o := range views {
		v.Members = append(v.Members, singleton.Member{Address: o.p.self.Address, Status: o.status, UpNumber: o.up})
	}
	return v
}
