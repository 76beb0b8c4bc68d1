package singleton

import (
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// Output has the actions to be taken, in this order.
type Output struct {
	AcquireLease  bool            // answer with LeaseAcquired or LeaseDenied
	StartInstance bool            // answer with InstanceStarted, or InstanceStopped
	Epoch         placement.Epoch // of the instance to be started
	// Predecessor, with StartInstance, is the node that announced the state and the
	// waiting calls of the former instance; zero means none will arrive.
	Predecessor transport.Address
	// Relay, with StartInstance, means that the state and the calls are kept for the
	// Successor of the StopInstance that follows: no instance begins.
	Relay        bool
	StopInstance bool // answer with InstanceStopped when it has ended
	// Successor, with StopInstance, is the node that takes over; zero means none is
	// known yet.
	Successor      transport.Address
	SuccessorEpoch placement.Epoch // of the successor's instance
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

// An Event is a change that is to be logged.
type Event struct {
	State State             // the state after it
	Peer  transport.Address // the node that it is about; may be zero
	What  string            // text for operators
	Stuck bool              // an operator should look at it
}
