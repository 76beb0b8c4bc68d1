// Package scenario makes one thing happen to a large cluster and measures the effects: the
// table in internal/sim/README.md.
//
// To write a scenario, add it to [All]. Its function starts a cluster (run.formed, or run.add for
// each node), chooses victims (run.pick), marks the moment of the fault (run.begin), applies it by
// the methods of the world, and lets time pass (run.follow). All figures are then counted for the
// scenario.
package scenario

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/runtime/membership"
)

// A Scenario is one fault or event at a large cluster.
type Scenario struct {
	Name string
	// Compared adds to the table a row in which one observer suffices (DetectionSingleObserver).
	Compared bool
	do       func(*run)
	world    sim.Config // differences to the other scenarios
}

var sizes = []int{100, 1000}

// fiveServers configures the scenarios that cut servers off. NATS servers notice a dead route
// after one to two minutes.
var fiveServers = sim.Config{Servers: 5, RouteTimeout: 90 * time.Second}

// All returns the scenarios in the order of the table.
func All() []Scenario {
	cut := func(d time.Duration) func(*run) {
		return func(r *run) {
			r.formed()
			r.split(d, []int{0, 1}, []int{2, 3, 4})
		}
	}
	return []Scenario{
		{Name: "quiet", do: quiet},
		{Name: "bootstrap", do: bootstrap},
		{Name: "join", do: join},
		{Name: "crash", do: crash, Compared: true},
		{Name: "flipflop", do: flipflop, Compared: true},
		{Name: "loss-in", do: func(r *run) { loss(r, 0.8, 0) }, Compared: true},
		{Name: "loss-out", do: func(r *run) { loss(r, 0, 0.8) }, Compared: true},
		{Name: "loss", do: lossEverywhere, Compared: true},
		{Name: "partition", do: cut(time.Minute), world: fiveServers},
		{Name: "blink", do: cut(8 * time.Second), world: fiveServers},
		{Name: "server-restart", do: serverRestart, world: sim.Config{Failover: true}},
		{Name: "broker-restart", do: brokerRestart},
		{Name: "pause", do: pause},
	}
}

// A Job is one row of the table.
type Job struct {
	Scenario Scenario
	Options  Options
}

// Table returns the jobs for all rows of the table. It leaves out clusters of more than largest
// nodes, unless largest is 0.
func Table(seed uint64, largest int) (jobs []Job) {
	for _, s := range All() {
		for _, size := range sizes {
			if largest > 0 && size > largest {
				continue
			}
			jobs = append(jobs, Job{s, Options{Nodes: size, Seed: seed}})
			if s.Compared {
				jobs = append(jobs, Job{s, Options{Nodes: size, Seed: seed, Detection: membership.DetectionSingleObserver}})
			}
		}
	}
	return jobs
}

// Find returns the scenario with that name.
func Find(name string) (Scenario, error) {
	var names []string
	for _, s := range All() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Scenario{}, fmt.Errorf("unknown scenario %q; the scenarios are %v", name, names)
}

// Run runs the scenario and returns its figures.
func (s Scenario) Run(o Options) Result {
	if o.Nodes == 0 {
		o.Nodes = sizes[len(sizes)-1]
	}
	r := newRun(s, o)
	s.do(r)
	return r.result()
}

// victims returns how many nodes a fault strikes: ten, as in the paper on Rapid, or a fifth of a
// smaller cluster.
func (r *run) victims() int { return max(1, min(10, r.options.Nodes/5)) }

func quiet(r *run) {
	r.formed()
	r.begin()
	r.follow(time.Minute)
}

func bootstrap(r *run) {
	r.begin()
	for i := range r.options.Nodes {
		n := r.add(i)
		r.world.At(time.Duration(r.random.Int64N(int64(time.Second))), func() { r.world.Start(n) })
	}
	r.untilUp(2 * time.Minute)
}

// join starts another node. The cluster has settled when all nodes see the new node Up in a
// converged view.
func join(r *run) {
	r.formed()
	r.begin()
	r.world.Start(r.add(r.options.Nodes))
	r.untilUp(time.Minute)
}

func crash(r *run) {
	r.formed()
	ill := r.pick(r.victims())
	r.begin()
	for _, n := range ill {
		r.world.Kill(n)
	}
	r.follow(40 * time.Second)
}

// flipflop drops all messages to the victims for 20 s, and then none for 20 s, three times.
func flipflop(r *run) {
	r.formed()
	ill := r.pick(r.victims())
	r.begin()
	for range 3 {
		for _, n := range ill {
			r.world.Lose(n, 1, 0)
		}
		r.follow(20 * time.Second)
		for _, n := range ill {
			r.world.Lose(n, 0, 0)
		}
		r.follow(20 * time.Second)
	}
}

func loss(r *run, in, out float64) {
	r.formed()
	ill := r.pick(max(1, r.options.Nodes/100))
	r.begin()
	for _, n := range ill {
		r.world.Lose(n, in, out)
	}
	r.follow(100 * time.Second)
}

// lossEverywhere drops 30% of the messages to every node, echoes included, for 10 minutes. Real
// packet loss is milder, because the connections of NATS resend. There are no victims.
func lossEverywhere(r *run) {
	r.formed()
	r.begin()
	for _, n := range r.nodes {
		r.world.Lose(n, 0.3, 0)
	}
	r.follow(10 * time.Minute)
}

// split cuts groups of servers off from each other. The nodes of all groups but the last are the
// victims.
func (r *run) split(lasting time.Duration, groups ...[]int) {
	servers := r.world.Servers()
	group := make([]int, len(servers))
	for g, list := range groups {
		for _, i := range list {
			group[i] = g
		}
	}
	for _, n := range r.nodes {
		r.ill[n.Address] = group[slices.Index(servers, n.Server())] < len(groups)-1
	}
	pairs := func(do func(a, b *sim.Server)) {
		for i, a := range servers {
			for j, b := range servers {
				if group[i] != group[j] {
					do(a, b)
				}
			}
		}
	}
	r.begin()
	pairs(r.world.Cut)
	r.follow(lasting)
	pairs(r.world.Mend)
	r.follow(30 * time.Second)
}

func serverRestart(r *run) {
	r.formed()
	r.begin()
	s := r.world.Servers()[0]
	r.world.StopServer(s)
	r.follow(10 * time.Second)
	r.world.StartServer(s)
	r.follow(30 * time.Second)
}

func brokerRestart(r *run) {
	r.formed()
	r.begin()
	for _, s := range r.world.Servers() {
		r.world.StopServer(s)
	}
	r.follow(30 * time.Second)
	for _, s := range r.world.Servers() {
		r.world.StartServer(s)
	}
	r.follow(30 * time.Second)
}

func pause(r *run) {
	r.formed()
	ill := r.pick(r.victims())
	r.begin()
	for _, n := range ill {
		r.world.Freeze(n)
	}
	r.follow(2 * time.Second)
	for _, n := range ill {
		r.world.Thaw(n)
	}
	r.follow(30 * time.Second)
}
