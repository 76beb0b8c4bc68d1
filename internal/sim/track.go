package sim

import (
	"github.com/shardgen/shardgen/internal/membership/gossip"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// tracked summarizes a node's published views. It is updated from events, so that no
// view has to be searched.
type tracked struct {
	set       uint64 // a hash of the members that are not Down
	size      int    // the number of these members
	published uint64 // set, after the last step that had events
	converged bool
}

// begin sets the summary of a node that starts as a member.
func (t *tracked) begin(g *gossip.State) {
	for _, m := range g.Members {
		t.toggle(m.Address, 1)
	}
	t.published, t.converged = t.set, true
}

func (t *tracked) toggle(a transport.Address, change int) {
	t.set ^= mark(a)
	t.size += change
}

// mark returns a node's share in the hash of a set.
func mark(a transport.Address) uint64 {
	x := a.Incarnation
	for i := range len(a.Name) {
		x = (x ^ uint64(a.Name[i])) * 0x100000001b3
	}
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (t *tracked) follow(e membership.Event) {
	switch e := e.(type) {
	case membership.MemberJoined:
		t.toggle(e.Member.Address, 1)
	case membership.MemberDowned:
		t.toggle(e.Member.Address, -1)
	case membership.MemberRemoved:
		if e.Member.Status != membership.Down {
			t.toggle(e.Member.Address, -1)
		}
	case membership.ConvergedChanged:
		t.converged = e.Converged
	}
}

func (t *tracked) publish() { t.published = t.set }

// SetOf returns the hash of [Node.Set] for these nodes.
func SetOf(nodes []*Node) uint64 {
	sum := uint64(0)
	for _, n := range nodes {
		sum ^= mark(n.Address)
	}
	return sum
}

// Agreed reports whether the nodes, and they alone, are Up in the converged view of
// each of them.
func Agreed(nodes []*Node) bool {
	want := SetOf(nodes)
	for _, n := range nodes {
		if n.ended || !n.track.converged || n.track.published != want || n.track.size != len(nodes) {
			return false
		}
	}
	for _, n := range nodes {
		g := n.machine.State()
		if g == nil || len(g.Members) != len(nodes) || g.Founder != nodes[0].machine.State().Founder {
			return false
		}
		for _, m := range g.Members {
			if m.Status != membership.Up {
				return false
			}
		}
	}
	return true
}
