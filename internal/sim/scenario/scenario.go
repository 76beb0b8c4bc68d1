package scenario

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/sim"
)

// A Scenario is one thing that happens to a cluster.
type Scenario struct {
	Name  string
	About string // one sentence
	Nodes int    // the default size
	do    func(*run)
	// servers is how many the broker has. Default 3.
	servers int
}

// All are the scenarios, in the order of the table.
func All() []Scenario {
	return []Scenario{
		{Name: "bootstrap", Nodes: 2000, do: bootstrap, About: "all nodes start within a second; nobody is there"},
		{Name: "crash", Nodes: 1000, do: crash, About: "10 processes are killed at once"},
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
		o.Nodes = s.Nodes
	}
	if s.servers == 0 {
		s.servers = 3
	}
	r := newRun(s.Name, o, s.servers)
	s.do(r)
	return r.result()
}

// victims is how many nodes a fault strikes at most: Rapid's ten.
const victims = 10

func bootstrap(r *run) {
	r.begin()
	for i := range r.options.Nodes {
		n := r.add(i)
		r.world.At(time.Duration(r.random.Int64N(int64(time.Second))), func() { r.world.Start(n) })
	}
	if r.world.RunUntil(2*time.Minute, 100*time.Millisecond, func() bool { return sim.Agreed(r.nodes) }) {
		r.settledAt = r.world.Now()
	}
}

func crash(r *run) {
	r.formed()
	ill := r.pick(min(victims, r.options.Nodes/3))
	r.begin()
	for _, n := range ill {
		r.world.Kill(n)
	}
	r.follow(40 * time.Second)
}
