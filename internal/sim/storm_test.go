package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// TestHealedSplitIsNoStorm: when the halves of a split cluster meet again, each half has all
// members of the other as unreachable, so no leader is accepted by all. The members resolve this
// with no more messages than a broker can carry.
func TestHealedSplitIsNoStorm(t *testing.T) {
	const nodes = 20
	w := sim.New(sim.Config{Seed: 3, Servers: 2, Unchecked: true, Jitter: 3 * time.Millisecond, Between: 2 * time.Millisecond})
	for i := range nodes {
		n, err := w.Add(membership.Config{
			Self: transport.Address{Name: fmt.Sprintf("n%02d", i), Incarnation: uint64(i + 1)}, Seed: uint64(i),
		}, sim.Place{Server: i % 2})
		if err != nil {
			t.Fatal(err)
		}
		w.Start(n)
	}
	w.Run(10 * time.Second)
	if !sim.Agreed(w.Nodes()) {
		t.Fatal("the members do not agree before the split")
	}
	w.Part(w.Servers()[0], w.Servers()[1])
	w.Run(3 * time.Second)
	w.Mend(w.Servers()[0], w.Servers()[1])
	before := w.Steps()
	for range 20 {
		w.Run(100 * time.Millisecond)
		if steps := w.Steps() - before; steps > 2000*nodes {
			t.Fatalf("%d steps in %v after the split was healed", steps, w.Now())
		}
	}
	w.Run(30 * time.Second)
	if err := w.Err(); err != nil {
		t.Fatal(err)
	}
	if !sim.Agreed(w.Nodes()) {
		for _, n := range w.Nodes() {
			t.Errorf("%v: ended %v (%v), converged %v", n.Address, n.Ended(), n.Last(), n.Converged())
		}
	}
	t.Logf("%d steps", w.Steps()-before)
}
