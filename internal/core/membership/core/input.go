package core

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// An Input is what the driver passes to a step of the machine: one of the types below.
type Input interface{ input() }

// Start begins joining. The driver passes it once, after the first ConnState.
type Start struct{}

// Tick means that the time Output.WakeAt has come, or that some time has passed.
type Tick struct{}

// Receive is a message that arrived for this node. Its own echoes and broadcasts arrive too.
type Receive struct {
	From    transport.Address // the sender, this node itself included
	Message message.Message   // the message
	// Server is the broker instance through which the message came; "" stands for the instance in
	// the last ConnState.
	Server string
	// Waited is how long the message stood in the driver's queue.
	Waited time.Duration
}

// Unreachable is the broker's answer to a message of this machine to Peer: nobody has subscribed
// there.
type Unreachable struct {
	Peer   transport.Address // the node that does not listen
	Server string            // the broker instance that answered; an answer of any but the present one is ignored
}

// Suspected means that another connection of this process learned from the broker that nobody
// listens at Peer. The report proves nothing: that connection and Peer may be at different servers,
// and the report has no defined order with this machine's messages. So the machine sends Peer a
// message of its own at once.
type Suspected struct{ Peer transport.Address }

// Asked answers a [Question].
type Asked struct {
	Question
	Listens bool // somebody listens for the member
}

// Vacant is the broker's answer to an [Output.Probe]: no Up member of the cluster has subscribed.
type Vacant struct{}

// Claimed answers an [Output.Claim]: the broker now directs probes to this node.
type Claimed struct{ Number uint64 } // the value of Output.Claim

// A Founding is the store's record of who founded the cluster.
type Founding struct {
	Founder transport.Address // the node that formed the cluster
	Node    transport.Address // the member that wrote the record
	Server  string            // the broker instance to which Node is connected
}

// FoundingAnswer is the answer to a [FoundingRequest].
type FoundingAnswer struct {
	Number   uint64   // of the request
	Founding Founding // the record that was read
	// Revision is the revision of the record read or written; 0 means there is none.
	Revision uint64
	Conflict bool   // the record was not written, because it had another revision
	Reason   string // why the outcome is not known; empty if it is
}

// ConnState is the state of the control connection. Server names the running broker
// instance; it changes when the same server is restarted.
type ConnState struct {
	Connected bool   // whether the control connection stands
	Server    string // the running instance; see above
	Alone     bool   // whether the broker has only this server, so that no node can be at another
	Name      string // of the server and its next instances, and no other server; empty if unknown
}

// Paused means that the driver's loop did not run for the time For, because the process
// was stopped or starved. The machine also detects late Ticks itself.
type Paused struct{ For time.Duration }

// Leave asks to leave in order. The member becomes Leaving, and Exiting only
// after [ExitReady].
type Leave struct{}

// ExitReady means that this node has nothing left to hand off.
type ExitReady struct{}

// DownNode is an operator's command to down a member: the given incarnation or, with incarnation 0,
// all incarnations of the name.
type DownNode struct{ Node transport.Address }

// Undeliverable means that a required message could not be delivered to a member: the driver has
// repeated the message up to its limit without an answer. The member is then quarantined: see
// Member.Quarantined.
type Undeliverable struct{ Peer transport.Address }

// LeaseAnswer is the answer to a [LeaseRequest].
type LeaseAnswer struct {
	Seq uint64 // of the request
	// Token is above 0 if the lease was taken. No other node can then take it for
	// the TTL, counted from the request.
	Token uint64
	// Held means that another side has the lease. If neither Token nor Held is set,
	// the store could not answer.
	Held   bool
	Reason string // why it was not taken
}

// MessageLimit is the size of the largest encoded message that the present connection accepts, in
// bytes. It is the driver's first input, and is repeated when the limit changes. There is no limit
// if Bytes is 0, or before the first MessageLimit.
type MessageLimit struct{ Bytes int }

func (Start) input()          {}
func (Tick) input()           {}
func (Receive) input()        {}
func (Unreachable) input()    {}
func (Suspected) input()      {}
func (Asked) input()          {}
func (ConnState) input()      {}
func (Vacant) input()         {}
func (Claimed) input()        {}
func (Paused) input()         {}
func (Leave) input()          {}
func (ExitReady) input()      {}
func (DownNode) input()       {}
func (Undeliverable) input()  {}
func (LeaseAnswer) input()    {}
func (MessageLimit) input()   {}
func (FoundingAnswer) input() {}
