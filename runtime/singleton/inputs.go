package singleton

import (
	"time"

	"github.com/shardgen/shardgen/transport"
)

// An Input is an event for a [Manager]: [View], [Receive],
// [Arrived], [InstanceStarted], [InstanceStopped], [LeaseAcquired],
// [LeaseDenied], [LeaseLost], [LeaseReleased], [Quit] or [Tick].
type Input interface{ input() }

// Receive is a message from a manager or a proxy.
type Receive struct {
	From    transport.Address
	Message Message
}

// Arrived reports that the state of the former instance is here, which From has handed over
// to this node. It stands for a HandOverDone that got lost before From was removed.
type Arrived struct{ From transport.Address }

// InstanceStarted answers StartInstance: the instance has begun to run.
type InstanceStarted struct{}

// InstanceStopped answers StopInstance, or reports that the instance ended by itself or
// could not be started. Nothing of it runs any more.
type InstanceStopped struct {
	// Handed reports that the instance's state and the waiting calls were sent to
	// Output.Successor.
	Handed bool
	Reason string // the reason why it stopped by itself
}

// LeaseAcquired and LeaseDenied answer AcquireLease; LeaseLost reports that a lease
// that was acquired has ended, or is about to; LeaseReleased answers ReleaseLease, also
// when releasing failed: then the lease ends by itself.
type (
	LeaseAcquired struct{}
	LeaseDenied   struct {
		RetryAfter time.Duration // asking earlier is useless; 0 means not known
		Reason     string        // text for operators
	}
	LeaseLost     struct{}
	LeaseReleased struct{}
)

// Quit means that this node is about to leave and that no node is left to hand off to:
// the instance stops permanently.
type Quit struct{}

// Tick means that WakeAt has been reached, or merely that time has passed.
type Tick struct{}

func (Receive) input() {}

func (Arrived) input() {}

func (InstanceStarted) input() {}

func (InstanceStopped) input() {}

func (LeaseAcquired) input() {}

func (LeaseDenied) input() {}

func (LeaseLost) input() {}

func (LeaseReleased) input() {}

func (Quit) input() {}

func (Tick) input() {}

func (Receive) proxyInput() {}

func (Tick) proxyInput() {}
