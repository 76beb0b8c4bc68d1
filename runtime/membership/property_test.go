package membership

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/gossip/gossiptest"
	"github.com/shardgen/shardgen/transport"
)

// A chronicle is the distinct states that the machines of one random run had, by the founder of
// their cluster.
type chronicle struct {
	t       *testing.T
	last    map[*simNode]*gossip.State
	states  map[transport.Address][]*gossip.State
	removed map[*simNode]map[transport.Address]bool // as each node knew at some time
}

// note records a node's state after a step, and checks that no value of it has decreased.
func (c *chronicle) note(n *simNode) {
	c.t.Helper()
	g, before := n.machine.node.Gossip, c.last[n]
	if g == nil || g == before {
		return
	}
	c.last[n] = g
	c.states[g.Founder] = append(c.states[g.Founder], g)
	if before != nil {
		if err := gossiptest.CheckMonotonic(before, g); err != nil {
			c.t.Fatal(err)
		}
	}
	gone := c.removed[n]
	if gone == nil {
		gone = map[transport.Address]bool{}
		c.removed[n] = gone
	}
	for _, tomb := range g.Tombstones {
		gone[tomb.Node] = true
	}
	for _, r := range g.Members {
		if gone[r.Address] {
			c.t.Fatalf("%v came back at %v: %v", r.Address, n.config.Self, g)
		}
	}
}

// TestMergeOfHistories: the laws of merging hold for any states that machines had in random runs
// with faults.
func TestMergeOfHistories(t *testing.T) {
	kinds := map[gossip.Ordering]int{}
	removals := uint64(0)
	for seed := range uint64(12) {
		c := newChaos(t, 1000+seed)
		c.plain = true
		history := &chronicle{t: t, last: map[*simNode]*gossip.State{}, states: map[transport.Address][]*gossip.State{}, removed: map[*simNode]map[transport.Address]bool{}}
		c.watch = history.note
		for range 40 {
			c.run(time.Duration(c.random.IntN(5000))*time.Millisecond, nil)
			switch c.random.IntN(4) {
			case 0:
				c.fault()
			case 1: // what makes removals, and states that pass each other
				n := c.pick()
				c.step(n, core.Leave{})
				c.step(n, core.ExitReady{})
			default:
				if len(c.running()) < 7 {
					c.spawn()
				}
			}
		}
		for _, founder := range sortedFounders(history.states) {
			states := history.states[founder]
			random := rand.New(rand.NewPCG(seed, 5))
			for range 300 {
				i := random.IntN(len(states))
				near := min(i+random.IntN(12), len(states)-1) // concurrent ones are near each other
				a, b, d := states[i], states[near], states[random.IntN(len(states))]
				order, err := gossiptest.CheckMerge(a, b, d)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				kinds[order]++
				removals = max(removals, a.Merge(b).RemovalCounter)
			}
		}
	}
	t.Logf("pairs %v, up to %d removals", kinds, removals)
	for o := gossip.Same; o <= gossip.Concurrent; o++ {
		if kinds[o] < 20 {
			t.Errorf("only %d pairs were %v", kinds[o], o)
		}
	}
	if removals < 3 {
		t.Errorf("at most %d removals", removals)
	}
}

func sortedFounders(states map[transport.Address][]*gossip.State) []transport.Address {
	var founders []transport.Address
	for founder := range states {
		founders = append(founders, founder)
	}
	slices.SortFunc(founders, transport.Address.Compare)
	return founders
}

// TestRemovedNeverComeBack: nodes stand still while many others come and go, until even their own
// tombstones are forgotten. When they wake with their old states, none becomes a member again, none
// starts a turn, and all stop.
func TestRemovedNeverComeBack(t *testing.T) {
	w := newNetwork(t)
	w.plain = true
	incarnation := uint64(0)
	start := func(name string, config core.Config) *simNode {
		incarnation++
		config.Cluster, config.Self, config.Seed = "test", addr(name, incarnation), incarnation
		n := w.add(fmt.Sprint(name, ".", incarnation), "s1", config)
		n.quiet = true
		w.start(n)
		return n
	}
	settle := func(what string, done func() bool) {
		t.Helper()
		if !w.run(time.Minute, done) {
			t.Fatalf("%s: not within a minute; a has %v", what, w.nodes["a.1"].machine.node.Gossip)
		}
	}
	a, b, c := start("a", core.Config{}), start("b", core.Config{}), start("c", core.Config{})
	x, y := start("x", core.Config{}), start("y", core.Config{})
	settle("five up", func() bool { return w.converged([]*simNode{a, b, c, x, y}) })
	// z freezes while it joins.
	z := start("z", core.Config{})
	settle("z joins", func() bool { return z.machine.node.Gossip != nil })
	zombies := []*simNode{x, y, z}
	for _, n := range zombies {
		w.freeze(n)
	}
	for _, n := range zombies {
		w.step(a, core.DownNode{Node: n.config.Self})
	}
	rest := []*simNode{a, b, c}
	settle("the frozen are removed", func() bool { return w.converged(rest) })
	for range gossip.MaxTombstones + 5 {
		n := start("guest", core.Config{})
		settle("a guest is up", func() bool { return w.converged(append(slices.Clone(rest), n)) })
		w.step(n, core.Leave{})
		w.step(n, core.ExitReady{})
		settle("a guest is gone", func() bool { return w.converged(rest) })
		n.dead, n.connected = true, false
	}
	g := a.machine.node.Gossip
	for _, n := range zombies {
		if g.Removed(n.config.Self) {
			t.Fatalf("the tombstone of %v is still there: the test tests nothing", n.config.Self)
		}
	}
	w.watch = func(n *simNode) {
		for _, zombie := range zombies {
			if slices.Contains(rest, n) && n.machine.node.Gossip != nil {
				if _, ok := n.machine.node.Gossip.Member(zombie.config.Self); ok {
					t.Fatalf("%v is back at %v", zombie.config.Self, n.config.Self)
				}
			}
			if lease := zombie.machine.Lease(); !zombie.frozen && zombie.machine.node.Phase == core.Joined && (lease.IsZero() || lease.After(w.now)) {
				t.Fatalf("%v may run turns again", zombie.config.Self)
			}
		}
	}
	for _, n := range zombies {
		n.waiting = nil // messages to them were lost while they stood still
		w.thaw(n)
	}
	settle("the zombies stop", func() bool {
		return !slices.ContainsFunc(zombies, func(n *simNode) bool { return n.machine.node.Phase != core.Ended })
	})
	w.run(10*time.Second, nil)
	if !w.converged(rest) {
		t.Errorf("the cluster suffered: %v", a.machine.node.Gossip)
	}
}
