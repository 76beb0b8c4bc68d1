package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/shardgen/shardgen/transport"
)

// A Strategy chooses the homes of a type's shards. Its methods must be pure functions of their
// arguments. homes has the members that may get shards of the type: members that are Up, reachable
// and host the type. They are ordered by address, and there is at least one. homes and its slices
// may be read only until the method returns.
type Strategy interface {
	// Allocate returns a home for a shard that has none, or whose home is leaving. If it returns a
	// zero address, the shard stays at its home, or without a home until something changes.
	Allocate(s ShardID, homes []Load) transport.Address
	// Rebalance returns at most limit moves of Movable shards of the type to other members.
	Rebalance(kind string, homes []Load, limit int) []Transfer
	// String returns the strategy's name with its settings, such as "least-shards(1)". Members
	// announce their strategy to the coordinator by this name.
	String() string
}

// Load describes one member as it will be when all moves under way have ended: how many shards it
// will have, and how many processors it will use. Numbers of processors are means over time with a
// half-life of 30 s, and 0 until they have been measured. Of this package's strategies, only
// [LoadWeighted] uses them.
type Load struct {
	Node    transport.Address
	Shards  int      // number of shards of the type
	Total   int      // number of shards of all types
	Movable []uint32 // shards of the type at this member that may be moved, in order

	Capacity float64   // processors that it may use: Config.Capacity; 0 if unknown
	Used     float64   // processors that it uses; unmeasured shards count as the mean of their type
	OfType   float64   // the part of Used that the type's shards use
	Costs    []float32 // processors that the Movable shards use, one for each
	Memory   float64   // the used share of its GOMEMLIMIT; 0 means no limit
	Zone     string    // Config.Zone
}

// A Transfer proposes to move one shard.
type Transfer struct {
	Shard uint32
	To    transport.Address
}

// ParseStrategy returns this package's strategy of that name; "" means LeastShards{}. ok is false
// for an unknown name.
func ParseStrategy(name string) (s Strategy, ok bool) {
	if name == "" {
		return LeastShards{}, true
	}
	var l LeastShards
	for _, s := range []Strategy{ConsistentHash{}, LoadWeighted{}} {
		if s.String() == name {
			return s, true
		}
	}
	if kind, ok := strings.CutPrefix(name, "beside("); ok && strings.HasSuffix(kind, ")") && len(kind) > 1 {
		return Beside(kind[:len(kind)-1]), true
	}
	if n, err := fmt.Sscanf(name, "least-shards(%d)", &l.Threshold); err == nil && n == 1 && l.String() == name {
		return l, true
	}
	return nil, false
}

// LeastShards gives each shard to the member with the fewest shards of its type. Among equals it
// takes the member with the fewest shards of all types, then the lowest address.
type LeastShards struct {
	// Threshold is the largest difference, between the members with the most and the fewest shards
	// of a type, at which no shard is moved. Default 1, which gives the most even distribution;
	// minimum 1.
	Threshold int
}

// String implements [Strategy].
func (l LeastShards) String() string { return fmt.Sprintf("least-shards(%d)", max(l.Threshold, 1)) }

// lighter orders loads by the number of shards: the best home for another shard comes first.
func lighter(a, b Load) int {
	return cmp.Or(cmp.Compare(a.Shards, b.Shards), cmp.Compare(a.Total, b.Total), a.Node.Compare(b.Node))
}

// Allocate implements [Strategy].
func (l LeastShards) Allocate(_ ShardID, homes []Load) transport.Address {
	return slices.MinFunc(homes, lighter).Node
}

// Rebalance implements [Strategy]. It moves shards, the lowest first, from the member with the most
// shards to the member with the fewest, as long as their numbers of shards differ by more than
// Threshold.
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
		transfer(homes, from, to)
	}
	return moves
}

func transfer(homes []Load, from, to Load) {
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

// ConsistentHash chooses each shard's member by a hash of the shard's number and the member's name.
// So shards of equal numbers of all types have the same home; a member that returns under its name
// gets the same shards; and a joining or leaving member moves only its own share, 1/n of all
// shards. It spreads shards less evenly than LeastShards: with 256 shards on 3 members, some
// members have a fifth more shards than others. The method is rendezvous hashing (Thaler and
// Ravishankar, 1998).
type ConsistentHash struct{}

// String implements [Strategy].
func (ConsistentHash) String() string { return "consistent-hash" }

// Allocate implements [Strategy].
func (ConsistentHash) Allocate(s ShardID, homes []Load) transport.Address {
	return slices.MaxFunc(homes, func(a, b Load) int {
		return cmp.Or(cmp.Compare(weight(s.Shard, a.Node), weight(s.Shard, b.Node)), b.Node.Compare(a.Node))
	}).Node
}

// weight returns the hash of a shard and a member. The highest hash wins the shard.
func weight(shard uint32, a transport.Address) uint64 {
	return xxhash.Sum64String(fmt.Sprintf("%d@%s", shard, a.Name))
}

// Rebalance implements [Strategy]. It moves misplaced shards to their homes, the lowest shards
// first.
func (c ConsistentHash) Rebalance(kind string, homes []Load, limit int) []Transfer {
	var moves []Transfer
	for _, h := range homes {
		for _, n := range h.Movable {
			if to := c.Allocate(ShardID{Kind: kind, Shard: n}, homes); to != h.Node {
				moves = append(moves, Transfer{n, to})
			}
		}
	}
	slices.SortFunc(moves, func(a, b Transfer) int { return cmp.Compare(a.Shard, b.Shard) })
	return moves[:min(limit, len(moves))]
}

// Beside gives each shard the same home as the shard with the same number of the named type. When
// that other shard has moved, Beside moves this one to the same member. So entities with the same
// id of the two types live at one member, if both types have the same hash. If the named type has
// fewer shards, a shard goes beside the one that would hold its ids. [LoadWeighted] counts a shard
// and those beside it as one.
//
// LeastShards{} places a shard if the other shard has no home, or has a home that does not host
// this type. LeastShards{} places all shards if the named type does not exist, has more shards, or
// is a pool.
type Beside string

// String implements [Strategy].
func (b Beside) String() string { return "beside(" + string(b) + ")" }

// Allocate implements [Strategy] like LeastShards{}: only the coordinator knows the named type's
// homes.
func (Beside) Allocate(s ShardID, homes []Load) transport.Address {
	return LeastShards{}.Allocate(s, homes)
}

// Rebalance implements [Strategy] like LeastShards{}.
func (Beside) Rebalance(kind string, homes []Load, limit int) []Transfer {
	return LeastShards{}.Rebalance(kind, homes, limit)
}
