package singleton

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// An Input is an event for a [Manager]: [View], [Receive],
// [Arrived], [InstanceStarted], [InstanceStopped], [LeaseAcquired],
// [LeaseDenied], [LeaseLost], [LeaseReleased], [Quit] or [Tick].
type Input interface{ input() }

// View is the present view of the cluster. It replaces the previous View.
type View struct{ Members []Member }

// A Member has the properties of a member that managers and proxies need.
type Member struct {
	Address  transport.Address
	Status   membership.Status
	UpNumber uint32 // lower is older; 0 until the member was Up
	Roles    []string
}

// candidate reports whether the instance may run on the member. A member that leaves before it was
// Up has no age, and is no candidate.
func (o Member) candidate(role string, handoffAt membership.Status) bool {
	stays := o.Status == membership.Up || o.Status == membership.Leaving && handoffAt == membership.Exiting
	return stays && o.UpNumber > 0 && o.has(role)
}

func (o Member) has(role string) bool { return role == "" || slices.Contains(o.Roles, role) }

func (o Member) olderThan(p Member) bool {
	if o.UpNumber != p.UpNumber {
		return o.UpNumber < p.UpNumber
	}
	return o.Address.Compare(p.Address) < 0
}

func (v View) oldest(role string, handoffAt membership.Status) transport.Address {
	var first Member
	for _, o := range v.Members {
		if o.candidate(role, handoffAt) && (first.Address.IsZero() || o.olderThan(first)) {
			first = o
		}
	}
	return first.Address
}

// Receive is a message from a manager or a proxy.
type Receive struct {
	From    transport.Address
	Message Message
}

// Arrived reports that the state of the former instance has arrived here from the node From. If
// From was removed before its HandOverDone arrived, Arrived replaces that message.
type Arrived struct{ From transport.Address }

// InstanceStarted answers StartInstance: the instance has begun to run.
type InstanceStarted struct{}

// InstanceStopped answers StopInstance, or reports that the instance ended by itself or could not
// be started. No part of the instance runs any more.
type InstanceStopped struct {
	// Handed reports that the instance's state and the waiting calls were sent to
	// Output.Successor.
	Handed bool
	Reason string // why the instance stopped by itself
}

// LeaseAcquired and LeaseDenied answer AcquireLease. LeaseLost reports that the lease has ended or
// is about to end. LeaseReleased answers ReleaseLease, even if releasing failed, because the lease
// then expires.
type (
	LeaseAcquired struct{}
	LeaseDenied   struct {
		RetryAfter time.Duration // earlier requests are useless; 0 means not known
		Reason     string        // text for operators
	}
	LeaseLost     struct{}
	LeaseReleased struct{}
)

// Quit means that this node leaves and that no other node can take the instance. The manager then
// stops the instance for good.
type Quit struct{}

// Tick means that the time WakeAt has come, or that some time has passed.
type Tick struct{}

func (View) input()            {}
func (Receive) input()         {}
func (Arrived) input()         {}
func (InstanceStarted) input() {}
func (InstanceStopped) input() {}
func (LeaseAcquired) input()   {}
func (LeaseDenied) input()     {}
func (LeaseLost) input()       {}
func (LeaseReleased) input()   {}
func (Quit) input()            {}
func (Tick) input()            {}

// Output has the actions that the driver must take, in the order of the fields.
type Output struct {
	AcquireLease  bool            // answer with LeaseAcquired or LeaseDenied
	StartInstance bool            // answer with InstanceStarted, or InstanceStopped
	Epoch         placement.Epoch // the epoch of the instance to be started
	// Predecessor, with StartInstance, is the node that announced the former instance's state and
	// waiting calls; zero if none will arrive.
	Predecessor transport.Address
	// Relay, with StartInstance, means that no instance is started: the driver keeps the state and
	// the calls for the Successor of the next StopInstance.
	Relay        bool
	StopInstance bool // answer with InstanceStopped when it has ended
	// Successor, with StopInstance, is the node that takes the instance over; zero if none is known
	// yet.
	Successor      transport.Address
	SuccessorEpoch placement.Epoch // the epoch of the successor's instance
	ReleaseLease   bool            // answer with LeaseReleased
	Send           []Envelope
	Events         []Event
	WakeAt         time.Time // of the next Step if nothing happens before; zero means none
}

// An Envelope is a message to another node.
type Envelope struct {
	To      transport.Address
	Message Message
}

// An Event is a change that the driver logs.
type Event struct {
	State State             // the state after it
	Peer  transport.Address // the node that it is about; may be zero
	What  string            // text for operators
	Stuck bool              // an operator should look at it
}
