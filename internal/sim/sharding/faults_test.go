package sharding

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/runtime/membership"
)

// A plan has the settings and the numbers of faults of a run.
type plan struct {
	name     string
	hosts    int
	clients  int           // processes that are no members
	shards   int           // a power of two
	pool     int           // shards of the pool, another power of two; 0 means that there is none
	loaded   bool          // K is placed by load, and loads drift
	resizes  int           // how many times operators ask for a number of instances
	spread   time.Duration // the period in which faults begin; 0 means faultTime
	moves    int           // pins to other homes
	joins    int           // hosts that join later
	breaks   int           // connections that break and come back
	aborts   bool
	kills    int
	strikes  int // faults in the middle of a move, at a home or at the coordinator
	restarts bool
	leaves   int            // hosts that leave in order
	together bool           // the hosts leave almost at the same time
	pauses   int            // processes that stand still for a while
	cuts     int            // processes, or halves of the cluster, that are cut off
	hides    int            // hosts that fall silent when a coordinator begins, before they register with it
	overlaps bool           // some frames repeat envelopes that have arrived, and add others
	rebounds bool           // bounces come twice
	loss     float64        // the share of control messages that are lost
	stale    time.Duration  // how late tables arrive at some processes
	small    bool           // small buffers
	handoff  region.Handoff // how shards move; zero means ordered
	anyWay   bool           // shards move by one of handoffs, chosen at random
	table    bool           // the members agree by a table, which some or all cannot reach at times
	mayLose  bool           // calls may be lost
	timeout  time.Duration  // the timeout of calls; 0 means callTimeout
}

const (
	// warmUp is how long a run goes before the first fault.
	warmUp = 900 * time.Millisecond
	// faultTime is the period in which faults begin, unless the plan sets another one.
	faultTime = 1500 * time.Millisecond
	// spellTime is how long silences may last after that period, in plans that have any.
	spellTime = 3 * time.Second
)

// servers returns the number of the broker's servers.
func (p plan) servers() int { return min(1+p.cuts, 2) }

// faultTime returns the period in which faults begin.
func (p plan) faultTime() time.Duration { return cmp.Or(p.spread, faultTime) }

// lasts returns the time until a run's faults end.
func (p plan) lasts() time.Duration {
	if p.pauses > 0 || p.cuts > 0 {
		return warmUp + p.faultTime() + spellTime
	}
	return warmUp + p.faultTime()
}

// faults schedules the plan's faults.
func (w *world) faults() {
	at := func(n int, do func()) {
		for range n {
			w.after(warmUp+w.upTo(w.plan.faultTime()), do)
		}
	}
	p := w.plan
	at(p.moves, w.pin)
	at(p.resizes, w.resize)
	at(p.breaks, func() {
		w.pick(func(p *process) bool { return p.alive && !p.paused }).breakConnection(w.upTo(200 * time.Millisecond))
	})
	at(p.joins, func() { w.begin("j"+strconv.Itoa(len(w.procs)), true) })
	if p.together {
		w.leaveTogether()
	} else {
		at(p.leaves, w.leaveAny)
	}
	at(p.kills, func() {
		if p := w.victim(); p != nil {
			w.kill(p)
		}
		if c := w.pick(func(p *process) bool { return p.alive && !p.host }); c != nil && w.one(4) {
			w.kill(c)
		}
	})
	at(p.pauses, func() {
		if p := w.victim(); p != nil {
			w.pause(p, w.spell())
		}
	})
	at(p.cuts, w.cutAny)
	if p.table {
		at(1+w.r.IntN(3), w.tableAway)
	}
}

// tableAway makes the table unreachable for all or some members for a while.
func (w *world) tableAway() {
	if w.one(2) {
		w.members.TableDown(true)
		w.after(w.spell(), func() { w.members.TableDown(false) })
		return
	}
	for _, p := range w.procs {
		if p.host && p.alive && w.one(2) {
			w.members.CutTable(p.node, true)
			w.after(w.spell(), func() { w.members.CutTable(p.node, false) })
		}
	}
}

// spell returns how long a pause or a cut lasts: short enough to be survived, about at the limit,
// or too long.
func (w *world) spell() time.Duration {
	switch w.r.IntN(3) {
	case 0:
		return w.upTo(300 * time.Millisecond)
	case 1:
		return w.between(300*time.Millisecond, 2*time.Second)
	}
	return w.between(2*time.Second, 4*time.Second)
}

// victim returns a member whose loss the others survive. In half of the cases it is the
// coordinator's process.
func (w *world) victim() *process {
	if !w.spare() {
		return nil
	}
	if cs := w.coordinators(); len(cs) > 0 && w.one(2) && !cs[0].paused {
		return cs[0]
	}
	return w.pick(func(p *process) bool { return p.healthy() })
}

// spare reports whether the cluster can lose one more host and still go on.
func (w *world) spare() bool {
	n := 0
	for _, p := range w.procs {
		if p.healthy() {
			n++
		}
	}
	return n >= 2
}

// kill ends a process at once. Perhaps it is started again under its name.
func (w *world) kill(p *process) {
	if !p.alive {
		return
	}
	w.log("%s killed", p.name)
	p.end()
}

// pause makes a process stand still, as SIGSTOP does.
func (w *world) pause(p *process, d time.Duration) {
	w.log("%s stands still for %v", p.name, d)
	p.paused = true
	if p.host {
		w.members.Freeze(p.node)
	}
	w.after(d, p.resume)
}

// resume lets a process go on where it was. All events of the meantime then arrive.
func (p *process) resume() {
	if !p.paused {
		return
	}
	p.w.log("%s goes on", p.name)
	p.paused = false
	if p.host {
		p.w.members.Thaw(p.node)
	}
	backlog := p.backlog
	p.backlog = nil
	for _, do := range backlog {
		p.after(0, do)
	}
}

// strike injects a fault of one of the plan's kinds.
func (w *world) strike(p *process) {
	switch {
	case !w.spare() || !p.alive || p.paused:
	case w.plan.cuts > 0 && w.one(2):
		w.cutOff(p, w.spell())
	case w.plan.pauses > 0 && w.one(2):
		w.pause(p, w.spell())
	default:
		w.kill(p)
	}
}

func (w *world) cutAny() {
	if p := w.victim(); p != nil {
		w.cutOff(p, w.spell())
	}
}

// hide makes a host fall silent for which a new coordinator has to wait. The host still has its
// lease, and may be back before it is judged.
func (w *world) hide(coordinator *process) {
	if w.hidden == w.plan.hides || !w.faulty || !w.spare() {
		return
	}
	p := w.pick(func(p *process) bool { return p.healthy() && p != coordinator })
	if p == nil {
		return
	}
	w.hidden++
	d := w.between(leaseEcho, silentAfter)
	if w.one(2) {
		w.cutOff(p, d)
	} else {
		w.pause(p, d)
	}
}

// cutOff cuts one process off, in both directions or one, or the cluster in two.
func (w *world) cutOff(p *process, d time.Duration) {
	kind := w.r.IntN(4)
	w.log("%s cut off for %v, kind %d", p.name, d, kind)
	if kind == 3 && w.plan.servers() > 1 {
		w.split(d)
		return
	}
	w.isolate(p, kind != 2, kind != 1, d)
}

func (w *world) leaveAny() {
	// While the table is away, perhaps no host could join in time to take over.
	if p := w.victim(); p != nil && (!w.plan.table || w.heir(p)) {
		w.leave(p)
	}
}

func (w *world) leave(p *process) {
	w.log("%s leaves", p.name)
	p.leaves = true
	p.control.do(p.control.Leave)
}

// heir reports whether a host knows another host that is Up or joining and will not leave.
func (w *world) heir(p *process) bool {
	return slices.ContainsFunc(w.procs, func(o *process) bool {
		m, ok := p.control.View().Member(o.self.Address)
		return o != p && o.alive && !o.leaves && ok && m.Status <= membership.Up
	})
}

// leaveTogether makes hosts leave as fast as possible after each other, or with short pauses. One
// host stays, or a joining one.
func (w *world) leaveTogether() {
	if w.one(2) {
		w.after(w.upTo(warmUp), w.pauseMoves)
	}
	at := warmUp + w.upTo(w.plan.faultTime())
	apart := []time.Duration{time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond}[w.r.IntN(3)]
	for range w.plan.leaves {
		w.after(at, func() {
			if p := w.pick(func(p *process) bool { return p.healthy() && w.heir(p) }); p != nil {
				w.leave(p)
			}
		})
		at += w.upTo(apart)
	}
}

// pauseMoves makes a member ask for a pause of moves for balance.
func (w *world) pauseMoves() {
	if p := w.pick((*process).healthy); p != nil {
		w.log("%s pauses moves for balance", p.name)
		p.control.pause()
	}
}

// pin makes a member pin a shard to another home, or withdraw its pin.
func (w *world) pin() {
	asker := w.pick((*process).healthy)
	to := w.pick((*process).healthy)
	if asker == nil {
		return
	}
	asker.control.pin(w.ids[w.r.IntN(w.plan.shards)], to.name)
}

func (w *world) heal() {
	w.log("the faults end")
	w.faulty = false
	w.mend()
	for _, p := range w.procs {
		p.resume()
	}
	w.beginLast()
	w.after(minorityEnds, w.beginLast)
}

// minorityEnds bounds how long after the faults the remaining members may still end because they
// are too few to go on. This can happen, because faults do not consider members that have just
// ended by themselves.
const minorityEnds = 3 * time.Second

// beginLast begins a host if none is left and none is beginning. A second host with the same name
// would wait for the end of the first.
func (w *world) beginLast() {
	const name = "last"
	if !slices.ContainsFunc(w.procs, func(p *process) bool { return p.healthy() || p.alive && p.name == name }) {
		w.begin(name, true)
	}
}
