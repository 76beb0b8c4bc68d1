package singleton

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// Config are a manager's settings. Name and Self must be set; other zero values mean
// the defaults. No duration and no number may be below 0.
type Config struct {
	Name string            // of the singleton, the same on all nodes; 1 to 256 bytes
	Self transport.Address // the node that the manager runs on
	// Role restricts the singleton to members that have it. Default: all members.
	Role string
	// HandoffAt is the status from which a member gives the instance away:
	// Exiting, as in Akka, or Leaving, so that it is given away before the member
	// may exit. Default Exiting. An exiting member is removed as soon as all have
	// seen it, whether or not its instance has stopped. Use Exiting only for
	// instances that may overlap with their successor for a moment, such as
	// coordinators, whose terms are ordered, or that have a lease.
	HandoffAt Status
	// RetryInterval is the time between two sendings of a message that was not
	// answered. Default 200ms (Akka's is 1s).
	RetryInterval time.Duration
	// MaxRetries is how often a message of the handoff is sent again before the
	// manager reports that it is stuck. It continues to send it, because without
	// the other side's confirmation or removal a second instance might run. Default
	// 15, as Akka's, which restarts the manager then.
	MaxRetries int
	// RemovalMargin is how long after its removal an older member that never
	// confirmed counts as running. Default 0, because removal follows fencing,
	// which has waited already; Akka's default is its stable-after.
	RemovalMargin time.Duration
	// RestartBackoff is the pause before an instance that stopped by itself is
	// started again; it doubles with each time up to MaxRestartBackoff. Defaults
	// 100ms and 10s.
	RestartBackoff, MaxRestartBackoff time.Duration
	// StableAfter is how long an instance has to run for the pause to begin anew.
	// Default 30s.
	StableAfter time.Duration
	// Lease makes the instance run only while this node holds the singleton's
	// lease.
	Lease bool
	// LeaseRetryInterval is the time between two attempts to acquire it. Default 1s
	// (Akka's is 5s).
	LeaseRetryInterval time.Duration
}

func (c Config) withDefaults() Config {
	if c.HandoffAt == 0 {
		c.HandoffAt = Exiting
	}
	if c.MaxRetries == 0 {
		c.MaxRetries = 15
	}
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&c.RetryInterval, 200*time.Millisecond)
	set(&c.RestartBackoff, 100*time.Millisecond)
	set(&c.MaxRestartBackoff, max(10*time.Second, c.RestartBackoff))
	set(&c.StableAfter, 30*time.Second)
	set(&c.LeaseRetryInterval, time.Second)
	return c
}

func (c Config) validate() error {
	if c.Name == "" || len(c.Name) > maxNameBytes || c.Self.IsZero() {
		return fmt.Errorf("configure singleton %.64q: Name, of 1 to %d bytes, and Self must be set", c.Name, maxNameBytes)
	}
	if h := c.HandoffAt; h != 0 && h != Leaving && h != Exiting {
		return fmt.Errorf("configure singleton %q: HandoffAt is %v (want leaving or exiting)", c.Name, h)
	}
	if c.MaxRetries < 0 {
		return fmt.Errorf("configure singleton %q: MaxRetries is negative (0 means the default)", c.Name)
	}
	for _, d := range []time.Duration{c.RetryInterval, c.RemovalMargin, c.RestartBackoff, c.MaxRestartBackoff, c.StableAfter, c.LeaseRetryInterval} {
		if d < 0 {
			return fmt.Errorf("configure singleton %q: a duration is negative (0 means the default)", c.Name)
		}
	}
	if c.MaxRestartBackoff != 0 && c.MaxRestartBackoff < c.RestartBackoff {
		return fmt.Errorf("configure singleton %q: MaxRestartBackoff %v is below RestartBackoff %v", c.Name, c.MaxRestartBackoff, c.RestartBackoff)
	}
	return nil
}
