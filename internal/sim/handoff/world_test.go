package handoff

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A world is some processes, a broker and a coordinator. Everything in it
// follows from the seed.
type world struct {
	r      *rand.Rand
	now    time.Time
	queue  events
	order  int
	plan   plan
	procs  []*process
	coord  *coordinator
	oracle *oracle
	err    error
	trace  *strings.Builder // nil: none wanted
	calm   bool             // the faults are over
}

// A plan says what happens in a run.
type plan struct {
	name     string
	hosts    int
	clients  int
	shards   int
	moves    int           // how many shards are told to move
	breaks   int           // connections that break and come back
	aborts   bool          // turns may outlast the bound of draining
	kills    int           // hosts killed
	leaves   int           // hosts that leave in order
	blocks   int           // directions that let nothing through for longer than a gate waits
	stale    time.Duration // how late tables come to some
	mayLose  bool          // acknowledged calls may be lost
	duration time.Duration
}

var epochStart = time.Unix(1_000_000, 0)

const kindName = "K"

type event struct {
	at    time.Time
	order int
	do    func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].order < q[j].order
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func newWorld(seed uint64, p plan) *world {
	w := &world{r: rand.New(rand.NewPCG(seed, 23)), now: epochStart, plan: p}
	w.oracle = newOracle(w)
	for i := range p.hosts {
		w.procs = append(w.procs, newProcess(w, fmt.Sprintf("n%d", i+1), true))
	}
	for i := range p.clients {
		w.procs = append(w.procs, newProcess(w, fmt.Sprintf("c%d", i+1), false))
	}
	w.coord = newCoordinator(w)
	return w
}

func (w *world) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.queue, event{w.now.Add(d), w.order, do})
}

// upTo is a random time of at most d.
func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.r.Int64N(int64(d) + 1)) }

// between is a random time from a to b.
func (w *world) between(a, b time.Duration) time.Duration { return a + w.upTo(b-a) }

func (w *world) one(in int) bool { return w.r.IntN(in) == 0 }

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("at %v: %s", w.now.Sub(epochStart), fmt.Sprintf(format, args...))
		w.log("FAILED: %v", w.err)
	}
}

func (w *world) log(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%12v "+format+"\n", append([]any{w.now.Sub(epochStart)}, args...)...)
	}
}

// run lets time pass for d.
func (w *world) run(d time.Duration) {
	until := w.now.Add(d)
	for w.err == nil && len(w.queue) > 0 && !w.queue[0].at.After(until) {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
		if w.err == nil {
			w.check()
		}
	}
	if w.err == nil {
		w.now = until
	}
}

// check holds the cores to their invariants.
func (w *world) check() {
	for _, p := range w.procs {
		if !p.alive {
			continue
		}
		for _, id := range w.shardIDs() {
			if s := p.shards[id]; s != nil {
				if err := s.core.Check(); err != nil {
					w.fail("%s: %v", p.name, err)
				}
			}
		}
	}
}

func (w *world) shardIDs() []placement.ShardID {
	ids := make([]placement.ShardID, w.plan.shards)
	for i := range ids {
		ids[i] = placement.ShardID{Kind: kindName, Shard: uint32(w.plan.shards + i)}
	}
	return ids
}

func (w *world) process(a transport.Address) *process {
	for _, p := range w.procs {
		if p.self.Address == a {
			return p
		}
	}
	return nil
}

// transmit brings a payload from one process to another: in order while both
// connections hold, late or never when one breaks.
func (w *world) transmit(l *link, token uint64, payload []byte) {
	from, to := l.process, w.process(l.peer.Address)
	at := w.now.Add(w.between(100*time.Microsecond, 4*time.Millisecond))
	if at.Before(l.arrives) {
		at = l.arrives
	}
	l.arrives = at
	if w.now.Before(l.blockedUntil) {
		return
	}
	mine, theirs := from.life, to.life
	w.after(at.Sub(w.now), func() {
		switch {
		case !to.alive:
			w.after(w.upTo(2*time.Millisecond), func() {
				if from.alive && from.connected && from.life == mine {
					l.core.Bounced(token, w.now)
					l.flush()
				}
			})
		case from.life == mine && to.life == theirs:
			to.arrive(payload)
		case w.one(2): // a connection broke meanwhile
			w.after(w.upTo(200*time.Millisecond), func() { to.arrive(payload) })
		}
	})
}

// faults schedules what the plan says.
func (w *world) faults() {
	d := w.plan.duration
	for range w.plan.breaks {
		w.after(w.upTo(d), func() {
			p := w.procs[w.r.IntN(len(w.procs))]
			p.breakConnection(w.upTo(200 * time.Millisecond))
		})
	}
	for range w.plan.blocks {
		w.after(w.upTo(d), func() {
			p := w.procs[w.r.IntN(len(w.procs))]
			for _, l := range p.sortedLinks() {
				if w.one(2) {
					w.log("%s → %s blocked", p.name, l.peer.Name)
					l.blockedUntil = w.now.Add(w.between(time.Second, 4*time.Second))
				}
			}
		})
	}
	hosts := w.r.Perm(w.plan.hosts)
	for _, i := range hosts[:w.plan.kills] {
		w.after(w.upTo(d), func() { w.kill(w.procs[i]) })
	}
	for _, i := range hosts[w.plan.kills:][:w.plan.leaves] {
		w.after(w.upTo(d/2), func() { w.coord.leave(w.procs[i]) })
	}
	for range w.plan.moves {
		w.after(w.upTo(d), func() { w.coord.moveAny() })
	}
}

// kill ends a process at once; the others learn of it after a while.
func (w *world) kill(p *process) {
	if !p.alive {
		return
	}
	w.log("%s killed", p.name)
	p.alive = false
	w.oracle.killed(p)
	w.bury(p, time.Second)
}

// bury tells all that a process is removed.
func (w *world) bury(p *process, soonest time.Duration) {
	for _, o := range w.procs {
		w.after(w.between(soonest, soonest+600*time.Millisecond), func() {
			if o.alive {
				o.peerGone(p.self.Address, false, true)
			}
		})
	}
	w.after(w.between(soonest, soonest+600*time.Millisecond), func() { w.coord.remove(p) })
}
