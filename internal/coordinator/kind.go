package coordinator

import (
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A kind is one entity type with its shards.
type kind struct {
	info   KindInfo
	place  placement.Strategy
	pins   Pins
	shards []shard // shards[i] has number info.Shards+i
	wanted bool    // somebody has calls for it
	opened bool    // it was allocated before: the minimum of members no longer counts
}

// A shard is one shard as the coordinator knows it.
type shard struct {
	id    placement.ShardID
	owner transport.Address // zero: none
	epoch placement.Epoch   // of the table's entry; 0: never in a table
	last  placement.Epoch   // the highest ever heard of or given out
	move  *move
	rest  time.Time // not moved before
	why   string    // it is where it is, for people
}

// homeless counts the shards without a home.
func (k *kind) homeless() int {
	n := 0
	for i := range k.shards {
		if k.shards[i].owner.IsZero() {
			n++
		}
	}
	return n
}

// pinned returns the home that a pin names for the shard, if it is one of homes.
func (k *kind) pinned(shard uint32, homes []placement.Load) (transport.Address, bool) {
	name := k.pins.at(shard)
	if name == "" {
		return transport.Address{}, false
	}
	for _, h := range homes {
		if h.Node.Name == name {
			return h.Node, true
		}
	}
	return transport.Address{}, false
}

// goesTo is where the shard will be when its move has ended.
func (s *shard) goesTo() transport.Address {
	if s.move != nil {
		return s.move.to
	}
	return s.owner
}
