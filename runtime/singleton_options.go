package shard

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/store"
)

// Singleton tunes a singleton, with [SingletonOf]. The zero value of each field
// is its default. Members may differ, but for Lease.
//
// To limit a singleton to members with a role, use [HostRole].
type Singleton struct {
	// Lease guards the instance: it runs only while its node holds the lease, which
	// is given back when the instance has really stopped. So there is one instance
	// even where the cluster falls apart and both halves go on. Without the lease's
	// store there is none. All members must have a lease of the same store, or none.
	// Default none: downing and fencing alone see to it.
	Lease store.Lease
	// LeaseTTL is after how long the lease of a node that crashed ends. Default
	// 20s, minimum 100ms; the store may ask for more. A tenth of it before a lease
	// ends that could not be renewed, the instance is told to stop.
	LeaseTTL time.Duration
	// LeaseRetry is the time between two attempts to get the lease. Default 1s
	// (Akka's is 5s), minimum 10ms.
	LeaseRetry time.Duration
	// HandOverRetry is the time between two messages to a former oldest member
	// that has not said that its instance has stopped. Default 200ms (Akka's is
	// 1s), minimum 10ms.
	HandOverRetry time.Duration
	// MaxHandOverRetries is after how many of them the log warns that the hand-over
	// is stuck; it is waited for all the same. Default 15, as in Akka.
	MaxHandOverRetries int
	// RemovalMargin is how long after the removal of a former oldest member that
	// never said that its instance has stopped the next one starts. Default 0: a
	// member is removed only when it can run no turn any more. Raise it where tasks
	// may outlast their contexts.
	RemovalMargin time.Duration
	// RestartBackoff is the pause before an instance that died is started again; it
	// doubles with each death up to MaxRestartBackoff, and begins anew after an
	// instance has lived for StableAfter. Defaults 100ms, 10s and 30s.
	RestartBackoff, MaxRestartBackoff, StableAfter time.Duration
}

// SingletonOf tunes a singleton. It is refused for other types.
func SingletonOf(s Singleton) HostOption {
	return func(h *hostSettings) { h.single, h.singleSet = s, true }
}

const (
	defaultLeaseTTL   = 20 * time.Second
	minSingletonRetry = 10 * time.Millisecond
)

// validateSingleton says what is wrong with the settings of a singleton, and of
// other types that have such settings. It fills the defaults in that are not the
// manager's.
func (s *hostSettings) validateSingleton(k codegen.Kind) error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("host %s: "+format, append([]any{k.Name}, args...)...)
	}
	switch {
	case !k.Singleton && s.singleSet:
		return fault("SingletonOf: %w (only for types with //shard:singleton)", ErrNotSingleton)
	case !k.Singleton:
		return nil
	case s.place != nil:
		return fault("Allocation: a singleton lives on the oldest member")
	case s.moves != 0 || s.hosts != 0:
		return fault("MaxMoves and MinHosts are for types with shards, not for a singleton")
	case s.idle != 0:
		return fault("IdleAfter: a singleton is never idle")
	}
	o := &s.single
	set(&o.LeaseTTL, defaultLeaseTTL)
	if err := checkLease(o.LeaseTTL); o.Lease != nil && err != nil {
		return fault("Singleton.LeaseTTL: %w", err)
	}
	if d := o.LeaseRetry; d != 0 && d < minSingletonRetry {
		return fault("Singleton.LeaseRetry is %v: want at least %v", d, minSingletonRetry)
	}
	if d := o.HandOverRetry; d != 0 && d < minSingletonRetry {
		return fault("Singleton.HandOverRetry is %v: want at least %v", d, minSingletonRetry)
	}
	return nil
}
