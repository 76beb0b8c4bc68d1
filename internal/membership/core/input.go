package core

import (
	"time"

	"github.com/shardgen/shardgen/internal/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// An Input is an event; see the types below.
type Input interface{ input() }

// Start begins joining. It comes once, after the first ConnState.
type Start struct{}

// Tick says that WakeAt has come, or merely that time passed.
type Tick struct{}

// Receive is a message that came for this node, its own echoes and broadcasts
// included.
type Receive struct {
	From    transport.Address // the sender, this node itself included
	Message message.Message   // what it says
	// Server is the broker instance through which it came; empty means the one
	// that the last ConnState named.
	Server string
	// Waited is how long the message stood in the driver's queue.
	Waited time.Duration
}

// Unreachable is the broker's answer to a message of this machine: nobody
// listens for Peer.
type Unreachable struct {
	Peer   transport.Address // who does not listen
	Server string            // the broker instance that answered; another one than now counts for nothing
}

// Vacant is the broker's word, in answer to a [Output.Probe], that no member of
// a formed cluster listens.
type Vacant struct{}

// ConnState says how the control connection stands now. Server names the running
// broker instance; it changes when the same server was restarted.
type ConnState struct {
	Connected bool   // whether the control connection stands
	Server    string // the running instance; see above
}

// Paused says that the driver's loop stood still: the process was stopped or
// starved, For so long. The machine notices late Ticks by itself too.
type Paused struct{ For time.Duration }

// Leave asks to leave in order. The member becomes Leaving, and Exiting only
// after [ExitReady].
type Leave struct{}

// ExitReady says that this node has nothing left to hand over.
type ExitReady struct{}

// DownNode is an operator's word that a member is dead: the given incarnation,
// or with incarnation 0 every one of that name.
type DownNode struct{ Node transport.Address }

// Undeliverable says that a message which had to arrive could not be delivered to
// a member: the driver has repeated it for as long as it may, and nothing came
// back. The member is quarantined: see Member.Quarantined.
type Undeliverable struct{ Peer transport.Address }

// Shutdown abandons the cluster without a word: nothing is sent from now on.
type Shutdown struct{}

// LeaseAnswer is the answer to a [LeaseRequest].
type LeaseAnswer struct {
	Seq uint64 // of the request
	// Token is above 0 if the lease was taken; then it was asked for in the request,
	// and nobody else can take it for the TTL.
	Token uint64
	// Held: another side has it. Otherwise Token is 0 because nobody could say.
	Held   bool
	Reason string // why it was not taken
}

// MessageLimit says how many bytes of an encoded message the present connection
// takes. The driver says so before anything else, and whenever it changes. 0, as
// before the first one: any number.
type MessageLimit struct{ Bytes int }

func (Start) input()         {}
func (Tick) input()          {}
func (Receive) input()       {}
func (Unreachable) input()   {}
func (ConnState) input()     {}
func (Vacant) input()        {}
func (Paused) input()        {}
func (Leave) input()         {}
func (ExitReady) input()     {}
func (DownNode) input()      {}
func (Undeliverable) input() {}
func (Shutdown) input()      {}
func (LeaseAnswer) input()   {}
func (MessageLimit) input()  {}
