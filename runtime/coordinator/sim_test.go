package coordinator

import (
	"cmp"
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

var (
	seeds   = flag.Int("seeds", 100, "simulated runs")
	oneSeed = flag.Uint64("seed", 0, "run this seed only, and print it")
)

// TestSimulation runs whole clusters of managers, coordinators and followers with
// regions that move shards as package region does, over a control channel that
// loses, repeats and reorders, while nodes join, leave and crash. After every
// event:
//
//   - a coordinator's invariants hold;
//   - one node at most is ever active under a (shard, epoch);
//   - a shard never becomes active with less than what a live copy of it knows.
//
// When the faults have ended: one coordinator, one table, every shard active at
// the table's home, no move under way, the kinds even.
func TestSimulation(t *testing.T) {
	if *oneSeed != 0 {
		newWorld(t, *oneSeed, true).run()
		return
	}
	moves, resumed, promoted := 0, 0, 0
	for seed := uint64(1); seed <= uint64(*seeds) && !t.Failed(); seed++ {
		w := newWorld(t, seed, false)
		w.run()
		moves += w.counts[MoveCommitted]
		resumed += w.counts[MoveResumed]
		promoted += w.counts[MovePromoted]
	}
	t.Logf("%d moves committed, %d resumed, %d promoted", moves, resumed, promoted)
	if !t.Failed() && *seeds >= 100 && (moves < 1000 || resumed < 500 || promoted < 100) {
		t.Errorf("too little happened for the test to mean something")
	}
}

// A world is one simulated run.
type world struct {
	t       *testing.T
	seed    uint64
	verbose bool
	rng     *rand.Rand
	now     time.Time
	start   time.Time
	events  events
	order   uint64
	loss    float64 // of control messages; 0 after the faults

	nodes   []*simNode
	members []singleton.Member // as the authority has them
	hosts   map[transport.Address][]KindInfo
	seq     uint64 // of the membership view
	ups     uint32
	homes   map[activation]transport.Address
	counts  map[EventKind]int
}

type activation struct {
	placement.ShardID
	epoch placement.Epoch
}

func newWorld(t *testing.T, seed uint64, verbose bool) *world {
	start := time.Unix(1_000_000, 0)
	return &world{
		t: t, seed: seed, verbose: verbose, rng: rand.New(rand.NewPCG(seed, 1)),
		now: start, start: start, loss: 0.2,
		hosts: map[transport.Address][]KindInfo{}, homes: map[activation]transport.Address{}, counts: map[EventKind]int{},
	}
}

func (w *world) failf(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("seed %d at %v: %s (go test -run Simulation -seed %d)", w.seed, w.now.Sub(w.start), fmt.Sprintf(format, args...), w.seed)
}

func (w *world) logf(format string, args ...any) {
	if w.verbose {
		fmt.Printf("%8v ", w.now.Sub(w.start))
		fmt.Printf(format+"\n", args...)
	}
}

// after runs f later, unless the node died in between.
func (w *world) after(d time.Duration, n *simNode, f func()) {
	w.order++
	heap.Push(&w.events, event{w.now.Add(d), w.order, n, f})
}

func (w *world) within(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }

type event struct {
	at    time.Time
	order uint64
	node  *simNode
	f     func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(e[i].at.Compare(e[j].at), cmp.Compare(e[i].order, e[j].order)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

const (
	faultTime = 40 * time.Second
	healTime  = 60 * time.Second
)

func (w *world) run() {
	for range 3 {
		w.join()
	}
	w.after(0, nil, w.fault)
	w.after(0, nil, w.authority)
	w.runUntil(w.start.Add(faultTime))
	w.loss = 0
	w.join() // so that somebody is left
	w.runUntil(w.start.Add(faultTime + healTime))
	if !w.t.Failed() {
		w.checkEnd()
	}
}

func (w *world) runUntil(end time.Time) {
	for len(w.events) > 0 && w.events[0].at.Before(end) && !w.t.Failed() {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		if e.node == nil || e.node.alive {
			e.f()
		}
	}
	w.now = end
}

// fault joins, crashes or drains a node now and then.
func (w *world) fault() {
	if w.loss == 0 {
		return
	}
	live := slices.DeleteFunc(slices.Clone(w.nodes), func(n *simNode) bool { return !n.alive })
	switch k := w.rng.IntN(10); {
	case k < 4 && len(live) < 6 || len(live) < 2:
		w.join()
	case k < 7:
		victim := live[w.rng.IntN(len(live))]
		if i := slices.IndexFunc(live, func(n *simNode) bool { return n.coordinator != nil }); i >= 0 && w.rng.IntN(2) == 0 {
			victim = live[i]
			if len(live) > 2 && w.rng.IntN(2) == 0 {
				w.crash(live[(i+1)%len(live)]) // and another one with it
			}
		}
		w.crash(victim)
	case k < 9:
		w.leave(live[w.rng.IntN(len(live))])
	}
	w.after(w.within(5*time.Second), nil, w.fault)
}

func (w *world) join() {
	n := newSimNode(w, len(w.nodes))
	w.nodes = append(w.nodes, n)
	w.members = append(w.members, singleton.Member{Address: n.self, Status: membership.Joining})
	w.hosts[n.self] = n.kinds
	w.changed()
	n.wake()
	w.logf("%s joins", n.self.Name)
}

func (w *world) crash(n *simNode) {
	w.logf("%s crashes", n.self.Name)
	n.alive = false
	w.after(time.Second+w.within(time.Second), nil, func() {
		if m := w.member(n.self); m != nil {
			m.Status = membership.Down
			w.changed()
		}
	})
}

func (w *world) leave(n *simNode) {
	if m := w.member(n.self); m != nil && m.Status == membership.Up {
		w.logf("%s leaves", n.self.Name)
		m.Status = membership.Leaving
		w.changed()
	}
}

func (w *world) member(a transport.Address) *singleton.Member {
	for i := range w.members {
		if w.members[i].Address == a {
			return &w.members[i]
		}
	}
	return nil
}

func (w *world) nodeOf(a transport.Address) *simNode {
	for _, n := range w.nodes {
		if n.self == a {
			return n
		}
	}
	return nil
}

// changed tells every live node of the members, each in its own time.
func (w *world) changed() {
	w.seq++
	seq, members := w.seq, slices.Clone(w.members)
	for _, n := range w.nodes {
		w.after(w.within(300*time.Millisecond), n, func() { n.onView(seq, members) })
	}
}

// converged reports whether all live members have seen the last view.
func (w *world) converged() bool {
	for _, m := range w.members {
		if n := w.nodeOf(m.Address); m.Status != membership.Down && (!n.alive || n.seen < w.seq) {
			return false
		}
	}
	return true
}

// authority is the leader of the membership: it acts on convergence.
func (w *world) authority() {
	w.after(200*time.Millisecond, nil, w.authority)
	if !w.converged() {
		return
	}
	before := slices.Clone(w.members)
	w.members = slices.DeleteFunc(w.members, func(m singleton.Member) bool {
		n := w.nodeOf(m.Address)
		gone := m.Status == membership.Down || m.Status == membership.Exiting && n.manager.State() == singleton.End
		if gone && n.alive {
			w.logf("%s is removed", n.self.Name)
			n.alive = false
		}
		return gone
	})
	for i := range w.members {
		m := &w.members[i]
		switch m.Status {
		case membership.Joining:
			w.ups++
			m.Status, m.UpNumber = membership.Up, w.ups
		case membership.Leaving:
			if n := w.nodeOf(m.Address); n.empty() || w.sole(m.Address) {
				m.Status = membership.Exiting
			}
		}
	}
	if !slices.EqualFunc(before, w.members, func(a, b singleton.Member) bool { return a.Address == b.Address && a.Status == b.Status }) {
		w.changed()
		return
	}
	for _, n := range w.nodes {
		if n.alive && !n.converged {
			n.onView(w.seq, w.members)
		}
	}
}

func (w *world) sole(a transport.Address) bool {
	return !slices.ContainsFunc(w.members, func(m singleton.Member) bool { return m.Address != a && m.Status == membership.Up })
}

// activate checks that the node may be active with what it has.
func (w *world) activate(n *simNode, s *simShard) {
	w.logf("%s opens %v at %v with %d", n.self.Name, s.id, s.epoch, s.value)
	a := activation{s.id, s.epoch}
	if home, ok := w.homes[a]; ok && home != n.self {
		w.failf("%v at %v is active at %v and %v", s.id, s.epoch, home, n.self)
	}
	w.homes[a] = n.self
	for _, o := range w.nodes {
		if !o.alive || o == n {
			continue
		}
		if other := o.shards[s.id]; other != nil && other.holds() && other.value > s.value {
			w.failf("%v opens %v at %v with %d, but %v is %v with %d", n.self.Name, s.id, s.epoch, s.value, o.self.Name, other.state, other.value)
		}
	}
}

func (w *world) checkEnd() {
	var c *Coordinator
	for _, n := range w.nodes {
		if n.alive && n.coordinator != nil {
			if c != nil {
				w.failf("two coordinators")
			}
			c = n.coordinator
		}
	}
	if c == nil || !c.recovered {
		w.failf("no coordinator: %+v", w.members)
		return
	}
	if len(c.moves) > 0 {
		w.failf("%d moves hang: %v %v", len(c.moves), c.moves[0].shard.id, c.moves[0].phase)
	}
	for _, n := range w.nodes {
		if n.alive && n.follower.Table().Version() != c.version() {
			w.failf("%v has table %v, want %v", n.self, n.follower.Table().Version(), c.version())
		}
	}
	for _, name := range c.names {
		c.checkKind(w, name)
	}
	for _, n := range w.nodes {
		if !n.alive {
			continue
		}
		for _, s := range n.shards {
			if e, _ := c.table.Lookup(s.id); s.state == Active && e.Home != n.self {
				w.failf("%v is active at %v at %v, the table says %v", s.id, n.self, s.epoch, e)
			}
		}
	}
}

func (c *Coordinator) checkKind(w *world, name string) {
	loads, _ := c.homes(c.kinds[name])
	if len(loads) == 0 {
		return
	}
	counts := make([]int, 0, len(loads))
	for _, l := range loads {
		counts = append(counts, l.Shards)
	}
	if slices.Max(counts)-slices.Min(counts) > 1 {
		w.failf("%s is not even: %v", name, loads)
	}
	for i := range c.kinds[name].shards {
		s := &c.kinds[name].shards[i]
		if s.home.IsZero() {
			w.failf("%v has no home", s.id)
			continue
		}
		if at := w.nodeOf(s.home).shards[s.id]; at == nil || at.state != Active || at.epoch != s.epoch {
			w.failf("%v at %v: its home %v has it as %+v", s.id, s.epoch, s.home, at)
		}
	}
}
