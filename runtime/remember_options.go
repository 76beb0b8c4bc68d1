package shard

import (
	"time"

	"github.com/shardgen/shardgen/internal/remembering"
)

// RememberOptions configures how the entities of a type are remembered, with [Remember]. The
// zero value of each field is its default. Members may differ.
type RememberOptions struct {
	// Replicas is the number of other members that keep the ids of a shard if the node has
	// no Config.Store. Ids survive the loss, at the same time, of as many members as
	// Replicas, the shard's home included. Default 2, 1 to 5. With a Config.Store, which
	// keeps the ids, it must be 0.
	Replicas int
	// ConstantRate starts Entities of the type at this node every Every. Default false:
	// all are started at once, but no more than 64 at a time.
	ConstantRate bool
	// Entities is the number of entities that are activated at once with ConstantRate.
	// Default 5, minimum 1.
	Entities int
	// Every is the time between two such activations. Default 100ms, minimum 1ms.
	Every time.Duration
	// Backoff is the pause before an entity is activated again after its supervisor
	// stopped it or its activation failed. A call activates it earlier. Default 10s, 10ms
	// to 1h.
	Backoff time.Duration
	// MaxPerShard bounds the entities that a shard remembers. A call that would activate one
	// more fails with [ErrOverloaded]. Default 10,000, at most 1,000,000.
	MaxPerShard int
}

// Remember makes the runtime activate the type's active entities again, without a call, when their
// shard has moved, when its home has crashed and, with a [Config].Store, which then keeps the ids,
// after a stop of all members. They have their state only if it came with their shard's move.
//
// The first activation of an entity waits until its id is remembered: without a store until another
// member has the id, but at most a second, and with a store until the store has it. If the store
// fails, the call fails with outcome NotExecuted. The entity is remembered until it calls
// [Passivate] or [Forget], or its first activation fails. Idleness does not end it: with Remember
// the default of [IdleAfter] is 0. If IdleAfter or [MaxActive] is set all the same, entities that
// it passivates are no longer remembered.
//
// With a Config.Store, all members can be stopped and started with another number of shards or another
// shard function: the first ones that need the ids move them to their new shards, and log how many.
//
// Members must agree on whether the type is remembered: one that differs is refused at joining.
func Remember(r RememberOptions) HostOption {
	return func(s *hostSettings) { s.remember = &r }
}

// settings returns the options in the form of package remembering. node.NewHost adds what depends on the type.
func (r *RememberOptions) settings() *remembering.Settings {
	return &remembering.Settings{
		Replicas: r.Replicas, MaxPerShard: r.MaxPerShard,
		ConstantRate: r.ConstantRate, Entities: r.Entities, Every: r.Every, Backoff: r.Backoff,
	}
}
