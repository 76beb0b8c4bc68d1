package coordinator

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

func TestLoadLevels(t *testing.T) {
	for _, v := range []float64{1e-6, 3e-4, 0.01, 0.5, 1, 7.3, 64, 9999} {
		got := LevelOf(v).Processors()
		if off := got / v; off < 0.91 || off > 1.10 {
			t.Errorf("%v becomes %v", v, got)
		}
	}
	for _, l := range []LoadLevel{0, 1, 2, 100, 254, 255} {
		if got := LevelOf(l.Processors()); got != l {
			t.Errorf("level %d becomes %d", l, got)
		}
	}
	if l := LevelOf(4e-7); l != 0 {
		t.Errorf("almost nothing has level %d", l)
	}
}

// A loaded is a coordinator with members that report loads and carry moves out at once.
type loaded struct {
	t        testing.TB
	c        *Coordinator
	now      time.Time
	nodes    []transport.Address
	capacity []float64
	shards   int
	moved    int
	silent   map[transport.Address]bool
	keeps    map[uint32]bool // the shards whose homes give up each move
	events   []Event
}

func newLoaded(t testing.TB, allocation string, shards, nodes, kinds int, capacity func(i int) float64) *loaded {
	config := Config{Self: node("n0"), Term: termOf(1)}
	if allocation == (greedy{}).String() {
		allocation, config.Strategy = "", greedy{}
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	w := &loaded{t: t, c: c, now: t0, shards: shards, silent: map[transport.Address]bool{}}
	v := View{Converged: true}
	for i := range nodes {
		w.nodes = append(w.nodes, node(fmt.Sprintf("n%d", i)))
		w.capacity = append(w.capacity, capacity(i))
		v.Members = append(v.Members, Member{Address: w.nodes[i], Status: membership.Up, Hosts: true})
	}
	w.step(v)
	var types []TypeInfo
	for i := range kinds {
		types = append(types, TypeInfo{Name: fmt.Sprintf("T%d", i), Package: "p", Shards: uint32(shards), HashName: "xxh64", Hosts: true, Tuning: Tuning{Allocation: allocation}})
	}
	for i, a := range w.nodes {
		w.step(Receive{a, Register{Term: termOf(1), Node: a, Seq: 1, Types: types, Capacity: uint32(1000 * w.capacity[i])}})
	}
	for i := range kinds {
		w.step(Receive{w.nodes[0], Ask{Type: types[i].Name}})
	}
	return w
}

// step gives the coordinator an input, and answers its orders to move as members do.
func (w *loaded) step(in Input) {
	todo := []Input{in}
	for len(todo) > 0 {
		out := w.c.Step(w.now, todo[0])
		todo = todo[1:]
		w.events = append(w.events, out.Events...)
		for _, e := range out.Send {
			switch m := e.Message.(type) {
			case MoveBegin:
				if w.keeps[m.ShardID.Shard] {
					todo = append(todo, Receive{w.c.shard(m.ShardID).home, MoveAborted{m.Term, m.ShardID, m.Epoch, "busy"}})
					continue
				}
				w.moved++
				todo = append(todo, Receive{m.To, MoveDone{m.Term, m.ShardID, m.Epoch}})
			case MoveCancel:
				todo = append(todo, Receive{w.c.shard(m.ShardID).move.to, MoveCancelled(m)})
			}
		}
	}
}

func (w *loaded) home(i int) int {
	return slices.Index(w.nodes, w.c.types["T0"].shards[i].home)
}

// round lets one interval pass. cost has the processors that each shard uses in it.
func (w *loaded) round(cost []float64) {
	at := make([][]ShardLoad, len(w.nodes))
	for i, v := range cost {
		h := w.home(i)
		at[h] = append(at[h], ShardLoad{w.c.types["T0"].shards[i].id, LevelOf(v)})
	}
	for i, a := range w.nodes {
		if !w.silent[a] {
			w.step(Receive{a, MemberLoad{Shards: at[i]}})
		}
	}
	w.now = w.now.Add(LoadInterval)
	w.step(Tick{})
}

// imbalance returns the load of the highest member, as a multiple of the mean.
func (w *loaded) imbalance(cost []float64) float64 {
	used, all, capacity := make([]float64, len(w.nodes)), 0.0, 0.0
	for i, v := range cost {
		h := w.home(i)
		used[h] += v / w.capacity[h]
		all += v
	}
	for _, c := range w.capacity {
		capacity += c
	}
	return slices.Max(used) / (all / capacity)
}

// A zipf gives shards their loads: the load of an entity falls with its rank, and entities are in
// random shards.
type zipf struct {
	shards []int // of the entities, by rank
	cost   []float64
	law    float64
	rng    *rand.Rand
}

func newZipf(seed uint64, shards int, law float64) *zipf {
	z := &zipf{law: law, rng: rand.New(rand.NewPCG(seed, 1)), cost: make([]float64, shards), shards: make([]int, 20_000)}
	for e := range z.shards {
		z.shards[e] = z.rng.IntN(shards)
	}
	return z
}

// sum sets the costs of the shards, so that their sum is the number all.
func (z *zipf) sum(all float64) {
	clear(z.cost)
	total := 0.0
	for rank, s := range z.shards {
		v := 1 / math.Pow(float64(rank+10), z.law)
		z.cost[s] += v
		total += v
	}
	for s := range z.cost {
		z.cost[s] *= all / total
	}
}

// drift swaps a share of the ranks with other entities.
func (z *zipf) drift(share float64) {
	for range int(share * float64(len(z.shards))) {
		a, b := z.rng.IntN(len(z.shards)), z.rng.IntN(len(z.shards))
		if z.rng.IntN(10) == 0 {
			a = z.rng.IntN(100) // so the highest ranks change too
		}
		z.shards[a], z.shards[b] = z.shards[b], z.shards[a]
	}
}

func (z *zipf) noisy(noise float64) []float64 {
	seen := slices.Clone(z.cost)
	for s := range seen {
		seen[s] *= math.Exp(z.rng.NormFloat64()*noise - noise*noise/2)
	}
	return seen
}

// greedy moves up to three shards at a time from the members with the highest load to those with the
// lowest.
type greedy struct{ placement.LeastShards }

func (greedy) String() string { return "greedy" }

func (greedy) Rebalance(_ string, homes []placement.Load, limit int) (all []placement.Transfer) {
	homes = slices.Clone(homes)
	share := func(a, b placement.Load) int { return cmp.Compare(a.Used/a.Capacity, b.Used/b.Capacity) }
	moved := map[uint32]bool{}
	for len(all) < min(limit, 3) {
		slices.SortStableFunc(homes, share)
		low, high := &homes[0], &homes[len(homes)-1]
		gap, best := (high.Used-low.Used)/2, -1
		for i, cost := range high.Costs {
			off := func(i int) float64 { return math.Abs(float64(high.Costs[i]) - gap) }
			if cost > 0 && float64(cost) < 2*gap && !moved[high.Movable[i]] && (best < 0 || off(i) < off(best)) {
				best = i
			}
		}
		if best < 0 {
			return all
		}
		cost, shard := float64(high.Costs[best]), high.Movable[best]
		high.Used, low.Used, moved[shard] = high.Used-cost, low.Used+cost, true
		all = append(all, placement.Transfer{Shard: shard, To: low.Node})
	}
	return all
}

// TestLoadWeighted: the members' loads stay near their mean, with few moves, however the loads
// change. The highest load is measured every 10 s, after a first hour, and beside other strategies
// for two cases.
func TestLoadWeighted(t *testing.T) {
	const hours = 3
	double := func(i int) float64 { return 1 + float64(1-min(i%4, 1)) }
	for _, c := range []struct {
		name               string
		nodes, shards      int
		law, drift, noise  float64
		capacity           func(int) float64
		mean, p99, percent float64 // bounds: of the highest load, and of the moves in an hour
	}{
		{"steady", 16, 256, 0.9, 0, 0.15, nil, 1.15, 1.18, 0},
		{"drift", 16, 256, 0.9, 0.0005, 0.15, nil, 1.16, 1.25, 4},
		{"ten times the drift", 16, 256, 0.9, 0.005, 0.15, nil, 1.20, 1.38, 11},
		{"Zipf 1.1", 16, 256, 1.1, 0.0005, 0.15, nil, 1.17, 1.35, 11},
		{"few shards", 8, 64, 0.9, 0.0005, 0.15, nil, 1.18, 1.30, 11},
		{"unequal nodes", 16, 256, 0.9, 0.0005, 0.15, double, 1.17, 1.28, 6},
		{"noise", 16, 256, 0.9, 0.0005, 0.6, nil, 1.16, 1.28, 11},
	} {
		least := placement.LeastShards{}.String()
		allocations := []string{least, placement.LoadWeighted{}.String()}
		if c.drift == 0.0005 && c.noise < 0.6 && c.nodes == 16 && c.capacity == nil {
			allocations = append(allocations, placement.ConsistentHash{}.String(), greedy{}.String())
		}
		for _, allocation := range allocations {
			capacity := c.capacity
			if capacity == nil {
				capacity = func(int) float64 { return 1 }
			}
			var highest []float64
			w, z := newLoaded(t, allocation, c.shards, c.nodes, 1, capacity), newZipf(0, c.shards, c.law)
			for n := range hours * 360 {
				if n%6 == 0 {
					z.drift(c.drift)
					z.sum(float64(c.nodes) / 2)
				}
				if n == 360 {
					w.moved = 0
				}
				w.round(z.noisy(c.noise))
				if n >= 360 {
					highest = append(highest, w.imbalance(z.cost))
				}
			}
			slices.Sort(highest)
			mean, p99 := 0.0, highest[len(highest)*99/100]
			for _, v := range highest {
				mean += v / float64(len(highest))
			}
			moves := float64(100*w.moved) / float64(c.shards*(hours-1))
			text := fmt.Sprintf("%-20s %-16s %.2f of the mean, p99 %.2f, moves %.1f%% of the shards an hour", c.name, allocation, mean, p99, moves)
			t.Log(text)
			switch {
			case allocation == least && moves > 0:
				t.Errorf("%s, want none", text)
			case allocation == allocations[1] && (mean > c.mean || p99 > c.p99 || moves > c.percent):
				t.Errorf("%s; want at most %.2f, %.2f and %.1f%%", text, c.mean, c.p99, c.percent)
			}
		}
	}
}

// said returns the text about a shard that operators get.
func (w *loaded) said(i int) string {
	text, _ := w.c.explain(w.c.types["T0"].shards[i].id)
	return text
}

// TestWhyByLoad: the reasons of moves have the numbers that decided them. If no shard moves,
// operators get the reason.
func TestWhyByLoad(t *testing.T) {
	w := newLoaded(t, "load-weighted", 8, 2, 1, func(int) float64 { return 1 })
	cost := make([]float64, 8)
	for i := range cost {
		if cost[i] = 0.05; w.home(i) == 0 {
			cost[i] = 0.15
		}
	}
	told := func(i int, want string) {
		t.Helper()
		if got := w.said(i); !strings.Contains(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	told(0, "of its type: n0 has reported no load in the last 30s")
	w.silent[w.nodes[1]] = true
	w.round(cost)
	told(0, "of its type: n1 has reported no load in the last 30s")
	w.silent[w.nodes[1]] = false
	w.round(cost)
	told(0, "; by load it does not move before 1970-")
	told(0, "of its type: n0 is at 1.54 of mean, but none of its shards may move now")
	for range 25 {
		w.round(cost)
	}
	if w.moved != 0 {
		t.Fatalf("%d shards have moved within 5 min of their first home", w.moved)
	}
	w.step(Receive{w.nodes[0], Balance{1, WantPause, "ann"}})
	for range 5 {
		w.round(cost)
	}
	if w.moved != 0 {
		t.Fatalf("%d shards have moved while rebalancing was paused", w.moved)
	}
	w.events = nil
	w.step(Receive{w.nodes[0], Balance{2, WantResume, "ann"}})
	if w.moved != 1 {
		t.Fatalf("%d shards have moved, want 1", w.moved)
	}
	const numbers = "by load: n0 at 1.54, n1 at 0.46 of mean; makes 1.16; 0 of 1 left"
	i := slices.IndexFunc(w.events, func(e Event) bool { return e.What == MoveCommitted })
	if i < 0 || w.events[i].Reason != numbers {
		t.Fatalf("%v, want a move %s", w.events, numbers)
	}
	told(int(w.events[i].Shard.Shard-8), "it moved there from n0, "+numbers)
	for range 18 {
		w.round(cost)
	}
	told(0, "but the budget of moves for this hour is used up")
	if w.moved != 1 {
		t.Errorf("%d shards have moved, want 1", w.moved)
	}
}

// TestSilentMember: while a member's reports have stopped, nothing moves by load.
func TestSilentMember(t *testing.T) {
	w := newLoaded(t, "load-weighted", 64, 4, 1, func(int) float64 { return 1 })
	cost := make([]float64, 64)
	for i := range cost {
		if cost[i] = 0.01; w.home(i) == 0 {
			cost[i] = 0.05
		}
	}
	w.silent[w.nodes[3]] = true
	for range 60 {
		w.round(cost)
	}
	if w.moved != 0 {
		t.Errorf("%d shards have moved without the load of %s", w.moved, w.nodes[3])
	}
	w.silent[w.nodes[3]] = false
	w.round(cost)
	if w.moved == 0 {
		t.Errorf("no shard has moved: %s", w.said(0))
	}
}

// TestReportInterval: more than 1,000 members report less often. The coordinator then looks less
// often, and waits longer for a silent member. The budget of an hour stays the same.
func TestReportInterval(t *testing.T) {
	for members, want := range map[int]time.Duration{0: 10 * time.Second, 1000: 10 * time.Second, 1500: 15 * time.Second, 10_000: 100 * time.Second} {
		if got := ReportInterval(members); got != want {
			t.Errorf("%d members report every %v, want %v", members, got, want)
		}
	}
	w := newLoaded(t, "load-weighted", 64, 2000, 1, func(int) float64 { return 1 })
	k := w.c.types["T0"]
	began, rounds, before := w.now, 0, w.c.sumAt
	for w.now.Sub(began) < time.Hour-time.Second {
		for _, a := range w.nodes[:64] {
			w.step(Receive{a, MemberLoad{Shards: []ShardLoad{{k.shards[0].id, 50}}}})
		}
		w.now = w.now.Add(LoadInterval)
		if w.step(Tick{}); w.c.sumAt != before {
			rounds, before = rounds+1, w.c.sumAt
		}
	}
	if rounds < 178 || rounds > 180 {
		t.Errorf("in an hour there were %d rounds, want 180", rounds)
	}
	if name, is := w.c.silent([]placement.Load{{Node: w.nodes[0]}}); is {
		t.Errorf("%s is silent", name)
	}
	w.now = w.now.Add(45 * time.Second)
	w.step(Tick{})
	if name, is := w.c.silent([]placement.Load{{Node: w.nodes[0]}}); is {
		t.Errorf("%s is silent within three intervals", name)
	}
	w.now = w.now.Add(10 * time.Second)
	w.step(Tick{})
	if _, is := w.c.silent([]placement.Load{{Node: w.nodes[0]}}); !is {
		t.Errorf("a member is not silent after three intervals")
	}
}

// TestNextHomesByLoad: the shards of a lost member go to the members with the least load.
func TestNextHomesByLoad(t *testing.T) {
	w := newLoaded(t, "load-weighted", 64, 4, 1, func(int) float64 { return 1 })
	cost := make([]float64, 64)
	for i := range cost {
		cost[i] = []float64{0.004, 0.004, 0.02, 0.004}[w.home(i)]
	}
	for range 4 {
		w.round(cost)
	}
	w.step(View{Converged: true, Members: []Member{
		{Address: w.nodes[0], Status: membership.Up, Hosts: true},
		{Address: w.nodes[2], Status: membership.Up, Hosts: true},
		{Address: w.nodes[3], Status: membership.Up, Hosts: true},
	}})
	var at [4]int
	for i := range cost {
		at[w.home(i)]++
	}
	if want := [4]int{24, 0, 16, 24}; at != want {
		t.Errorf("the members have %v shards, want %v", at, want)
	}
}

// TestStrategiesGetLoads: a user's strategy gets the measured loads of shards and members.
func TestStrategiesGetLoads(t *testing.T) {
	s := &watching{}
	c, err := New(Config{Self: node("n0"), Term: termOf(1), Strategy: s})
	if err != nil {
		t.Fatal(err)
	}
	w := &loaded{t: t, c: c, now: t0, nodes: []transport.Address{node("n0")}}
	w.step(View{Converged: true, Members: []Member{{Address: node("n0"), Status: membership.Up, Hosts: true}, {Address: node("n1"), Status: membership.Up, Hosts: true}}})
	for _, a := range []transport.Address{node("n0"), node("n1")} {
		w.step(Receive{a, Register{Term: termOf(1), Node: a, Seq: 1, Capacity: 2500, Zone: "b", Types: []TypeInfo{{Name: "T0", Package: "p", Shards: 2, HashName: "xxh64", Hosts: true}}}})
	}
	w.step(Receive{node("n0"), Ask{Type: "T0"}})
	id := func(n uint32) placement.ShardID { return placement.ShardID{Kind: "T0", Shard: n} }
	w.step(Receive{node("n0"), MemberLoad{100, 950, []ShardLoad{{id(2), LevelOf(0.25)}, {id(3), LevelOf(0.5)}}}})
	w.now = w.now.Add(LoadInterval)
	w.step(Tick{})
	w.now = w.now.Add(LoadInterval)
	w.step(Tick{})
	l := s.last[0]
	if l.Capacity != 2.5 || l.Zone != "b" || l.Memory != 0.95 || len(l.Costs) != 2 || l.Costs[0] < 0.26 || l.Costs[1] > 0.54 || l.Used < 0.88 || l.Used > 0.89 || math.Abs(l.OfType-l.Used+0.1) > 1e-6 {
		t.Errorf("the strategy got %+v", l)
	}
}

// watching is a strategy that keeps the loads that it gets. It gives all shards to the first
// member.
type watching struct{ last []placement.Load }

func (*watching) String() string { return "watching" }
func (*watching) Allocate(_ placement.ShardID, homes []placement.Load) transport.Address {
	return homes[0].Node
}

func (s *watching) Rebalance(_ string, homes []placement.Load, _ int) []placement.Transfer {
	s.last = slices.Clone(homes)
	return nil
}

// TestShardThatStays: if the home of the best shard to move gives its moves up, others move.
func TestShardThatStays(t *testing.T) {
	w := newLoaded(t, "load-weighted", 16, 2, 1, func(int) float64 { return 1 })
	cost, best := make([]float64, 16), -1
	for i := range cost {
		switch {
		case w.home(i) != 0:
			cost[i] = 0.02
		case best < 0:
			best, cost[i] = i, 0.05
		default:
			cost[i] = 0.03
		}
	}
	w.keeps = map[uint32]bool{uint32(16 + best): true}
	for range 3 * 360 {
		w.round(cost)
	}
	if w.moved == 0 || w.imbalance(cost) > 1.2 {
		t.Errorf("after 3 hours %d shards have moved, and the highest member is at %.2f of the mean: %s", w.moved, w.imbalance(cost), w.said(best))
	}
}

// TestAllStay: a home that gives all its moves up is asked for each shard at most each 5 min.
func TestAllStay(t *testing.T) {
	w := newLoaded(t, "load-weighted", 16, 2, 1, func(int) float64 { return 1 })
	cost := make([]float64, 16)
	w.keeps = map[uint32]bool{}
	for i := range cost {
		if cost[i] = 0.02; w.home(i) == 0 {
			cost[i], w.keeps[uint32(16+i)] = 0.04, true
		}
	}
	for range 360 {
		w.round(cost)
	}
	tries := 0
	for _, e := range w.events {
		if e.What == MoveResumed {
			tries++
		}
	}
	if most := 12 * len(w.keeps); tries == 0 || tries > most {
		t.Errorf("in an hour %d moves were given up, want 1 to %d", tries, most)
	}
}

// TestLeft: the number of moves that are left is rounded down.
func TestLeft(t *testing.T) {
	w := newLoaded(t, "load-weighted", 256, 2, 1, func(int) float64 { return 1 })
	cost := make([]float64, 256)
	for i := range cost {
		if cost[i] = 0.001; w.home(i) == 0 {
			cost[i] = 0.003
		}
	}
	for range 40 {
		w.round(cost)
	}
	i := slices.IndexFunc(w.events, func(e Event) bool { return e.What == MoveStarted })
	if i < 0 || !strings.Contains(w.events[i].Reason, "; 24 of 25 left") {
		t.Errorf("got %v, want a first move with 24 of 25 left", w.events[max(0, i):])
	}
}

// TestBudgetOfAnHour: however moves are spread, in no hour more than a tenth of a type's shards
// move, or one shard if that is more.
func TestBudgetOfAnHour(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, shards := range []int{1, 9, 10, 25, 60, 128, 256, 4096} {
		most := max(1, shards/10)
		for _, pause := range []time.Duration{time.Second, 10 * time.Second, 10 * time.Minute, 3 * time.Hour} {
			now := time.Unix(0, 0)
			var spent spending
			var moves []time.Time
			for range 20_000 {
				for n := spent.at(now, time.Hour); spent.sum() < most; *n++ {
					moves = append(moves, now)
				}
				for len(moves) > 0 && now.Sub(moves[0]) > time.Hour {
					moves = moves[1:]
				}
				if len(moves) > most {
					t.Fatalf("%d of %d shards moved in the hour until %v", len(moves), shards, now)
				}
				now = now.Add(10 * time.Second)
				if random.IntN(10) == 0 {
					now = now.Add(time.Duration(random.Int64N(int64(pause))))
				}
			}
		}
	}
}

// BenchmarkPlan plans a large cluster with 16 types: 1,048,576 shards at 10,000 members, of which many
// have too much load.
func BenchmarkPlan(b *testing.B) {
	const members, kinds = 10_000, 16
	c, err := New(Config{Self: node("n0"), Term: termOf(1)})
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	c.now, c.recovered, c.view.Converged = t0, true, true
	for i := range members {
		a := node(fmt.Sprintf("n%05d", i))
		m := &member{Member: Member{Address: a, Status: membership.Up, Hosts: true}, present: true, register: &Register{Capacity: 1000}, hosts: map[string]bool{}, hosted: kinds}
		m.load.at = t0
		for k := range kinds {
			m.hosts[fmt.Sprintf("T%02d", k)] = true
		}
		c.members[a], c.order = m, append(c.order, a)
	}
	for k := range kinds {
		t := c.addType(TypeInfo{Name: fmt.Sprintf("T%02d", k), Shards: maxShards / kinds, Tuning: Tuning{Allocation: "load-weighted"}})
		t.wanted, t.opened = true, true
		for i := range t.shards {
			s := &t.shards[i]
			s.home, s.reported = c.order[rng.IntN(members)], 1+uint16(LevelOf(rng.ExpFloat64()/100))
			s.at, s.epoch, s.last = c.members[s.home], 1, 1
		}
	}
	c.loaded = true
	c.addUp()
	b.ReportAllocs()
	for b.Loop() {
		c.plan = true
		c.settle()
		if len(c.moves) != kinds*c.config.MaxMoves {
			b.Fatalf("%d moves", len(c.moves))
		}
		for _, m := range c.moves {
			m.shard.move = nil
		}
		c.moves, c.out = nil, Output{}
	}
}
