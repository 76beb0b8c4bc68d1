package coordinator

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
)

// A loadedPool is a pool with calls under way, as many as demand says, each at an instance of its
// own. Calls without an idle instance wait.
type loadedPool struct {
	*poolCluster
	demand float64
	queue  float64 // calls that wait although there are idle instances
}

func newLoadedPool(t *testing.T, nodes, least, most, perNode int) *loadedPool {
	t.Helper()
	var names []string
	for i := range nodes {
		names = append(names, fmt.Sprintf("n%02d", i))
	}
	return &loadedPool{newPoolCluster(t, names, poolOf("P", least, most, perNode, "")), 0, 0}
}

func (p *loadedPool) size() int { return len(p.at("P", p.nodes)) }

// pass lets time pass while the members report loads. It returns how often the pool's size has
// changed.
func (p *loadedPool) pass(d time.Duration) (changes int) {
	p.t.Helper()
	size := p.size()
	for end := p.now.Add(d); p.now.Before(end); {
		share := min(1, p.demand/float64(p.size()))
		waits := max(0, p.demand-float64(p.size())) + p.queue // calls
		here := map[string]int{}
		for _, home := range p.homes {
			here[home]++
		}
		for _, name := range p.nodes {
			p.step(Receive{node(name), PoolLoad{
				"P", uint32(here[name]), uint32(share * 1000 * float64(here[name])), uint32(waits * float64(here[name]) / float64(p.size())),
			}})
		}
		p.now = p.now.Add(LoadInterval)
		p.step(Tick{})
		if now := p.size(); now != size {
			changes, size = changes+1, now
		}
	}
	return changes
}

// TestPoolFollowsBurst: when the load grows twentyfold, the pool has enough instances within 60 s.
// After the burst it shrinks to its minimum.
func TestPoolFollowsBurst(t *testing.T) {
	p := newLoadedPool(t, 20, 2, 40, 0)
	p.demand = 0.1
	p.pass(10 * time.Minute)
	if p.size() != 2 {
		t.Fatalf("%d instances, want the minimum of 2", p.size())
	}
	p.demand = 2
	p.pass(time.Minute)
	if u := p.demand / float64(p.size()); u > loadHigh {
		t.Errorf("after a minute of a burst %d instances are busy for %.2f", p.size(), u)
	}
	p.demand = 12
	p.pass(2 * time.Minute)
	if u := p.demand / float64(p.size()); u > loadHigh || p.size() > 24 {
		t.Errorf("after two minutes of a larger burst %d instances are busy for %.2f", p.size(), u)
	}
	p.demand = 0.1
	p.pass(20 * time.Minute)
	if p.size() > 17 {
		t.Errorf("20 minutes after the burst there are %d instances still", p.size())
	}
	p.pass(2 * time.Hour)
	if p.size() != 2 {
		t.Errorf("long after the burst there are %d instances, want 2", p.size())
	}
}

// TestPoolLeaps: if calls wait because the load grows twentyfold, the pool has enough instances
// within 60 s. Later it shrinks again.
func TestPoolLeaps(t *testing.T) {
	p := newLoadedPool(t, 20, 2, 60, 0)
	p.demand = 1.2
	p.pass(10 * time.Minute)
	if p.size() != 2 {
		t.Fatalf("%d instances, want 2", p.size())
	}
	p.demand *= 20
	p.pass(time.Minute)
	if u := p.demand / float64(p.size()); u > loadHigh || p.size() > 40 {
		t.Errorf("a minute after the burst %d instances are busy for %.2f", p.size(), u)
	}
	if changes := p.pass(time.Hour); changes > 0 {
		t.Errorf("the size changes %d times in an hour of steady load", changes)
	}
	p.demand = 1.2
	p.pass(4 * time.Hour)
	if p.size() > 3 {
		t.Errorf("4 h after the burst there are %d instances still", p.size())
	}
}

// TestPoolDrains: a pool grows at once only if calls wait, and not while the waiting calls become
// fewer.
func TestPoolDrains(t *testing.T) {
	p := newLoadedPool(t, 20, 8, 60, 0)
	p.demand = 8
	if p.pass(LoadInterval) > 0 {
		t.Errorf("%d instances after one round in which all are busy and no call waits, want 8", p.size())
	}
	p.queue = 1000
	if p.pass(LoadInterval); p.size() != 8*loadLeap {
		t.Fatalf("%d instances when a thousand calls wait, want %d", p.size(), 8*loadLeap)
	}
	for range loadMean - 1 {
		p.demand, p.queue = float64(p.size()), 0.8*p.queue
		if p.pass(LoadInterval) > 0 {
			t.Errorf("%d instances when the waiting calls have come down to %.0f, want %d", p.size(), p.queue, 8*loadLeap)
		}
	}
}

// TestPoolIgnoresNoise: in an hour of noisy load, the size does not both grow and shrink.
func TestPoolIgnoresNoise(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := newLoadedPool(t, 5, 2, 40, 0)
		p.demand = 4
		p.pass(10 * time.Minute)
		changes, sizes := 0, []int{p.size()}
		for range 360 {
			p.demand, p.queue = 4*(0.6+0.8*r.Float64()), 3*r.ExpFloat64()
			changes += p.pass(LoadInterval)
			if last := sizes[len(sizes)-1]; p.size() != last {
				sizes = append(sizes, p.size())
			}
		}
		if changes > 3 {
			t.Errorf("seed %d: %d changes in an hour: %v", seed, changes, sizes)
		}
		for i := 2; i < len(sizes); i++ {
			if (sizes[i] > sizes[i-1]) != (sizes[i-1] > sizes[i-2]) {
				t.Errorf("seed %d: up and down: %v", seed, sizes)
			}
		}
	}
}

// TestPoolWantsMoreNodes: the wanted number may exceed the room of the members, so that an autoscaler
// sees it. When members join, the pool grows.
func TestPoolWantsMoreNodes(t *testing.T) {
	p := newLoadedPool(t, 2, 1, 10, 1)
	p.demand = 3
	p.pass(2 * time.Minute)
	if p.size() != 2 || p.c.Wanted()["P"] != 4 {
		t.Errorf("%d instances and %d wanted, want 2 and 4", p.size(), p.c.Wanted()["P"])
	}
	p.join("n90", "n91", "n92")
	if p.size() != 4 {
		t.Errorf("%d instances at 5 members, want 4", p.size())
	}
	out := p.c.Step(p.now, Receive{node("n00"), Explain{1, placement.ShardID{Kind: "P", Shard: 64}}})
	want := "the pool has 4 instances at 5 members, and 4 wanted: 1 for failures, 4 by load, busy 1.00 of the time, and 1 to 10"
	if text := out.Send[0].Message.(Explained).Text; !strings.Contains(text, want) {
		t.Errorf("explained %q, want %q in it", text, want)
	}
}

// TestNextCoordinatorKeepsSize: a pool keeps its size under the next coordinator until its load
// needs another size. Intervals without reports change nothing.
func TestNextCoordinatorKeepsSize(t *testing.T) {
	p := newLoadedPool(t, 4, 1, 10, 0)
	p.demand = 3
	p.pass(2 * time.Minute)
	size := p.size()
	c, err := New(Config{Self: node("n00"), Term: termOf(2)})
	if err != nil {
		t.Fatal(err)
	}
	next := &poolCluster{t: t, c: c, now: p.now, nodes: p.nodes, types: p.types, homes: p.homes}
	next.view()
	for _, name := range p.nodes {
		var held []HeldShard
		for i := range uint32(64) {
			id := placement.ShardID{Kind: "P", Shard: 64 + i}
			if p.homes[id] == name {
				held = append(held, HeldShard{ShardID: id, State: Active, Epoch: placement.MakeEpoch(1, 1)})
			}
		}
		next.step(Receive{node(name), Register{Term: termOf(2), Node: node(name), Seq: 1, Types: p.types, Shards: held}})
	}
	for range 100 {
		next.now = next.now.Add(LoadInterval)
		next.step(Tick{})
	}
	loaded := &loadedPool{next, 0.1, 0}
	if loaded.size() != size || size < 5 {
		t.Errorf("%d instances, want %d as before", loaded.size(), size)
	}
	loaded.pass(time.Hour)
	if loaded.size() != 1 {
		t.Errorf("%d instances after an hour without load, want 1", loaded.size())
	}
}
