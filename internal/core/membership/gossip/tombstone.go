package gossip

import (
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// A Tombstone keeps a removed node from coming back with old gossip. The last MaxTombstones
// removals are remembered. This rule needs no clock, and gives the same result at all nodes.
type Tombstone struct {
	Node   transport.Address // the removed node
	Number uint64            // the value of RemovalCounter after the removal
	Left   bool              // it left in order
}

// MaxTombstones is the number of tombstones that are kept. It is more than enough: the leader
// removes a member only after every full member has seen the previous removal.
const MaxTombstones = 128

func compareTombstone(t Tombstone, a transport.Address) int { return t.Node.Compare(a) }

func mergeTombstones(a, b []Tombstone) []Tombstone {
	merged := slices.Clone(a)
	for _, t := range b {
		i, ok := slices.BinarySearchFunc(merged, t.Node, compareTombstone)
		if !ok {
			merged = slices.Insert(merged, i, t)
			continue
		}
		// Two leaders removed the node, each in one half of a split cluster.
		merged[i].Number = max(merged[i].Number, t.Number)
		merged[i].Left = merged[i].Left && t.Left
	}
	return merged
}
