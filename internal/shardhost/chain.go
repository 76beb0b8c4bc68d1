package shardhost

import (
	"unsafe"

	"github.com/shardgen/shardgen/internal/bounded"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
)

// A Chain is the encoded turns that wait for a call. It is parsed when a call meets a
// busy entity or a shard that is not open, which is rare.
type Chain []byte

// HoldsShard reports whether a turn in that shard waits for the call.
func (c Chain) HoldsShard(s placement.ShardID) bool {
	return c.any(func(l wire.Link) bool { return l.Kind == s.Kind && l.Shard == s.Shard })
}

// HoldsEntity reports whether that entity's turn waits for the call.
func (c Chain) HoldsEntity(s placement.ShardID, entity string) bool {
	return c.any(func(l wire.Link) bool { return l.Kind == s.Kind && l.Entity == entity })
}

func (c Chain) any(match func(wire.Link) bool) bool {
	links, err := wire.ParseChain(c)
	if err != nil {
		return false
	}
	for _, l := range links {
		if match(l) {
			return true
		}
	}
	return false
}

// String prints the chain for people: "Cart/7 → Stock/tea → ".
func (c Chain) String() string {
	links, _ := wire.ParseChain(c)
	var s string
	for _, l := range links {
		s += l.Kind + "/" + bounded.ID(l.Entity) + " → "
	}
	return s
}

// stringOf is b as a string without a copy. Nobody may change b afterwards.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
