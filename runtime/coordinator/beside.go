package coordinator

import (
	"cmp"
	"slices"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// maxBeside bounds a chain of types, each beside the next.
const maxBeside = 8

// leader returns the type whose shards decide where the shards of k live. It returns nil if k
// decides for itself: k is beside no type or beside a type that it cannot follow, or the chain of
// types beside each other is a circle or longer than maxBeside.
func (c *Coordinator) leader(k *entityType) *entityType {
	l := k
	for range maxBeside {
		b, ok := l.place.(placement.Beside)
		next := c.types[string(b)]
		if !ok || l.isPool() || next == nil || next.isPool() || next.info.Shards > l.info.Shards {
			if l == k {
				return nil
			}
			return l
		}
		l = next
	}
	return nil
}

// led returns the shard of l that a shard of k follows.
func (l *entityType) led(k *entityType, shard uint32) *shard {
	return &l.shards[(shard-k.info.Shards)/(k.info.Shards/l.info.Shards)]
}

// inOrder returns the names of the types, leaders before the types that follow them.
func (c *Coordinator) inOrder() []string {
	names := slices.Clone(c.names)
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(btoi(c.leader(c.types[a]) != nil), btoi(c.leader(c.types[b]) != nil))
	})
	return names
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A follows places the shards of a type at the homes of another type's shards.
type follows struct {
	placement.Strategy // for shards that cannot follow
	kind, leader       *entityType
}

// to returns the home of the shard that the given shard follows. If the followed shard is moving,
// to returns its new home. ok is false if that home is not one of homes.
func (f follows) to(shard uint32, homes []placement.Load) (to transport.Address, ok bool) {
	to = f.leader.led(f.kind, shard).goesTo()
	_, ok = slices.BinarySearchFunc(homes, to, func(l placement.Load, a transport.Address) int { return l.Node.Compare(a) })
	return to, ok
}

// Allocate implements [placement.Strategy].
func (f follows) Allocate(s placement.ShardID, homes []placement.Load) transport.Address {
	if to, ok := f.to(s.Shard, homes); ok {
		return to
	}
	return f.Strategy.Allocate(s, homes)
}

// Rebalance implements [placement.Strategy]. Shards that cannot follow stay.
func (f follows) Rebalance(_ string, homes []placement.Load, limit int) (moves []placement.Transfer) {
	for i := range homes {
		for _, shard := range homes[i].Movable {
			if to, ok := f.to(shard, homes); ok && to != homes[i].Node && len(moves) < limit {
				moves = append(moves, placement.Transfer{Shard: shard, To: to})
			}
		}
	}
	return moves
}

// withBeside adds the costs of following shards to costs, at the shards of k that they follow.
func (c *Coordinator) withBeside(k *entityType, costs []float32) {
	for _, name := range c.names {
		f := c.types[name]
		if _, beside := f.place.(placement.Beside); !beside || c.leader(f) != k {
			continue
		}
		for i := range f.shards {
			costs[i/(len(f.shards)/len(k.shards))] += float32(f.costOf(&f.shards[i]))
		}
	}
}
