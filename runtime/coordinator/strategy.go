package coordinator

import (
	"cmp"
	"slices"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Strategy decides where shards go. It must be a pure function of its
// arguments. Homes are the members that may be given shards of the kind: Up,
// reachable and hosting it, in order of address, never empty.
type Strategy interface {
	// Allocate names the home of a shard that has none or whose home leaves. A
	// zero address leaves the shard where it is, or without a home until something
	// changes.
	Allocate(s placement.ShardID, homes []Load) transport.Address
	// Rebalance names shards of the kind that should be elsewhere, at most limit,
	// out of those that are Movable.
	Rebalance(kind string, homes []Load, limit int) []Transfer
}

// Load is what one member carries, as it will be when all moves under way have ended.
type Load struct {
	Node    transport.Address
	Shards  int      // of the kind
	Total   int      // of all kinds
	Movable []uint32 // shards of the kind that are here, do not move and may, in order
}

// A Transfer proposes to move one shard.
type Transfer struct {
	Shard uint32
	To    transport.Address
}

// LeastShards gives each shard to the member with the fewest of its kind; the
// fewest of all kinds, then the address, decide between equals.
type LeastShards struct {
	// Threshold is the difference between the members with the most and the fewest
	// shards of a kind from which on, if it is greater, shards move. Default 1,
	// which is the most even; minimum 1.
	Threshold int
}

// lighter orders loads, the best home first.
func lighter(a, b Load) int {
	return cmp.Or(cmp.Compare(a.Shards, b.Shards), cmp.Compare(a.Total, b.Total), a.Node.Compare(b.Node))
}

// Allocate implements [Strategy].
func (l LeastShards) Allocate(_ placement.ShardID, homes []Load) transport.Address {
	return slices.MinFunc(homes, lighter).Node
}

// Rebalance implements [Strategy]. It takes the lowest shards of the fullest
// member, as long as that narrows the difference.
func (l LeastShards) Rebalance(_ string, homes []Load, limit int) []Transfer {
	homes = slices.Clone(homes)
	var moves []Transfer
	for len(moves) < limit {
		from := slices.MaxFunc(homes, lighter)
		to := slices.MinFunc(homes, lighter)
		if from.Shards-to.Shards <= max(l.Threshold, 1) || len(from.Movable) == 0 {
			return moves
		}
		moves = append(moves, Transfer{from.Movable[0], to.Node})
		for i := range homes {
			switch homes[i].Node {
			case from.Node:
				homes[i].Shards, homes[i].Total = from.Shards-1, from.Total-1
				homes[i].Movable = from.Movable[1:]
			case to.Node:
				homes[i].Shards, homes[i].Total = to.Shards+1, to.Total+1
			}
		}
	}
	return moves
}
