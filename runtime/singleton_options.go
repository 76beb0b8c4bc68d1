package shard

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/store"
)

// SingletonOptions configures a singleton, with [WithSingletonOptions]. The zero value of each field is
// its default. Members may differ, except in Lease.
//
// To limit a singleton to members with a role, use [HostRole].
type SingletonOptions struct {
	// Lease guards the instance: it runs only while its node holds the lease, which is
	// given back when the instance has stopped. So there is one instance even if the
	// cluster falls apart and both halves go on. While the store of the lease cannot be
	// reached there is none. All members must use the same store, or none. Default none:
	// downing and fencing alone keep the instance unique.
	Lease store.Lease
	// LeaseTTL is the time after which the lease of a node that crashed ends. Default
	// 20s, minimum 100ms; the store may ask for more. If the lease cannot be renewed, the
	// instance is told to stop a tenth of this time before the lease ends.
	LeaseTTL time.Duration
	// LeaseRetry is the time between two attempts to get the lease. Default 1s
	// (Akka's is 5s), minimum 10ms.
	LeaseRetry time.Duration
	// HandOverRetry is the time between two messages to a former oldest member that has
	// not confirmed that its instance has stopped. Default 200ms (Akka's is 1s), minimum
	// 10ms.
	HandOverRetry time.Duration
	// MaxHandOverRetries is the number of such messages after which the log warns that
	// the hand-over is stuck. The hand-over is still waited for. Default 15, as in Akka;
	// minimum 1.
	MaxHandOverRetries int
	// RemovalMargin is how long the next instance waits after the removal of a former
	// oldest member that never confirmed that its instance has stopped. Default 0,
	// because a member is removed only when it can run no more turns. Raise it where
	// tasks may outlast their contexts. It must not be below 0.
	RemovalMargin time.Duration
	// RestartBackoff is the pause before an instance that died is started again. It
	// doubles with each death up to MaxRestartBackoff, and starts over after an instance
	// has lived for StableAfter. Defaults 100ms, 10s and 30s; none below 0, and
	// MaxRestartBackoff not below RestartBackoff.
	RestartBackoff, MaxRestartBackoff, StableAfter time.Duration
}

// WithSingletonOptions configures a singleton. It is refused with [ErrNotSingleton] for other
// types, as are options for types with shards for a singleton; [HostRole], [Proxy],
// [MaxMailboxCalls] and [StopTimeout] work for both.
func WithSingletonOptions(s SingletonOptions) HostOption {
	return func(h *hostSettings) { h.single, h.singleSet = s, true }
}

const (
	defaultLeaseTTL   = 20 * time.Second
	minSingletonRetry = 10 * time.Millisecond
)

// validateSingleton returns a fault of the settings of a singleton, or of another type
// with settings of a singleton. It fills in the defaults that the singleton's manager
// does not.
func (s *hostSettings) validateSingleton(k codegen.Kind) error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("host %s: "+format, append([]any{k.Name}, args...)...)
	}
	switch {
	case !k.Singleton && s.singleSet:
		return fault("WithSingletonOptions: %w (only for types with //shard:singleton)", ErrNotSingleton)
	case !k.Singleton:
		return nil
	}
	if why := s.notForSingletons(); why != "" {
		return fault("%s", why)
	}
	o := &s.single
	set(&o.LeaseTTL, defaultLeaseTTL)
	if o.Lease != nil && o.LeaseTTL < store.MinTTL {
		return fault("SingletonOptions.LeaseTTL: TTL is %v: want at least %v", o.LeaseTTL, store.MinTTL)
	}
	if n := o.MaxHandOverRetries; n < 0 {
		return fault("SingletonOptions.MaxHandOverRetries is %d: want 0 for the default, or more", n)
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
			return fault("SingletonOptions.%s is %v: want at least %v", d.name, d.got, d.least)
		}
	}
	return nil
}

// notForSingletons names an option that is set and would have no effect for a
// singleton, or would harm it: options that drop the value between turns would leave
// its tasks running beside those of the next instance.
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
		{s.decide != nil, "Supervise: a singleton that panics is started again (tune it by WithSingletonOptions)"},
		{s.backoff != plain.backoff || s.backoffMost != plain.backoffMost, "RestartBackoff: set SingletonOptions.RestartBackoff by WithSingletonOptions"},
	} {
		if o.set {
			return o.why
		}
	}
	return ""
}
