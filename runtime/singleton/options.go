package singleton

import (
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/transport"
)

// Causes of errors about singletons; test with errors.Is.
var (
	// ErrNoInstance means that no instance of the singleton was found in time; the
	// error's text has the reason. Nothing ran.
	ErrNoInstance = errors.New("no instance of the singleton runs")
	// ErrNotSingleton means that the function or option is valid only for singletons (shard.Go:
	// also for pools).
	ErrNotSingleton = errors.New("not a singleton's turn")
)

// Options configure a user's singleton, with shard.Singleton. The zero value of each field is its
// default. Members may differ, except in Lease.
//
// To restrict a singleton to members with a role, use shard.HostRole.
type Options struct {
	// Lease makes the instance run only while its node holds a lease in Config.Store. The lease is
	// released when the instance has stopped. So there is at most one instance even if the cluster
	// splits and both halves go on, and no instance while the store cannot be reached. Default
	// false: downing and fencing alone keep the instance unique.
	Lease bool
	// LeaseTTL is the time after which a crashed node's lease ends. Default 20s, minimum 100ms; the
	// store may require more. If the lease cannot be renewed, the instance is stopped a tenth of
	// this time before the lease ends.
	LeaseTTL time.Duration
	// LeaseRetry is the time between two attempts to get the lease. Default 1s
	// (Akka's is 5s), minimum 10ms.
	LeaseRetry time.Duration
	// HandoffRetry is the interval of messages to a former oldest member that has not confirmed the
	// end of its instance. Default 200ms (Akka's is 1s), minimum 10ms.
	HandoffRetry time.Duration
	// MaxHandoffRetries is the number of messages (see HandoffRetry) after which a stuck handoff is
	// logged as a warning. The node goes on waiting, because before the former member's
	// confirmation or removal a second instance might run. Default 15, as in Akka, whose manager
	// restarts then; minimum 1.
	MaxHandoffRetries int
	// RemovalMargin is how long the next instance waits after the removal of a former oldest member
	// that never confirmed the end of its instance. Default 0, because a member is removed only
	// when it can run no more turns; minimum 0. Raise it if tasks may outlast their contexts.
	RemovalMargin time.Duration
	// RestartBackoff is the pause before an instance that stopped by itself is started again. It
	// doubles each time, up to MaxRestartBackoff, and is reset after an instance has run for
	// StableAfter. Defaults 100ms, 10s and 30s. None may be below 0, nor MaxRestartBackoff below
	// RestartBackoff.
	RestartBackoff, MaxRestartBackoff, StableAfter time.Duration
}

// WithDefaults returns the options with zero values replaced by the defaults.
func (o Options) WithDefaults() Options {
	if o.MaxHandoffRetries == 0 {
		o.MaxHandoffRetries = 15
	}
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&o.LeaseTTL, 20*time.Second)
	set(&o.LeaseRetry, time.Second)
	set(&o.HandoffRetry, 200*time.Millisecond)
	set(&o.RestartBackoff, 100*time.Millisecond)
	set(&o.MaxRestartBackoff, max(10*time.Second, o.RestartBackoff))
	set(&o.StableAfter, 30*time.Second)
	return o
}

// Validate returns an error that names the first field out of its bounds.
func (o Options) Validate() error {
	if o.MaxHandoffRetries < 0 {
		return fmt.Errorf("singleton.Options.MaxHandoffRetries is %d: want 0 for the default, or more", o.MaxHandoffRetries)
	}
	for _, d := range []struct {
		name       string
		got, least time.Duration
	}{
		{"LeaseTTL", o.LeaseTTL, store.MinTTL},
		{"LeaseRetry", o.LeaseRetry, minRetry},
		{"HandoffRetry", o.HandoffRetry, minRetry},
		{"RemovalMargin", o.RemovalMargin, 0},
		{"RestartBackoff", o.RestartBackoff, 0},
		{"MaxRestartBackoff", o.MaxRestartBackoff, o.RestartBackoff},
		{"StableAfter", o.StableAfter, 0},
	} {
		if d.got != 0 && d.got < d.least {
			return fmt.Errorf("singleton.Options.%s is %v: want at least %v", d.name, d.got, d.least)
		}
	}
	return nil
}

const minRetry = 10 * time.Millisecond

// Config holds a manager's settings. Name and Self must be set; zero values of other fields mean
// the defaults.
type Config struct {
	Name string            // of the singleton, the same on all nodes; 1 to 256 bytes
	Self transport.Address // the node that the manager runs on
	// Role restricts the singleton to members that have it. Default: all members.
	Role string
	// HandoffAt is the status at which a member gives the instance away: Exiting, as in Akka, or
	// Leaving, which delays the exit until the handoff. Default Exiting. An exiting member is
	// removed as soon as all members have seen it exiting, even if its instance still runs. So use
	// Exiting only for instances that may overlap with their successor for a moment: coordinators
	// (their terms are ordered) or instances with a lease.
	HandoffAt membership.Status
	Options
}

func (c Config) withDefaults() Config {
	if c.HandoffAt == membership.NoStatus {
		c.HandoffAt = membership.Exiting
	}
	c.Options = c.Options.WithDefaults()
	return c
}

func (c Config) validate() error {
	if c.Name == "" || len(c.Name) > maxNameBytes || c.Self.IsZero() {
		return fmt.Errorf("configure singleton %.64q: Name, of 1 to %d bytes, and Self must be set", c.Name, maxNameBytes)
	}
	if h := c.HandoffAt; h != membership.NoStatus && h != membership.Leaving && h != membership.Exiting {
		return fmt.Errorf("configure singleton %q: HandoffAt is %v (want leaving or exiting)", c.Name, h)
	}
	if err := c.Options.Validate(); err != nil {
		return fmt.Errorf("configure singleton %q: %w", c.Name, err)
	}
	return nil
}
