package gossip_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

func members(n int) []gossip.Member {
	list := make([]gossip.Member, n)
	for i := range list {
		list[i] = gossip.Member{Address: addr(fmt.Sprintf("node-%03d", i), uint64(i+1)), Status: gossip.Up, UpNumber: uint32(i + 1)}
	}
	return list
}

var oneSuffices = gossip.Rule{Detection: gossip.DetectionSingleObserver, MonitoredBy: 5}

func evidenceIn(g *gossip.State) []gossip.Evidence {
	g = g.Clone()
	g.Founder, g.UpCounter = g.Members[0].Address, uint32(len(g.Members))
	return g.Summary(oneSuffices).Evidence
}

func watchedBy(g *gossip.State, self transport.Address) []transport.Address {
	return gossip.NewRing(g.Members).Neighbours(g.Members, self, 5, evidenceIn(g))
}

// TestRingCoversAll: every member has the same number of observers, and the observations connect
// all members.
func TestRingCoversAll(t *testing.T) {
	for _, n := range []int{1, 2, 5, 6, 7, 30, 200} {
		g := &gossip.State{Members: members(n)}
		observers := map[transport.Address]int{}
		for _, m := range g.Members {
			for _, w := range watchedBy(g, m.Address) {
				observers[w]++
			}
		}
		want := min(5, n-1)
		for _, m := range g.Members {
			if observers[m.Address] != want {
				t.Errorf("%d members: %v has %d observers, want %d", n, m.Address, observers[m.Address], want)
			}
		}
	}
}

// TestRingSkipsUnreachable: an unreachable member is watched, but does not count as one of the n
// neighbours.
func TestRingSkipsUnreachable(t *testing.T) {
	g := &gossip.State{Members: members(12)}
	self := g.Members[0].Address
	before := watchedBy(g, self)
	other := g.Members[1].Address
	if other == before[0] {
		other = g.Members[2].Address
	}
	g.Rows = gossip.WithRecord(nil, other, gossip.Record{Subject: before[0], Evidence: gossip.EvidenceSilent})
	after := watchedBy(g, self)
	if len(after) != 6 || !slices.Equal(after[:5], before) {
		t.Errorf("got %v, want one more than %v", after, before)
	}
	i, _ := g.Index(before[0])
	g.Members[i].Status = gossip.Down
	if down := watchedBy(g, self); len(down) != 5 || slices.Contains(down, before[0]) {
		t.Errorf("got %v, want five without %v, who is Down", down, before[0])
	}
}

func TestRecordsOfDownObserversCountForNothing(t *testing.T) {
	list := members(3)
	g := &gossip.State{Members: list, Rows: gossip.WithRecord(nil, list[0].Address, gossip.Record{Subject: list[2].Address, Evidence: gossip.EvidenceCut})}
	if e := evidenceIn(g)[2]; e != gossip.EvidenceCut {
		t.Errorf("got %v, want cut", e)
	}
	list[0].Status = gossip.Down
	if e := evidenceIn(g)[2]; e != gossip.NoEvidence {
		t.Errorf("got %v, want none: the observer is Down", e)
	}
}
