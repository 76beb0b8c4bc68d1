package shard

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/region"
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
	// is stuck; it is waited for all the same. Default 15, as in Akka; minimum 1.
	MaxHandOverRetries int
	// RemovalMargin is how long after the removal of a former oldest member that
	// never said that its instance has stopped the next one starts. Default 0: a
	// member is removed only when it can run no turn any more. Raise it where tasks
	// may outlast their contexts; not below 0.
	RemovalMargin time.Duration
	// RestartBackoff is the pause before an instance that died is started again; it
	// doubles with each death up to MaxRestartBackoff, and begins anew after an
	// instance has lived for StableAfter. Defaults 100ms, 10s and 30s, none below 0,
	// MaxRestartBackoff not below RestartBackoff.
	RestartBackoff, MaxRestartBackoff, StableAfter time.Duration
}

// SingletonOf tunes a singleton. For other types it is refused with
// [ErrNotSingleton], as options for types with shards are for a singleton: of
// those [HostRole], [Proxy], [Mailbox] and [StopTimeout] work for both.
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
	}
	if why := s.notForSingletons(); why != "" {
		return fault("%s", why)
	}
	o := &s.single
	set(&o.LeaseTTL, defaultLeaseTTL)
	if err := checkLease(o.LeaseTTL); o.Lease != nil && err != nil {
		return fault("Singleton.LeaseTTL: %w", err)
	}
	if n := o.MaxHandOverRetries; n < 0 {
		return fault("Singleton.MaxHandOverRetries is %d: want 0 for the default, or more", n)
	}
	for _, d := range []struct {
		name       string
		got, least time.Duration
	}{
		{"LeaseRetry", o.LeaseRetry, minSingletonRetry},
		{"HandOverRetry", o.HandOverRetry, minSingletonRetry},
		{"RemovalMargin", o.RemovalMargin, 0},
		{"RestartBackoff", o.RestartBackoff, 0},
		{"MaxRestartBackoff", o.MaxRestartBackoff, o.RestartBackoff},
		{"StableAfter", o.StableAfter, 0},
	} {
		if d.got != 0 && d.got < d.least {
			return fault("Singleton.%s is %v: want at least %v", d.name, d.got, d.least)
		}
	}
	return nil
}

// notForSingletons names an option that is set and would do nothing for a
// singleton, or harm it: what drops the value between turns leaves its tasks
// running beside those of the next one.
func (s *hostSettings) notForSingletons() string {
	plain := defaultHostSettings(Config{})
	for _, o := range []struct {
		set bool
		why string
	}{
		{s.place != nil, "Allocation: a singleton lives on the oldest member"},
		{s.moves != 0 || s.hosts != 0, "MaxMoves and MinHosts are for types with shards, not for a singleton"},
		{s.handoff != region.Handoff{}, "Handoff: a singleton is always handed over in order"},
		{s.idle != 0, "IdleAfter: a singleton is never idle"},
		{s.maxActive != 0, "MaxActive: there is one of a singleton, and it never rests"},
		{s.inline, "Inline: a singleton does not run on its callers' goroutines"},
		{s.decide != nil, "Supervise: a singleton that panics is started again (tune it by SingletonOf)"},
		{s.backoff != plain.backoff || s.backoffMost != plain.backoffMost, "RestartBackoff: set Singleton.RestartBackoff by SingletonOf"},
	} {
		if o.set {
			return o.why
		}
	}
	return ""
}
