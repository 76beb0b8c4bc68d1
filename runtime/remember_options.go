package shard

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/store"
)

// Remembering says how a type's entities are remembered, with [Remember]. The zero
// value of each field is its default. Members may differ, but for Store.
type Remembering struct {
	// Store keeps the ids, so that entities live again after a stop of all members,
	// too. Default none: the memory of other members keeps them. All members must
	// have the same store, or none.
	Store store.Store
	// Copies is how many other members keep the ids of a shard if there is no
	// Store: so many members and the shard's home may be lost at once, less one.
	// Default 2, 1 to 5.
	Copies int
	// ConstantRate starts Entities of the type at this node every Every. Default
	// false: all at once, but no more than 64 at a time.
	ConstantRate bool
	// Entities is how many are started at once with ConstantRate. Default 5,
	// minimum 1.
	Entities int
	// Every is the time between two such starts. Default 100ms, minimum 1ms.
	Every time.Duration
	// Backoff is how long an entity waits for being started again that was stopped
	// by its supervisor, or whose activation failed, unless it is called before.
	// Default 10s, 10ms to 1h.
	Backoff time.Duration
	// MaxPerShard bounds the entities that a shard remembers: a call that would
	// start one more fails with ErrOverloaded. Default 10,000, at most 1,000,000.
	MaxPerShard int
}

// Remember makes the type's active entities live again by themselves when their
// shard has moved, when its home has crashed and, with a store, when all members
// were stopped. They live again without what they had in memory, unless their shard
// moved and brought it.
//
// An entity is remembered from before its first activation, which waits for that: with
// other members until one of them has the id, or for a second; with a store until
// it has the id, or the call fails with NotExecuted. It is remembered until it asks
// for [Passivate] or [Forget], or its first activation fails. Idleness does not end
// it: with Remember the default of [IdleAfter] is 0. Where IdleAfter or
// [MaxActive] is set all the same, who is passivated by it is not remembered.
//
// Members must agree on whether the type is remembered, and on whether in a store:
// joining refuses one that does not.
func Remember(r Remembering) HostOption {
	return func(s *hostSettings) { s.remember = &r }
}

// remembers is what members must agree about.
func (s *hostSettings) remembers() string {
	switch {
	case s.remember == nil:
		return "no"
	case s.remember.Store == nil:
		return "by members"
	}
	return "in a store"
}

// validateRemember fills the defaults in and says what is wrong.
func (s *hostSettings) validateRemember(k codegen.Kind) error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("host %s: "+format, append([]any{k.Name}, args...)...)
	}
	r := s.remember
	if r == nil {
		return nil
	}
	if k.Singleton {
		return fault("Remember: a singleton lives by itself")
	}
	if r.Store != nil && r.Copies != 0 {
		return fault("Remembering.Copies is %d: it is for types without Remembering.Store", r.Copies)
	}
	with := *r // the user may use the same value for several types
	r, s.remember = &with, &with
	if !s.idleSet {
		s.idle = 0
	}
	set(&r.Copies, 2)
	set(&r.Entities, 5)
	set(&r.Every, 100*time.Millisecond)
	set(&r.Backoff, 10*time.Second)
	set(&r.MaxPerShard, 10_000)
	switch {
	case r.Copies < 1 || r.Copies > 5:
		return fault("Remembering.Copies is %d: want 1 to 5", r.Copies)
	case r.Entities < 1:
		return fault("Remembering.Entities is %d: want at least 1", r.Entities)
	case r.Every < time.Millisecond:
		return fault("Remembering.Every is %v: want at least 1ms", r.Every)
	case r.Backoff < 10*time.Millisecond || r.Backoff > time.Hour:
		return fault("Remembering.Backoff is %v: want 10ms to 1h", r.Backoff)
	case r.MaxPerShard < 1 || r.MaxPerShard > 1_000_000:
		return fault("Remembering.MaxPerShard is %d: want 1 to 1000000", r.MaxPerShard)
	}
	return nil
}
