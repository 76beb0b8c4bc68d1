package shardtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
)

// TestPlan: the same seed gives the same plan, different seeds give different plans, and each fault
// occurs.
func TestPlan(t *testing.T) {
	draw := func(seed uint64) []step {
		return plan(rand.New(rand.NewPCG(seed, 1)), []string{"n1", "n2", "n3"}, time.Minute, allFaults)
	}
	if a, b := fmt.Sprint(draw(1)), fmt.Sprint(draw(1)); a != b {
		t.Errorf("one seed, two plans:\n%s\n%s", a, b)
	}
	if a, b := fmt.Sprint(draw(1)), fmt.Sprint(draw(2)); a == b {
		t.Error("two seeds have one plan")
	}
	seen := map[Fault]int{}
	for seed := range uint64(20) {
		for _, s := range draw(seed) {
			seen[s.fault]++
			if s.at >= time.Minute || s.fault == Cuts && s.node == s.other {
				t.Errorf("seed %d: %v", seed, s)
			}
		}
	}
	for _, f := range allFaults {
		if seen[f] == 0 {
			t.Errorf("no %v in 20 minutes", f)
		}
	}
}

// TestLeaked: leaked waits for goroutines that end by themselves, and returns the others.
func TestLeaked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		go time.Sleep(leakPatience / 2)
		if left := leaked(); len(left) != 0 {
			t.Errorf("a goroutine that ends: %v", left)
		}
		stop := make(chan struct{})
		go func() { <-stop }()
		if left := leaked(); len(left) != 1 {
			t.Errorf("%d leaked, want 1: %v", len(left), left)
		}
		close(stop)
	})
}

// Turn runs a turn that w watches.
func Turn(ctx context.Context, w *Witness, call shard.Info, turn func(context.Context) error) error {
	return w.intercept(ctx, call, turn)
}
