package shard

import "time"

// SingletonOptions configures a singleton, with [WithSingletonOptions]. The zero value of each field is
// its default. Members may differ, except in Lease.
//
// To limit a singleton to members with a role, use [HostRole].
type SingletonOptions struct {
	// Lease guards the instance by a lease in Config.Store: it runs only while its node
	// holds the lease, which is given back when the instance has stopped. So there is at most one
	// instance even if the cluster splits and both halves go on. While the store
	// cannot be reached, there is none. Default false: downing and fencing alone keep the
	// instance unique.
	Lease bool
	// LeaseTTL is the time after which a crashed node's lease ends. Default 20s, minimum 100ms; the
	// store may ask for more. If the lease cannot be renewed, the instance is told to stop a tenth
	// of this time before the lease ends.
	LeaseTTL time.Duration
	// LeaseRetry is the time between two attempts to get the lease. Default 1s
	// (Akka's is 5s), minimum 10ms.
	LeaseRetry time.Duration
	// HandoffRetry is the interval of messages to a former oldest member that has not confirmed its
	// instance's end. Default 200ms (Akka's is 1s), minimum 10ms.
	HandoffRetry time.Duration
	// MaxHandoffRetries is the number of such messages before the log warns about a stuck handoff.
	// The handoff is still waited for. Default 15, as in Akka; minimum 1.
	MaxHandoffRetries int
	// RemovalMargin is how long the next instance waits after the removal of a former oldest member
	// that never confirmed its instance's end. Default 0, because a member is removed only when it
	// can run no more turns. Raise it where tasks may outlast their contexts. It must not be below
	// 0.
	RemovalMargin time.Duration
	// RestartBackoff is the pause before an instance that died is started again. It
	// doubles with each death up to MaxRestartBackoff, and starts over after an instance
	// has lived for StableAfter. Defaults 100ms, 10s and 30s; none below 0, and
	// MaxRestartBackoff not below RestartBackoff.
	RestartBackoff, MaxRestartBackoff, StableAfter time.Duration
}

// WithSingletonOptions configures a singleton. It is refused with [ErrNotSingleton] for other
// types. Options for types with shards are refused for a singleton; [HostRole], [Proxy],
// [Intercept], [MaxMailboxCalls] and [StopTimeout] work for both.
func WithSingletonOptions(s SingletonOptions) HostOption {
	return func(h *hostSettings) { h.single, h.singleSet = s, true }
}

const (
	defaultLeaseTTL   = 20 * time.Second
	minSingletonRetry = 10 * time.Millisecond
)
