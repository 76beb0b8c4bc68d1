package lease

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

// A history is how a cluster has grown. The leader made members Up in batches, each after the view
// with the previous batch had converged.
type history struct {
	members []gossip.Member // by address and by age
	batch   []int           // of each member
	last    int             // batch
	views   []int           // which each member has seen last; nobody is Up before its batch
}

func newHistory(r *rand.Rand) *history {
	h := &history{last: 1 + r.IntN(3)}
	for b := range h.last + 1 {
		for range 1 + r.IntN(3) {
			n := len(h.members)
			h.batch = append(h.batch, b)
			h.members = append(h.members, gossip.Member{Address: transport.Address{Name: fmt.Sprintf("n%02d", n), Incarnation: 1}})
		}
	}
	for i := range h.members {
		view := h.last - r.IntN(2) // the leader waited for the Up members
		if h.batch[i] == h.last {
			view = r.IntN(h.last + 1)
		}
		h.views = append(h.views, view)
	}
	return h
}

// converged reports whether all members have seen a view in which they are Up.
func (h *history) converged(view int) bool {
	for i, b := range h.batch {
		if b <= view && h.views[i] < view {
			return false
		}
	}
	return true
}

func (h *history) up(view int) (nodes []transport.Address) {
	for i, b := range h.batch {
		if b <= view {
			nodes = append(nodes, h.members[i].Address)
		}
	}
	return nodes
}

// voters returns the voters as the i-th member knows them. Which view it knows to have converged is
// random.
func (h *history) voters(r *rand.Rand, i int) *Voters {
	members := append([]gossip.Member(nil), h.members...)
	g := gossip.Preformed(members)
	for k, b := range h.batch {
		if b > h.views[i] {
			g.Members[k].Status, g.Members[k].UpNumber = gossip.Joining, 0
		}
	}
	config := core.Config{Self: h.members[i].Address}
	v := &Voters{Node: core.NewNode(config)}
	v.Gossip = g
	from := 0 // the first view of which it may know that it converged
	if h.batch[i] > 0 {
		v.joined = h.up(r.IntN(h.batch[i]))
		from = -1
	}
	known := from + r.IntN(h.views[i]-from+1)
	for known >= 0 && !h.converged(known) {
		known--
	}
	if known >= 0 {
		v.Converged = h.up(known)
	}
	return v
}

// TestOneSideWins checks that two sides of a partition never both hold the majority, whatever each
// member knows of the members that came Up last and of the convergence of views.
func TestOneSideWins(t *testing.T) {
	won := 0
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		h := newHistory(r)
		var sides [2][]transport.Address
		var on []int
		for i := range h.members {
			side := r.IntN(2)
			on = append(on, side)
			sides[side] = append(sides[side], h.members[i].Address)
		}
		var wins [2]bool
		for i, side := range on {
			if h.batch[i] > h.views[i] {
				continue // it is joining, and decides nothing for others
			}
			if s := h.voters(r, i).Split(sides[side]); len(s.Voters) > 0 && s.Majority() {
				wins[side] = true
				won++
			}
		}
		require.False(t, wins[0] && wins[1], "seed %d: sides %v, batches %v, views %v", seed, on, h.batch, h.views)
	}
	require.Positive(t, won)
}

// TestOneSideWinsWhileOneExits: the leader makes a member of a converged view Exiting, and a
// partition begins before all others know. Two sides never both hold the majority, wherever the
// exiting member is, and whichever member is the oldest.
func TestOneSideWinsWhileOneExits(t *testing.T) {
	won := 0
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 2))
		n := 2 + r.IntN(6)
		exits := r.IntN(n)
		var nodes []transport.Address
		for i := range n {
			nodes = append(nodes, transport.Address{Name: fmt.Sprintf("n%02d", i), Incarnation: 1})
		}
		on, knows := make([]int, n), make([]bool, n)
		var sides [2][]transport.Address
		for i, node := range nodes {
			on[i], knows[i] = r.IntN(2), r.IntN(2) == 0
			sides[on[i]] = append(sides[on[i]], node)
		}
		var wins [2]bool
		for i, side := range on {
			if i == exits {
				continue // it decides nothing any more, or has not heard of it and is about to
			}
			var members []gossip.Member
			for _, node := range nodes {
				members = append(members, gossip.Member{Address: node})
			}
			g := gossip.Preformed(members)
			g.Members[exits].Status = gossip.Leaving
			if knows[i] {
				g.Members[exits].Status = gossip.Exiting
			}
			v := &Voters{Node: core.NewNode(core.Config{Self: nodes[i]}), Converged: nodes}
			v.Gossip = g
			if s := v.Split(sides[side]); len(s.Voters) > 0 && s.Majority() {
				wins[side] = true
				won++
			}
		}
		require.False(t, wins[0] && wins[1], "seed %d: sides %v, %v exits, known to %v", seed, on, nodes[exits], knows)
	}
	require.Positive(t, won)
}
