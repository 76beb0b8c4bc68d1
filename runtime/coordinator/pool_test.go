package coordinator

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A poolCluster is a coordinator with members that obey it at once. It keeps at which members the
// instances run.
type poolCluster struct {
	t       *testing.T
	c       *Coordinator
	now     time.Time
	nodes   []string
	away    map[string]membership.Status // of members that are not Up
	types   []TypeInfo
	seq     uint64
	homes   map[placement.ShardID]string // where instances run
	begun   []Envelope                   // orders to move
	hold    bool                         // members do not carry out moves
	refusal string                       // the latest refusal of a request to change pins
}

func newPoolCluster(t *testing.T, nodes []string, types ...TypeInfo) *poolCluster {
	t.Helper()
	c, err := New(Config{Self: node(nodes[0]), Term: termOf(1)})
	if err != nil {
		t.Fatal(err)
	}
	p := &poolCluster{t: t, c: c, now: t0, types: types, away: map[string]membership.Status{}, homes: map[placement.ShardID]string{}}
	p.join(nodes...)
	for _, info := range types {
		p.step(Receive{node(nodes[0]), Ask{Type: info.Name}})
	}
	return p
}

func poolOf(name string, least, most int, perNode int, survive string) TypeInfo {
	return TypeInfo{Name: name, Package: "p", Shards: 64, HashName: "pool", Hosts: true, Tuning: Tuning{Pool: Pool{
		Min: uint32(least), Max: uint32(most), PerNode: uint32(perNode), Survive: survive,
	}}}
}

func (p *poolCluster) step(in Input) {
	p.t.Helper()
	p.now = p.now.Add(time.Millisecond)
	out := p.c.Step(p.now, in)
	if err := p.c.Check(); err != nil {
		p.t.Fatalf("after %+v: %v", in, err)
	}
	var then []Input
	for _, e := range out.Send {
		switch m := e.Message.(type) {
		case Table:
			for _, entry := range m.Entries {
				delete(p.homes, entry.ShardID)
				if !entry.Home.IsZero() {
					p.homes[entry.ShardID] = entry.Home.Name
				}
			}
		case PinsSet:
			p.refusal = m.Reason
		case MoveBegin:
			p.begun = append(p.begun, e)
			if from := cmpOr(m.To, e.To); !p.hold && p.isUp(from.Name) {
				then = append(then, Receive{from, MoveDone{m.Term, m.ShardID, m.Epoch}})
			}
		}
	}
	for _, in := range then {
		p.step(in)
	}
}

func cmpOr(a, b transport.Address) transport.Address {
	if a.IsZero() {
		return b
	}
	return a
}

func (p *poolCluster) isUp(name string) bool { return slices.Contains(p.nodes, name) }

func (p *poolCluster) view() {
	p.t.Helper()
	v := View{Converged: true}
	for _, name := range p.nodes {
		status, ok := p.away[name]
		if !ok {
			status = membership.Up
		}
		v.Members = append(v.Members, Member{Address: node(name), Status: status, Hosts: true})
	}
	p.step(v)
}

func (p *poolCluster) join(names ...string) {
	p.t.Helper()
	p.nodes = append(p.nodes, names...)
	p.view()
	for _, name := range names {
		p.seq++
		p.step(Receive{node(name), Register{Term: termOf(1), Node: node(name), Seq: p.seq, Types: p.types, Zone: zoneOf(name)}})
	}
}

// zoneOf returns the zone of a node: what is before a dash in its name.
func zoneOf(name string) string {
	zone, _, ok := strings.Cut(name, "-")
	if !ok {
		return ""
	}
	return zone
}

// kill loses a node.
func (p *poolCluster) kill(name string) {
	p.t.Helper()
	p.nodes = slices.DeleteFunc(p.nodes, func(n string) bool { return n == name })
	maps.DeleteFunc(p.homes, func(_ placement.ShardID, home string) bool { return home == name })
	p.view()
}

// leave makes a node leave in order.
func (p *poolCluster) leave(name string) {
	p.t.Helper()
	p.away[name] = membership.Leaving
	p.view()
	for id, home := range p.homes {
		if home == name {
			p.t.Fatalf("%v is still at %s, which leaves", id, name)
		}
	}
	delete(p.away, name)
	p.kill(name)
}

// at returns for each instance of a pool the place of its node in the list order, from 1.
func (p *poolCluster) at(kind string, order []string) (places []int) {
	for i := range uint32(64) {
		if home, ok := p.homes[placement.ShardID{Kind: kind, Shard: 64 + i}]; ok {
			places = append(places, slices.Index(order, home)+1)
		}
	}
	return places
}

// overlap returns the fewest and the most instances of all pools at a node.
func (p *poolCluster) overlap() (lo, hi int) {
	use := map[string]int{}
	for _, home := range p.homes {
		use[home]++
	}
	lo = 1 << 30
	for _, name := range p.nodes {
		lo, hi = min(lo, use[name]), max(hi, use[name])
	}
	return lo, hi
}

// TestPapersCircle: partitions A, B and C with 4, 3 and 5 instances on ten nodes. A is on nodes 1
// to 4, B on 5 to 7, C on 8 to 10 and 1 and 2. Five nodes join behind the nodes 2, 4, 5, 7 and 8,
// so the nodes are numbered anew. All instances stay on their nodes.
func TestPapersCircle(t *testing.T) {
	order := strings.Fields("n01 n02 n03 n04 n05 n06 n07 n08 n09 n10")
	p := newPoolCluster(t, order, poolOf("A", 4, 4, 1, ""), poolOf("B", 3, 3, 1, ""), poolOf("C", 5, 5, 1, ""))
	check := func(a, b, c string) {
		t.Helper()
		for kind, want := range map[string]string{"A": a, "B": b, "C": c} {
			if got := fmt.Sprint(p.at(kind, order)); got != want {
				t.Errorf("%s is on nodes %s, want %s", kind, got, want)
			}
		}
	}
	check("[1 2 3 4]", "[5 6 7]", "[8 9 10 1 2]")
	more := strings.Fields("n02b n04b n05b n07b n08b")
	p.join(more...)
	order = slices.Sorted(slices.Values(slices.Concat(order, more)))
	check("[1 2 4 5]", "[7 9 10]", "[12 14 15 1 2]")
	if len(p.begun) > 0 {
		t.Errorf("%d moves begin when nodes join, want none", len(p.begun))
	}
}

// TestPoolsOverlapLeast: in random clusters no node has two instances more than another node. A
// join moves no instance, and a loss moves only the lost instances. After each step, a pool has as
// many instances as failures need, each at a node of its own.
func TestPoolsOverlapLeast(t *testing.T) {
	runs := 2000
	if testing.Short() {
		runs = 200
	}
	for seed := range runs {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		var nodes []string
		for i := range 3 + r.IntN(20) {
			nodes = append(nodes, fmt.Sprintf("n%02d", i))
		}
		share := 2 + r.IntN(4)
		survive, err := FormatSurvive(func(nodes int) int { return nodes / share })
		if err != nil {
			t.Fatal(err)
		}
		var types []TypeInfo
		for i := range 1 + r.IntN(6) {
			n := 1 + r.IntN(len(nodes))
			types = append(types, poolOf(string(rune('A'+i)), n, 64, 1, survive))
		}
		p := newPoolCluster(t, nodes, types...)
		if lo, hi := p.overlap(); hi-lo > 1 {
			t.Fatalf("seed %d: a node has %d instances, another %d", seed, hi, lo)
		}
		changes := 12
		if seed > 200 {
			changes = 1
		}
		for next := len(nodes); next < len(nodes)+changes; next++ {
			before := maps.Clone(p.homes)
			gone := p.nodes[r.IntN(len(p.nodes))]
			switch r.IntN(3) {
			case 0:
				gone = ""
				p.join(fmt.Sprintf("n%02d", next))
			case 1:
				p.kill(gone)
			case 2:
				p.leave(gone)
			}
			for id, home := range before {
				if now, ok := p.homes[id]; ok && now != home && home != gone {
					t.Fatalf("seed %d: %v moved from %s to %s, and %q has gone", seed, id, home, now, gone)
				}
			}
			for _, info := range types {
				n := len(p.nodes)
				least := max(n/share+1, min(int(info.Pool.Min), n))
				places := p.at(info.Name, p.nodes)
				slices.Sort(places)
				if distinct := len(slices.Compact(slices.Clone(places))); distinct < least || distinct != len(places) {
					t.Fatalf("seed %d: %s is on nodes %v of %d, want at least %d", seed, info.Name, places, n, least)
				}
			}
			if len(p.nodes) < 3 {
				break
			}
		}
	}
}

// TestPoolIsNeverSmallerThanNeeded: an instance ends only when the pool's other instances are at
// their nodes, even if a node has too many until then.
func TestPoolIsNeverSmallerThanNeeded(t *testing.T) {
	p := newPoolCluster(t, []string{"a", "b", "c"}, poolOf("P", 3, 3, 1, ""))
	p.hold = true
	p.away["b"] = membership.Leaving
	p.view()
	if len(p.begun) != 1 || p.begun[0].To != node("b") {
		t.Fatalf("the orders are %+v, want one that moves the instance of b", p.begun)
	}
	m := p.begun[0].Message.(MoveBegin)
	p.begun, p.hold = nil, false
	p.step(Receive{m.To, MoveDone{m.Term, m.ShardID, m.Epoch}})
	if len(p.begun) != 1 || !p.begun[0].Message.(MoveBegin).To.IsZero() {
		t.Fatalf("the orders are %+v, want one that ends the third instance", p.begun)
	}
	if got := fmt.Sprint(p.at("P", []string{"a", "b", "c"})); got != "[1 3]" {
		t.Errorf("the instances are at %s, want [1 3]", got)
	}
}

// TestPoolSpreads: if several instances are at one node, new members get only as many of them as
// failures need.
func TestPoolSpreads(t *testing.T) {
	survive, err := FormatSurvive(func(nodes int) int { return nodes - 1 })
	if err != nil {
		t.Fatal(err)
	}
	p := newPoolCluster(t, []string{"a"}, poolOf("P", 4, 8, 0, survive), poolOf("Q", 4, 8, 0, ""))
	p.join("b", "c")
	if got := fmt.Sprint(p.at("P", p.nodes)); got != "[1 1 3 2]" {
		t.Errorf("the pool that survives two failures is at %s, want [1 1 3 2]", got)
	}
	if got := fmt.Sprint(p.at("Q", p.nodes)); got != "[1 1 1 1]" {
		t.Errorf("the other pool is at %s, want [1 1 1 1]", got)
	}
}

// TestLossGoesRound: the instances of a lost node go to the next node with the fewest instances of
// all pools. The next lost instance goes on round the nodes, not back to a node that has returned.
func TestLossGoesRound(t *testing.T) {
	p := newPoolCluster(t, []string{"a", "b", "c", "d"}, poolOf("A", 3, 3, 1, ""), poolOf("B", 2, 2, 1, ""))
	order := []string{"a", "b", "c", "d", "e"}
	at := func(kind, want string) {
		t.Helper()
		if got := fmt.Sprint(p.at(kind, order)); got != want {
			t.Errorf("%s is on nodes %s, want %s", kind, got, want)
		}
	}
	at("A", "[1 2 3]")
	at("B", "[4 1]")
	p.join("e")
	p.kill("d")
	at("B", "[5 1]")

	p = newPoolCluster(t, []string{"a", "b", "c"}, poolOf("A", 1, 1, 1, ""))
	at("A", "[1]")
	p.kill("a")
	at("A", "[2]")
	p.join("a")
	p.kill("b")
	at("A", "[3]")
}

// TestPoolCount: operators ask for a number of instances, within the pool's bounds.
func TestPoolCount(t *testing.T) {
	p := newPoolCluster(t, []string{"a", "b", "c"}, poolOf("P", 1, 5, 2, ""), TypeInfo{Name: "Cart", Package: "p", Shards: 2, HashName: "xxh64", Hosts: true})
	id := uint64(0)
	ask := func(kind string, n uint32) (refusal string) {
		id++
		p.step(Receive{node("a"), SetPins{ID: id, Type: kind, Count: &n}})
		refusal = p.refusal
		for _, name := range p.nodes {
			p.step(Receive{node(name), PinsKept{termOf(1), kind, p.c.types[kind].pins.Seq}})
		}
		p.step(Tick{})
		p.now = p.now.Add(time.Second)
		p.step(Tick{})
		return refusal
	}
	for _, c := range []struct {
		n    uint32
		want int
	}{{3, 3}, {9, 5}, {2, 2}, {0, 1}} {
		ask("P", c.n)
		if got := len(p.at("P", p.nodes)); got != c.want {
			t.Errorf("asked for %d: %d instances, want %d", c.n, got, c.want)
		}
	}
	if why := ask("Cart", 2); why != "Cart is not a pool" {
		t.Errorf("asked for instances of a type that is no pool: %q, want a refusal", why)
	}
}

// TestRetiredAgain: an instance above the pool's number, whose turns take too long, stays and ends
// later. The next coordinator cancels an order to end an instance and repeats it.
func TestRetiredAgain(t *testing.T) {
	p := newPoolCluster(t, []string{"a", "b"}, poolOf("P", 2, 2, 0, ""))
	p.hold = true
	p.types[0].Pool.Min, p.types[0].Pool.Max = 1, 1
	p.seq++
	p.step(Receive{node("a"), Register{Term: termOf(1), Node: node("a"), Seq: p.seq, Types: p.types}})
	m := p.begun[0].Message.(MoveBegin)
	p.step(Receive{p.begun[0].To, MoveAborted{m.Term, m.ShardID, m.Epoch, "a turn"}})
	if got := fmt.Sprint(p.at("P", p.nodes)); got != "[1 2]" {
		t.Errorf("the instances are at %s, want [1 2]", got)
	}
	p.begun = nil
	p.now = p.now.Add(11 * time.Second)
	p.step(Tick{})
	if len(p.begun) != 1 {
		t.Fatalf("%d orders, want the order again", len(p.begun))
	}

	again := p.begun[0].Message.(MoveBegin)
	c, err := New(Config{Self: node("a"), Term: termOf(2)})
	if err != nil {
		t.Fatal(err)
	}
	next := &poolCluster{t: t, c: c, now: p.now, nodes: p.nodes, away: p.away, types: p.types, homes: p.homes}
	next.view()
	for i, name := range p.nodes {
		held := HeldShard{ShardID: placement.ShardID{Kind: "P", Shard: 64}, State: Active, Epoch: placement.MakeEpoch(1, 1)}
		if i == 1 {
			held = HeldShard{ShardID: again.ShardID, State: Sent, Epoch: again.From, Move: again.Epoch}
		}
		r := Register{Term: termOf(2), Node: node(name), Seq: 1, Types: p.types, Shards: []HeldShard{held}}
		b, err := Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		if decoded, err := Decode(b); err != nil || fmt.Sprint(decoded) != fmt.Sprint(r) {
			t.Fatalf("decoded %v: %v, want %v", decoded, err, r)
		}
		next.step(Receive{node(name), r})
	}
	if got := fmt.Sprint(next.at("P", p.nodes)); got != "[1]" || len(next.begun) != 1 {
		t.Errorf("the instances are at %s after %d orders, want [1] after 1", got, len(next.begun))
	}
}

// TestPoolZones: instances are spread evenly over as many zones as possible. A zone that comes
// later gets one only if the pool must survive failures.
func TestPoolZones(t *testing.T) {
	one, err := FormatSurvive(func(nodes int) int { return min(1, nodes-1) })
	if err != nil {
		t.Fatal(err)
	}
	in := func(p *poolCluster, want string) {
		t.Helper()
		var zones []string
		for _, home := range p.homes {
			zones = append(zones, zoneOf(home))
		}
		slices.Sort(zones)
		if got := strings.Join(zones, " "); got != want {
			t.Errorf("the instances are in zones %s, want %s", got, want)
		}
	}
	nodes := strings.Fields("a-1 a-2 a-3 a-4 b-1 b-2 c-1")
	p := newPoolCluster(t, nodes, poolOf("P", 4, 4, 1, ""))
	in(p, "a a b c")
	p.kill("b-1")
	in(p, "a a b c")
	p.kill("c-1")
	in(p, "a a a b")
	for _, survive := range []string{"", one} {
		p = newPoolCluster(t, []string{"a-1", "a-2"}, poolOf("P", 2, 4, 1, survive))
		p.join("b-1", "b-2")
		want := map[string]string{"": "a a", one: "a b"}[survive]
		in(p, want)
		if moves := strings.Count(want, "b"); len(p.begun) != moves {
			t.Errorf("%d moves, want %d", len(p.begun), moves)
		}
	}
}

// TestDisowned: the table of a later term lists a pool's shards that nobody claims without a home.
// A former coordinator may have announced a home for such a shard that never heard of it.
func TestDisowned(t *testing.T) {
	c, err := New(Config{Self: node("a"), Term: termOf(2)})
	if err != nil {
		t.Fatal(err)
	}
	p := &poolCluster{t: t, c: c, now: t0, nodes: []string{"a", "b"}, types: []TypeInfo{poolOf("P", 1, 4, 1, "")}, homes: map[placement.ShardID]string{}}
	p.view()
	id := func(i uint32) placement.ShardID { return placement.ShardID{Kind: "P", Shard: 64 + i} }
	held := []HeldShard{{ShardID: id(0), State: Active, Epoch: placement.MakeEpoch(1, 1)}}
	p.step(Receive{node("a"), Register{Term: termOf(2), Node: node("a"), Seq: 1, Types: p.types, Shards: held}})
	p.step(Receive{node("b"), Register{Term: termOf(2), Node: node("b"), Seq: 1, Types: p.types}})
	e, ok := c.Table().Lookup(id(1))
	if want := placement.MakeEpoch(2, 1); !ok || !e.Home.IsZero() || e.Epoch != want {
		t.Errorf("the table has %v (%v), want no home at %v", e, ok, want)
	}
}

// TestPoolMendsExcess: an instance moves away from a member with too many instances, because one
// that was to end there is needed again.
func TestPoolMendsExcess(t *testing.T) {
	p := newPoolCluster(t, []string{"a", "b", "c"}, poolOf("P", 3, 3, 1, ""))
	p.hold = true
	p.away["b"] = membership.Leaving
	p.view() // b's instance gets a home at a member where the third one is to end
	m := p.begun[0].Message.(MoveBegin)
	p.hold, p.begun = false, nil
	p.join("d")
	p.step(Receive{m.To, MoveDone{m.Term, m.ShardID, m.Epoch}})
	places := p.at("P", p.nodes)
	slices.Sort(places)
	if distinct := slices.Compact(slices.Clone(places)); len(places) != 3 || len(distinct) != 3 {
		t.Errorf("the instances are on nodes %v, want three nodes", places)
	}
}

// TestPoolIsNotPinned: instances cannot be pinned, because pins could put too many at one member.
func TestPoolIsNotPinned(t *testing.T) {
	p := newPoolCluster(t, []string{"a", "b"}, poolOf("P", 2, 2, 1, ""))
	p.step(Receive{node("a"), SetPins{ID: 1, Type: "P", Pins: []Pin{{64, "b"}}}})
	if want := "P is a pool, and its instances are placed round the members"; p.refusal != want {
		t.Errorf("the refusal is %q, want %q", p.refusal, want)
	}
}

func TestFormatSurvive(t *testing.T) {
	for _, c := range []struct {
		f    func(int) int
		want string
	}{
		{func(int) int { return 0 }, "1:0"},
		{func(n int) int { return min(n/5, 2) }, "1:0 5:1 10:2"},
		{func(n int) int { return n }, "error"},
		{func(n int) int { return -1 }, "error"},
	} {
		got, err := FormatSurvive(c.f)
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("got %q (%v), want %q", got, err, c.want)
		}
		if err != nil {
			continue
		}
		for _, n := range []int{1, 4, 5, 9, 10, 256, 1000} {
			if have, want := survive(got, n), c.f(min(n, MaxSurviveNodes)); have != want {
				t.Errorf("%q of %d nodes: %d may fail, want %d", got, n, have, want)
			}
		}
	}
	for _, text := range []string{"x", "1:x", "1:9", "5"} {
		if got := survive(text, 3); got < 0 || got > 2 {
			t.Errorf("%q of 3 nodes: %d may fail", text, got)
		}
	}
}
