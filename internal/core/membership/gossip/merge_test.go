package gossip_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/gossip/gossiptest"
	"github.com/shardgen/shardgen/transport"
)

func TestMergeIsAJoin(t *testing.T) {
	kinds := map[gossip.Ordering]int{}
	removals := uint64(0)
	for seed := range uint64(100) {
		h := gossiptest.NewHistory(seed, 6)
		var past []*gossip.State
		for range 60 {
			h.Step()
			past = append(past, h.States[h.Random.IntN(h.Joined)])
		}
		pick := func() *gossip.State { return past[h.Random.IntN(len(past))] }
		for range 40 {
			a, b, c := pick(), pick(), pick()
			order, err := gossiptest.CheckMerge(a, b, c)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			kinds[order]++
			ab := a.Merge(b)
			removals = max(removals, ab.RemovalCounter)
			if err := ab.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
	for o := gossip.Same; o <= gossip.Concurrent; o++ {
		if kinds[o] < 50 {
			t.Errorf("only %d pairs were %v", kinds[o], o)
		}
	}
	if removals < 3 {
		t.Errorf("at most %d removals", removals)
	}
}

// TestChangesLeaveOthersAlone: states share memory, so a change of one state must not be visible in
// another.
func TestChangesLeaveOthersAlone(t *testing.T) {
	for seed := range uint64(50) {
		h := gossiptest.NewHistory(seed, 5)
		var states []*gossip.State
		var prints []string
		for range 80 {
			h.Step()
			for _, g := range h.States[:h.Joined] {
				if !slices.Contains(states, g) {
					states, prints = append(states, g), append(prints, gossiptest.Normal(g))
				}
			}
		}
		for i, g := range states {
			if got := gossiptest.Normal(g); got != prints[i] {
				t.Fatalf("seed %d: a state changed after it was made:\ngot  %s\nwant %s", seed, got, prints[i])
			}
		}
	}
}

func TestTombstonesAreBounded(t *testing.T) {
	self := addr("a", 1)
	g := (&gossip.State{Founder: self}).ChangedBy(self, func(g *gossip.State) { g.SetMember(gossip.Member{Address: self, Status: gossip.Joining}) })
	old := g
	for i := range uint64(gossip.MaxTombstones + 10) {
		g = g.ChangedBy(self, func(g *gossip.State) {
			g.SetMember(gossip.Member{Address: addr("b", i+1), Status: gossip.Down})
			g.Remove(addr("b", i+1), false)
		})
	}
	if len(g.Tombstones) != gossip.MaxTombstones || g.Removed(addr("b", 10)) || !g.Removed(addr("b", 11)) {
		t.Errorf("got %d tombstones, of 10 %v, of 11 %v", len(g.Tombstones), g.Removed(addr("b", 10)), g.Removed(addr("b", 11)))
	}
	if m := old.Merge(g); len(m.Tombstones) != gossip.MaxTombstones || m.Check() != nil {
		t.Errorf("merged: %d tombstones, %v", len(m.Tombstones), m.Check())
	}
}

func TestVectorClock(t *testing.T) {
	clock := func(counts ...uint64) gossip.VectorClock {
		var v gossip.VectorClock
		for i, n := range counts {
			if n > 0 {
				v = append(v, gossip.ClockEntry{Node: addr(string(rune('a'+i)), 1), Count: n})
			}
		}
		return v
	}
	for _, c := range []struct {
		v, w   gossip.VectorClock
		want   gossip.Ordering
		merged gossip.VectorClock
	}{
		{clock(), clock(), gossip.Same, clock()},
		{clock(1), clock(), gossip.After, clock(1)},
		{clock(1), clock(2), gossip.Before, clock(2)},
		{clock(1, 0, 3), clock(1, 0, 3), gossip.Same, clock(1, 0, 3)},
		{clock(1, 0, 3), clock(1, 2, 3), gossip.Before, clock(1, 2, 3)},
		{clock(1, 0), clock(0, 1), gossip.Concurrent, clock(1, 1)},
		{clock(2, 1, 1), clock(1, 1, 2), gossip.Concurrent, clock(2, 1, 2)},
		{clock(0, 0, 1), clock(1, 0, 0), gossip.Concurrent, clock(1, 0, 1)},
	} {
		if got := c.v.Compare(c.w); got != c.want {
			t.Errorf("[%v] to [%v]: got %v, want %v", c.v, c.w, got, c.want)
		}
		if got := c.v.Merge(c.w); !slices.Equal(got, c.merged) {
			t.Errorf("[%v] and [%v]: got [%v], want [%v]", c.v, c.w, got, c.merged)
		}
	}
	v := clock(1, 1)
	if got := v.Increment(addr("b", 1)); got.Compare(clock(1, 2)) != gossip.Same || v.Compare(clock(1, 1)) != gossip.Same {
		t.Errorf("increment: got [%v], from [%v]", got, v)
	}
}

func TestCompareAge(t *testing.T) {
	list := []gossip.Member{
		{Address: addr("a", 1)},
		{Address: addr("b", 1), UpNumber: 2},
		{Address: addr("c", 1), UpNumber: 1},
		{Address: addr("a", 2)},
	}
	slices.SortFunc(list, gossip.Member.CompareAge)
	var got []string
	for _, m := range list {
		got = append(got, fmt.Sprint(m.Name, m.Incarnation))
	}
	if want := []string{"c1", "b1", "a1", "a2"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func addr(name string, incarnation uint64) transport.Address {
	return transport.Address{Name: name, Incarnation: incarnation}
}
