package sharding

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A world has the processes of one run, the broker and the membership. The seed determines
// everything in it.
type world struct {
	r        *rand.Rand
	now      time.Time
	queue    events
	order    int
	hash     uint64 // of all events so far
	sessions uint64 // numbers the sessions between members and clients
	plan     plan
	ids      []placement.ShardID
	procs    []*process // all processes so far, in the order of their beginnings
	members  *members
	parted   time.Time // until when no message passes between the two servers
	oracle   *oracle
	err      error
	trace    *strings.Builder // nil means no trace
	faulty   bool             // during the faults, in which control messages get lost
	hidden   int              // the number of hosts that fell silent when a coordinator began
	calm     bool             // the faults are over, and threads make no more calls
	watch    func()           // called after each event, if there is one
	costs    []float64        // the processors that each shard uses, in the order of ids
	demand   float64          // how many instances of the pool the load keeps busy
	quiet    bool             // no more loads are reported
}

var epochStart = time.Unix(1_000_000, 0)

const kindName = "K"

// An event happens to a process, or to the world if that is nil. A process that
// stands still gets its events when it goes on; a dead one never.
type event struct {
	at      time.Time
	order   int
	process *process
	do      func()
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
	(*q)[len(*q)-1] = event{}
	*q = (*q)[:len(*q)-1]
	return last
}

func newWorld(seed uint64, p plan, trace *strings.Builder) *world {
	w := &world{r: rand.New(rand.NewPCG(seed, 23)), now: epochStart, plan: p, faulty: true, trace: trace}
	for i := range p.shards {
		w.ids = append(w.ids, placement.ShardID{Kind: kindName, Shard: uint32(p.shards + i)})
	}
	for i := range p.pool {
		w.ids = append(w.ids, placement.ShardID{Kind: poolName, Shard: uint32(p.pool + i)})
	}
	w.oracle = newOracle(w)
	w.members = newMembers(w)
	if p.loaded {
		w.drift()
	}
	for i := range p.hosts {
		w.begin(fmt.Sprintf("n%d", i+1), true)
	}
	for i := range p.clients {
		w.begin(fmt.Sprintf("c%d", i+1), false)
	}
	return w
}

// begin starts a process. Its incarnation differs from those of former processes with its name.
func (w *world) begin(name string, host bool) *process {
	incarnation := uint64(1)
	for _, o := range w.procs {
		if o.name == name {
			incarnation++
		}
	}
	p := newProcess(w, name, incarnation, host)
	w.procs = append(w.procs, p)
	w.log("%s#%d begins", name, incarnation)
	if host {
		w.members.join(p)
		p.control.start()
	} else {
		p.client.start()
	}
	if w.now.After(epochStart) { // at the start of a run all processes begin together
		p.startThreads()
	}
	return p
}

func (w *world) schedule(d time.Duration, p *process, do func()) {
	w.order++
	heap.Push(&w.queue, event{w.now.Add(max(d, 0)), w.order, p, do}) // a process that stood still is late
}

func (w *world) after(d time.Duration, do func()) { w.schedule(d, nil, do) }

// upTo returns a random time of at most d.
func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.r.Int64N(int64(d) + 1)) }

// between returns a random time from a to b.
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

// membersTrace returns the function that copies faults and views from the membership's trace to
// this one.
func (w *world) membersTrace() func(string) {
	if w.trace == nil {
		return nil
	}
	return func(line string) {
		if strings.Contains(line, " -- ") || strings.Contains(line, " == ") {
			fmt.Fprintln(w.trace, "membership:", strings.TrimSpace(line))
		}
	}
}

func (w *world) run(d time.Duration) {
	until := w.now.Add(d)
	for w.err == nil {
		next := until
		if len(w.queue) > 0 && w.queue[0].at.Before(until) {
			next = w.queue[0].at
		}
		if w.members.pass(next) {
			continue
		}
		if len(w.queue) == 0 || w.queue[0].at.After(until) {
			break
		}
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		w.mix(uint64(e.order))
		switch p := e.process; {
		case p == nil:
			e.do()
		case !p.alive:
			continue
		case p.paused:
			p.backlog = append(p.backlog, e.do)
			continue
		default:
			e.do()
		}
		if w.err == nil && e.process != nil {
			w.check(e.process)
		}
		if w.watch != nil {
			w.watch()
		}
	}
	if w.err == nil {
		w.now = until
	}
}

// mix adds a number and the time to the hash of the run.
func (w *world) mix(n uint64) {
	const prime = 1099511628211
	w.hash = (w.hash ^ n) * prime
	w.hash = (w.hash ^ uint64(w.now.Sub(epochStart))) * prime
}

// check checks the invariants of the cores at the process that had the last event. A stream checks
// itself if invariants are compiled in.
func (w *world) check(p *process) {
	if p.host {
		if err := p.control.Check(); err != nil {
			w.fail("%s: %v", p.name, err)
		}
	}
	for _, id := range w.ids {
		if s := p.shards[id]; s != nil {
			if err := s.Core.Check(); err != nil {
				w.fail("%s: %v", p.name, err)
			}
			w.oracle.bounds(s)
		}
	}
}

func (w *world) process(a transport.Address) *process {
	for _, p := range w.procs {
		if p.self.Address == a {
			return p
		}
	}
	return nil
}

// coordinators returns the processes that run a coordinator.
func (w *world) coordinators() (all []*process) {
	for _, p := range w.procs {
		if p.alive && p.host && p.control.Coordinator() != nil {
			all = append(all, p)
		}
	}
	return all
}

// pick returns a random process for which can is true, or nil if there is none.
func (w *world) pick(can func(*process) bool) *process {
	var all []*process
	for _, p := range w.procs {
		if can(p) {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[w.r.IntN(len(all))]
}
