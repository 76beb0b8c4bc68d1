package singleton

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// An Input is an event for a [Manager]: [View], [Receive],
// [InstanceStarted], [InstanceStopped], [LeaseAcquired], [LeaseDenied],
// [LeaseLost], [LeaseReleased], [Quit] or [Tick].
type Input interface{ input() }

// View is the cluster as membership sees it now. It replaces the last one.
type View struct{ Members []Member }

// A Member is one member, as far as the manager needs to know it.
type Member struct {
	Address  transport.Address
	Status   Status
	UpNumber uint64 // age: the lower the older; 0 until the member was Up
	Roles    []string
}

// Receive is a message from another manager.
type Receive struct {
	From    transport.Address
	Message Message
}

// InstanceStarted: what StartInstance asked for has begun to run.
type InstanceStarted struct{}

// InstanceStopped answers StopInstance, or tells that the instance ended by
// itself or could not be started. Nothing of it runs any more.
type InstanceStopped struct {
	// Handed: its state and the calls that waited are on their way to
	// Output.Successor.
	Handed bool
	Reason string // why it stopped by itself, for people
}

// LeaseAcquired and LeaseDenied answer AcquireLease; LeaseLost tells that a
// lease that was acquired is over, or is about to be; LeaseReleased answers
// ReleaseLease, also when releasing failed: then the lease ends by itself.
type (
	LeaseAcquired struct{}
	LeaseDenied   struct {
		RetryAfter time.Duration // asking earlier is useless; 0: not known
		Reason     string        // for people
	}
	LeaseLost     struct{}
	LeaseReleased struct{}
)

// Quit says that this node is about to leave and that nobody is there to hand
// over to: the instance stops for good.
type Quit struct{}

// Tick says that WakeAt has come, or merely that time passed.
type Tick struct{}

func (View) input() {}

func (Receive) input() {}

func (InstanceStarted) input() {}

func (InstanceStopped) input() {}

func (LeaseAcquired) input() {}

func (LeaseDenied) input() {}

func (LeaseLost) input() {}

func (LeaseReleased) input() {}

func (Quit) input() {}

func (Tick) input() {}

// Output has the actions to be taken, in this order.
type Output struct {
	AcquireLease  bool // answer with LeaseAcquired or LeaseDenied
	StartInstance bool // answer with InstanceStarted, or InstanceStopped
	// Epoch is the one to start under. With StopInstance and a Successor it is the
	// one under which that will start.
	Epoch placement.Epoch
	// Predecessor, with StartInstance, has said that the state and the waiting
	// calls of the former instance follow from there; zero: nothing follows.
	Predecessor  transport.Address
	StopInstance bool // answer with InstanceStopped when it has ended
	// Successor, with StopInstance, takes over; zero: nobody does yet.
	Successor    transport.Address
	ReleaseLease bool // answer with LeaseReleased
	Send         []Envelope
	Events       []Event
	WakeAt       time.Time // of the next Step if nothing happens before; zero: none
}

// An Envelope is a message to another node.
type Envelope struct {
	To      transport.Address
	Message Message
}

// An Event tells of a change, to be logged.
type Event struct {
	State State             // the state after it
	Peer  transport.Address // whom it concerns; may be zero
	What  string            // for people
	Stuck bool              // it should worry an operator
}

// candidate reports whether the instance may run on the member. One that leaves
// before it was ever Up has no age.
func (o Member) candidate(role string, handOverAt Status) bool {
	stays := o.Status == Up || o.Status == Leaving && handOverAt == Exiting
	return stays && o.UpNumber > 0 && o.has(role)
}

func (o Member) has(role string) bool { return role == "" || slices.Contains(o.Roles, role) }

// olderThan orders members by age, then address.
func (o Member) olderThan(p Member) bool {
	if o.UpNumber != p.UpNumber {
		return o.UpNumber < p.UpNumber
	}
	return o.Address.Compare(p.Address) < 0
}

// oldest is the member that the instance belongs to.
func (v View) oldest(role string, handOverAt Status) transport.Address {
	var first Member
	for _, o := range v.Members {
		if o.candidate(role, handOverAt) && (first.Address.IsZero() || o.olderThan(first)) {
			first = o
		}
	}
	return first.Address
}

func (View) proxyInput() {}

func (Receive) proxyInput() {}

func (Tick) proxyInput() {}
