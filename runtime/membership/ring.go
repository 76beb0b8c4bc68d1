package membership

import (
	"cmp"
	"hash/fnv"
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// ringPlace is a node's place on the ring on which neighbours watch each other.
// It is the same everywhere and has nothing to do with the order of names, so
// that machines of one rack, named in a row, do not all watch each other.
func ringPlace(a transport.Address) uint64 {
	h := fnv.New64a()
	h.Write([]byte(a.String()))
	// The finalizer of splitmix64: FNV alone leaves like names close together.
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// ring returns the members but self in the order of their places, starting
// behind self. Down members have no place.
func ring(self transport.Address, members []Member) []transport.Address {
	type spot struct {
		place uint64
		node  transport.Address
	}
	from := ringPlace(self)
	spots := make([]spot, 0, len(members))
	for _, m := range members {
		if m.Address != self && m.Status != Down {
			spots = append(spots, spot{ringPlace(m.Address) - from, m.Address})
		}
	}
	slices.SortFunc(spots, func(a, b spot) int {
		return cmp.Or(cmp.Compare(a.place, b.place), a.node.Compare(b.node))
	})
	nodes := make([]transport.Address, len(spots))
	for i, s := range spots {
		nodes[i] = s.node
	}
	return nodes
}

func ringAfter(self transport.Address, members []Member, n int) []transport.Address {
	nodes := ring(self, members)
	return nodes[:min(n, len(nodes))]
}

// neighbours returns whom self watches: the next n on the ring that are
// reachable, and the unreachable ones on the way to them, which are watched for
// their return.
func (g *Gossip) neighbours(self transport.Address, n int, evidence []Evidence) []transport.Address {
	nodes := ring(self, g.Members)
	counted := 0
	for i, node := range nodes {
		if counted == n {
			return nodes[:i]
		}
		if j, _ := slices.BinarySearchFunc(g.Members, node, compareMember); evidence[j] == NoEvidence {
			counted++
		}
	}
	return nodes
}
