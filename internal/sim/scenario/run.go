package scenario

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// Options choose the cluster of a scenario, and its seed.
type Options struct {
	// Nodes is the size of the cluster. Default 1000.
	Nodes int
	Seed  uint64
	// Detection is the Detection of all nodes.
	Detection membership.Detection
	// Table makes the nodes agree by a table.
	Table bool
	// Config, if set, changes each node's settings.
	Config func(*membership.Config)
	// Trace, if set, gets every line of the trace.
	Trace func(line string)
}

type run struct {
	options Options
	name    string
	world   *sim.World
	random  *rand.Rand
	nodes   []*sim.Node
	state   *gossip.State // the state from which the nodes begin; nil means that they form the cluster
	ill     map[transport.Address]bool

	fault     time.Duration // when the fault began; negative means not yet
	measured  time.Duration // when traffic was last reset
	before    uint64        // the hash of the set of members before the fault
	seen      map[sight]bool
	detected  []time.Duration
	removed   map[transport.Address]bool // the healthy members that were removed
	views     map[uint64]bool
	settledAt time.Duration // since when all healthy members agree; negative means that they do not
	expected  int           // the number of sights when all healthy nodes have seen all victims removed
}

type sight struct{ observer, victim transport.Address }

func newRun(s Scenario, o Options) *run {
	r := &run{
		options: o, name: s.Name,
		random: rand.New(rand.NewPCG(o.Seed, 0x5ce7a710)),
		ill:    make(map[transport.Address]bool), seen: make(map[sight]bool),
		removed: make(map[transport.Address]bool), views: make(map[uint64]bool),
		fault: -1, settledAt: -1,
	}
	world := s.world
	world.Seed, world.Trace = o.Seed, o.Trace
	world.Jitter, world.Account, world.Unchecked = time.Millisecond, true, true
	if world.Servers == 0 {
		world.Servers = 3
	}
	r.world = sim.New(world)
	r.world.OnEvents = r.watch
	return r
}

// drift bounds the error of a node's clock, in parts of a million. It is the error that quartz and
// NTP leave.
const drift = 100

func (r *run) add(i int) *sim.Node {
	config := membership.Config{
		Self: transport.Address{Name: fmt.Sprintf("node-%04d", i), Incarnation: r.random.Uint64()},
		Seed: r.random.Uint64(), ProbeVacancy: true, Detection: r.options.Detection,
		Meta: []membership.KeyValue{{Key: "kind/Counter", Value: "256 xxh64 example.com/counter"}},
	}
	config.Table.Enabled = r.options.Table
	if r.options.Config != nil {
		r.options.Config(&config)
	}
	n, err := r.world.Add(config, sim.Place{
		Server: r.block(i), Drift: r.random.IntN(2*drift+1) - drift,
		Offset: time.Duration(r.random.Int64N(int64(time.Hour))),
	})
	if err != nil {
		panic(err) // a mistake of the scenario
	}
	r.nodes = append(r.nodes, n)
	return n
}

// block returns the server of the i-th node. Each server has the same number of successive nodes.
// Surplus nodes go to later servers, so that the nodes of the first two of five servers never have
// a majority.
func (r *run) block(i int) int {
	servers := len(r.world.Servers())
	return min(((i+1)*servers-1)/r.options.Nodes, servers-1)
}

const warm = 15 * time.Second

// formed starts a cluster in which all members are already Up. They start within 0.8 s, so that no
// member seems missing to the others, and at different times, so that their timers differ.
func (r *run) formed() {
	if r.options.Table {
		r.tabled()
		return
	}
	var members []membership.Member
	for i := range r.options.Nodes {
		n := r.add(i)
		members = append(members, membership.Member{Address: n.Address, Meta: n.Config.Meta})
	}
	r.state = gossip.Preformed(members)
	for _, n := range r.nodes {
		r.world.At(time.Duration(r.random.Int64N(int64(800*time.Millisecond))), func() { r.world.StartFormed(n, r.state) })
	}
	r.world.Run(warm)
}

// tabled starts a cluster as formed does, but its members agree by a table.
func (r *run) tabled() {
	var list []rows.Row
	for i := range r.options.Nodes {
		n := r.add(i)
		list = append(list, rows.Row{Member: membership.Member{Address: n.Address, Meta: n.Config.Meta}, Server: n.Server().Place()})
	}
	r.world.SetTable(rows.Preformed(list))
	for _, n := range r.nodes {
		r.world.At(time.Duration(r.random.Int64N(int64(800*time.Millisecond))), func() { r.world.StartTabled(n) })
	}
	r.world.Run(warm)
}

func (r *run) pick(count int) []*sim.Node {
	nodes := slices.Clone(r.nodes)
	r.random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	nodes = nodes[:min(count, len(nodes))]
	for _, n := range nodes {
		r.ill[n.Address] = true
	}
	return nodes
}

// begin marks the fault, from which all figures are counted.
func (r *run) begin() {
	r.fault = r.world.Now()
	r.before = sim.SetOf(r.nodes)
	healthy := len(r.healthy())
	r.expected = healthy * (len(r.nodes) - healthy)
	r.measure()
}

func (r *run) measure() {
	r.measured = r.world.Now()
	r.world.ResetTraffic()
}

func (r *run) healthy() []*sim.Node {
	return slices.DeleteFunc(slices.Clone(r.nodes), func(n *sim.Node) bool { return r.ill[n.Address] })
}

func (r *run) watch(n *sim.Node, events []membership.Event) {
	if r.fault < 0 || r.ill[n.Address] {
		return
	}
	for _, e := range events {
		switch e := e.(type) {
		case membership.MemberDowned:
			r.missed(n, e.Member)
		case membership.MemberRemoved:
			r.missed(n, e.Member)
		case membership.SelfDowned:
			r.removed[n.Address] = true
		}
	}
	if set, _ := n.Set(); set != r.before {
		r.views[set] = true
	}
}

func (r *run) missed(n *sim.Node, m membership.Member) {
	if !r.ill[m.Address] {
		r.removed[m.Address] = true
		return
	}
	s := sight{n.Address, m.Address}
	if !r.seen[s] {
		r.seen[s] = true
		r.detected = append(r.detected, r.world.Now()-r.fault)
	}
}

func (r *run) untilUp(d time.Duration) {
	if r.world.RunUntil(d, 10*time.Millisecond, func() bool { return sim.Agreed(r.nodes) }) {
		r.settledAt = r.world.Now()
	}
}

func (r *run) follow(d time.Duration) {
	r.world.RunUntil(d, 100*time.Millisecond, func() bool {
		r.settle()
		return false
	})
	r.settle()
}

func (r *run) settle() {
	switch same := r.agree(); {
	case !same:
		r.settledAt = -1
	case r.settledAt < 0:
		r.settledAt = r.world.Now()
	}
}

func (r *run) agree() bool {
	first, found := uint64(0), false
	for _, n := range r.nodes {
		if r.ill[n.Address] || n.Ended() {
			continue
		}
		set, _ := n.Set()
		if !n.Converged() || found && set != first {
			return false
		}
		first, found = set, true
	}
	return found
}

func (r *run) result() Result {
	slices.Sort(r.detected)
	out := Result{
		Scenario: r.name, Nodes: r.options.Nodes, Seed: r.options.Seed, Detection: r.options.Detection, Table: r.options.Table, Err: r.world.Err(),
		TableStats: r.world.TableStats,
		Detected:   len(r.detected), Expected: r.expected,
		P50: quantile(r.detected, 0.5), P99: quantile(r.detected, 0.99),
		Removed: len(r.removed), Views: len(r.views), Settled: -1,
		Hash: r.world.Hash(), Steps: r.world.Steps(), Virtual: r.world.Now(), Kinds: make(map[string]float64),
	}
	if r.settledAt >= 0 {
		out.Settled = r.settledAt - max(r.fault, 0)
	}
	r.traffic(&out)
	return out
}

func (r *run) traffic(out *Result) {
	seconds := (r.world.Now() - r.measured).Seconds()
	count := 0
	for _, n := range r.healthy() {
		t := n.Traffic()
		perSecond := float64(t.Sent.Bytes+t.Received.Bytes) / seconds
		count++
		out.Bytes += perSecond
		out.MostBytes = math.Max(out.MostBytes, perSecond)
		out.Messages += float64(t.Sent.Messages+t.Received.Messages+t.Echo.Messages) / seconds
		//arch:order-free each kind by itself
		for kind, f := range t.Kinds {
			out.Kinds[kind] += float64(f.Bytes) / seconds
		}
	}
	for _, sum := range []*float64{&out.Bytes, &out.Messages} {
		*sum /= float64(max(count, 1))
	}
	for kind := range out.Kinds {
		out.Kinds[kind] /= float64(max(count, 1))
	}
}

// quantile returns the smallest value that is not below the given share of all values; -1 for an
// empty list.
func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return -1
	}
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}
