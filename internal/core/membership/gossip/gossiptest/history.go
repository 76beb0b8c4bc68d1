// Package gossiptest makes gossiped states as a cluster could have them, and checks the
// laws that they obey.
package gossiptest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

// A History makes states that one cluster could have. Every state comes from the founder's state by
// changes and merges, so any two of them may be merged.
type History struct {
	Random *rand.Rand // makes all choices
	nodes  []transport.Address
	States []*gossip.State // of each node; nil before it joins
	Joined int             // the number of nodes that have joined
}

// NewHistory begins a history of n nodes, of which one has formed the cluster.
func NewHistory(seed uint64, n int) *History {
	h := &History{Random: rand.New(rand.NewPCG(seed, 1))}
	for i := range n {
		h.nodes = append(h.nodes, transport.Address{Name: fmt.Sprintf("n%d", i), Incarnation: uint64(i + 1)})
	}
	first := gossip.New(gossip.Member{Address: h.nodes[0], Status: gossip.Joining})
	h.States = make([]*gossip.State, n)
	h.States[0], h.Joined = first, 1
	return h
}

// Step lets one node change its own state, or merge another's into it.
func (h *History) Step() {
	i := h.Random.IntN(h.Joined)
	self, g := h.nodes[i], h.States[i]
	if g.Removed(self) {
		return
	}
	switch h.Random.IntN(6) {
	case 0:
		if h.Joined < len(h.nodes) {
			j := h.nodes[h.Joined]
			h.States[i] = g.ChangedBy(self, func(g *gossip.State) { g.SetMember(gossip.Member{Address: j, Status: gossip.Joining}) })
			h.States[h.Joined] = h.States[i].WithSeen(j)
			h.Joined++
		}
	case 1, 2:
		h.move(i)
	case 3:
		subject := h.nodes[h.Random.IntN(h.Joined)]
		if _, ok := g.Member(subject); ok {
			e := gossip.Evidence(h.Random.IntN(int(gossip.EvidenceGone) + 1))
			h.States[i] = g.ChangedBy(self, func(g *gossip.State) {
				g.Rows = gossip.WithRecord(g.Rows, self, gossip.Record{Subject: subject, Evidence: e, Quiet: time.Second})
			})
		}
	default:
		from := h.States[h.Random.IntN(h.Joined)]
		h.States[i] = g.Merge(from).WithSeen(self)
		if h.States[i].Removed(self) {
			h.States[i] = g // the node ends
		}
	}
}

func (h *History) move(i int) {
	self, g := h.nodes[i], h.States[i]
	r := g.Members[h.Random.IntN(len(g.Members))]
	var moves []gossip.Status
	for to := gossip.Joining; to <= gossip.Removed; to++ {
		if r.Status.CanBecome(to) {
			moves = append(moves, to)
		}
	}
	to := moves[h.Random.IntN(len(moves))]
	if to == gossip.Removed && r.Address == self {
		return
	}
	h.States[i] = g.ChangedBy(self, func(g *gossip.State) {
		if to == gossip.Removed {
			g.Remove(r.Address, r.Status == gossip.Exiting)
			return
		}
		if to == gossip.Up {
			g.UpCounter++
			r.UpNumber = g.UpCounter
		}
		r.Fenced = to == gossip.Down && h.Random.IntN(2) == 0
		r.ExitReady = to == gossip.Leaving && h.Random.IntN(2) == 0
		g.SetStatus(r, to)
	})
}

// Normal returns a state as text, for comparison. Empty and nil lists give the same text.
func Normal(g *gossip.State) string {
	return fmt.Sprintf("%v|%+v|%+v|%d|%d|%+v|%v|%v", g.Founder, g.Members, g.Rows, g.UpCounter, g.RemovalCounter, g.Tombstones, g.Seen, g.Version)
}
