package scenario

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/sim"
)

// A Scenario is one thing that happens to a cluster.
type Scenario struct {
	Name  string
	About string // one sentence
	Sizes []int  // of the clusters on the page; the last one is the default
	// Compared are the sizes that are on the page with a single observer too.
	Compared []int
	do       func(*run)
	world    sim.Config // differences to the other scenarios
}

// fiveServers are for cuts between servers. Those of NATS notice a dead route
// after one to two minutes.
var fiveServers = sim.Config{Servers: 5, RouteTimeout: 90 * time.Second}

// All are the scenarios, in the order of the page.
func All() []Scenario {
	return []Scenario{
		{
			Name: "quiet", Sizes: []int{10, 100, 1000}, do: quiet,
			About: "Nothing happens for a minute.",
		},
		{
			Name: "bootstrap", Sizes: []int{10, 100, 1000, 2000}, do: bootstrap,
			About: "All nodes start within a second, and there was no cluster before.",
		},
		{
			Name: "join", Sizes: []int{10, 100, 1000}, do: join,
			About: "One node joins. It is settled when all nodes see it Up and the view has converged.",
		},
		{
			Name: "crash", Sizes: []int{10, 100, 1000}, Compared: []int{100, 1000}, do: crash,
			About: "Ten processes are killed at once; in smaller clusters a fifth of them.",
		},
		{
			Name: "flipflop", Sizes: []int{100, 1000}, Compared: []int{100, 1000}, do: flipflop,
			About: "Ten nodes receive nothing for 20 s, everything for 20 s, and so on. Their own messages arrive.",
		},
		{
			Name: "loss-in", Sizes: []int{100, 1000}, Compared: []int{100, 1000}, do: func(r *run) { loss(r, 0.8, 0) },
			About: "One node of a hundred loses 80% of the messages sent to it.",
		},
		{
			Name: "loss-out", Sizes: []int{100, 1000}, Compared: []int{100, 1000}, do: func(r *run) { loss(r, 0, 0.8) },
			About: "One node of a hundred loses 80% of the messages that it sends.",
		},
		{
			Name: "loss", Sizes: []int{10, 100, 1000}, Compared: []int{100}, do: lossEverywhere,
			About: "Every node loses 30% of the messages sent to it, its own echoes included, for 10 minutes. This is worse than a network that loses 30% of its packets, because the connections of NATS send those again. Nobody should be removed, and no view should change more than once. That holds up to 100 nodes.",
		},
		{
			Name: "partition", Sizes: []int{10, 100, 1000}, do: func(r *run) {
				r.formed()
				r.split(time.Minute, []int{0, 1}, []int{2, 3, 4})
			},
			world: fiveServers,
			About: "Messages between two of five servers and the other three are lost for 60 s. The victims are the two fifths.",
		},
		{
			Name: "blink", Sizes: []int{10, 100, 1000}, do: func(r *run) {
				r.formed()
				r.split(8*time.Second, []int{0, 1}, []int{2, 3, 4})
			},
			world: fiveServers,
			About: "The same for 8 s, which is too short for a decision. Nobody should be removed.",
		},
		{
			Name: "server-restart", Sizes: []int{10, 100, 1000}, do: serverRestart,
			world: sim.Config{Failover: true},
			About: "One of three servers stops and is back after 10 s; its nodes go to the others.",
		},
		{
			Name: "broker-restart", Sizes: []int{10, 100, 1000}, do: brokerRestart,
			About: "All three servers stop and are back after 30 s.",
		},
		{
			Name: "pause", Sizes: []int{10, 100, 1000}, do: pause,
			About: "Ten processes are stopped for 2 s; in smaller clusters a fifth of them.",
		},
	}
}

// Find returns the scenario of that name.
func Find(name string) (Scenario, error) {
	var names []string
	for _, s := range All() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Scenario{}, fmt.Errorf("find scenario %q: there is none (known: %v)", name, names)
}

// Run lets the scenario happen.
func (s Scenario) Run(o Options) Result {
	if o.Nodes == 0 {
		o.Nodes = s.Sizes[len(s.Sizes)-1]
	}
	r := newRun(s, o)
	s.do(r)
	return r.result()
}

// victims is how many nodes a fault strikes: ten, as in the paper on Rapid, or a fifth of a small cluster.
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

// lossEverywhere strikes all alike, so that nobody is a victim.
func lossEverywhere(r *run) {
	r.formed()
	r.begin()
	for _, n := range r.nodes {
		r.world.Lose(n, 0.3, 0)
	}
	r.follow(10 * time.Minute)
}

// split cuts groups of servers off from each other for a while. The nodes of all
// but the last group are the victims.
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
