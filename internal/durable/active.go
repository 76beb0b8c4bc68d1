package durable

import "github.com/shardgen/shardgen/internal/invariant"

// An Active is an entity that the driver has, as [Loaded] gives it. With it [Shard.Commit] need
// not look the entity up. It holds from Load to Passivated: no claim, checkpoint, lapse or failed
// load replaces an active entity in the tail, and a shard that is dropped keeps its tail. An older one
// does no harm: the entity is looked up then. The zero value is none. One of another Shard must not
// be used.
type Active struct{ entity *entity }

// of returns the entity of a turn, or nil if the tail does not have it. Entities leave the tail by
// Passivated and by tail.saved, both only when they are not active, and are made active by Load
// only while they are in it. So an active one is that of the tail.
func (t *tail) of(turn *Turn) *entity {
	e := turn.Active.entity
	if e == nil || !e.active {
		return t.entities[turn.Entity]
	}
	if invariant.Enabled && e != t.entities[turn.Entity] {
		invariant.Failf("durable: the active entity %q of a turn of %q is not that of the tail", e.id, turn.Entity)
	}
	return e
}
