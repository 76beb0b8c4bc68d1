package shardhost

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Session sends envelopes in order to another process, on the shard's lane. Its methods, except
// Flush, may be called with a shard's lock held.
type Session interface {
	Peer() transport.Peer
	// Append appends an envelope and returns its sequence number. The error is stream.ErrTooLarge
	// or, for a call or a tell, stream.ErrFull; any other error means that the peer has departed.
	Append(e *wire.Envelope) (seq uint64, err error)
	// AppendAll appends envelopes without other envelopes between them. It stops at the first
	// error.
	AppendAll(parts []*wire.Envelope) error
	// Flush publishes appended envelopes. It is unrelated to the Flush envelope of a move.
	Flush()
}

// A Host is the process that a Shard is in.
type Host interface {
	Clock
	Sessions
	Turns
	Control
}

// A Clock has the time of a process. All of its methods may be called with Mu held.
type Clock interface {
	Now() time.Time
	// Elapsed returns the time since the process's base in nanoseconds, the unit of Call.Deadline.
	Elapsed() int64
	// After calls f once, after d, without a lock, unless the process has ended by then.
	After(d time.Duration, f func())
}

// Sessions are a process's sessions on the shard's lane. All methods except Learn may be called
// with Mu held.
type Sessions interface {
	// Session returns the session with a process. It reports false if the process was removed.
	Session(to transport.Peer) (Session, bool)
	// Departed returns the processes that departed most recently. Nothing more comes from them.
	Departed() []transport.Address
	// HasDeparted reports whether that process has departed.
	HasDeparted(transport.Address) bool
	// Departs reports whether a process has departed and Shard.Depart will still be called for it.
	Departs(transport.Address) bool
	// MaxPayload returns the size of the largest message that the broker takes, in bytes.
	MaxPayload() int
	// Learn updates this process's route to the shard: its home and epoch.
	Learn(home transport.Address, epoch placement.Epoch)
}

// Turns run the turns of entities. A method is called without a lock unless it says otherwise.
type Turns interface {
	// Run runs the turn of an encoded call, which has begun. The host answers the call.
	Run(e *region.Entity, c *Call)
	// Grant wakes a waiting local caller: with the entity whose turn has begun for it, or with nil
	// if the caller must look for the shard's home again. Mu may be held.
	Grant(c *Call, e *region.Entity)
	// Lead runs the first turn after the shard has opened. The turn has already begun.
	Lead(e *region.Entity)
	// Release ends the back-offs of entities that failed, because the shard moves.
	Release()
	// Drained is called when the shard has no running turn any more, and makes another goroutine
	// call HandOff soon.
	Drained()
	// StopEntities runs the stop hooks of entities whose turns Core.Stop has begun, in order. Before
	// each hook it asks MayStop, and it stops when MayStop refuses. Then it calls done, with an
	// error if the shard's state must not leave.
	StopEntities(entities []*region.Entity, done func(error))
	// Changed is called with Mu held at the end of each Do. opened means that the shard now runs
	// here under a new epoch.
	Changed(opened bool)

	// Answer sends an answer to the call's sender, unless the call is a tell.
	Answer(c *Call, e *wire.Envelope)
	// Forwarded records that a call was appended to a session with the shard's next home. Mu is
	// held.
	Forwarded(c *Call, to Session, seq uint64)
	// LoseTell records that an accepted tell will not run. Mu may be held.
	LoseTell(c *Call)
	// Canceler returns a function that cancels the call's turn; nil if there is none. It is called
	// with Mu held, because the call may be reused after its turn. The function is called without
	// Mu.
	Canceler(c *Call) func()
	// InDoubt returns a function that answers another process's call with an unknown outcome, while
	// the call's turn still runs. InDoubt is called with Mu held, because the call may be reused
	// after its turn. The function is called without Mu.
	InDoubt(c *Call) func()
	// Why returns the text that tells the caller why its call was refused.
	Why(c *Call, v region.Verdict) string
}

// Control is a process's control plane and counters. All of its methods may be called with Mu held;
// they take effect later.
type Control interface {
	// Exiting reports whether the process takes no more shards.
	Exiting() bool
	// MoveDone reports that the shard runs here under the given epoch.
	MoveDone(placement.Epoch)
	// MoveAborted reports that a move from or to this process must be given up.
	MoveAborted(e placement.Epoch, reason string)
	// Progress reports a change of the shard. A leaving process or a new coordinator may wait for
	// it.
	Progress()
	// Carried returns what a leaving shard takes along beside its entities' states. At the new
	// home, Arrived gets it.
	Carried() Carried
	Arrived(Carried)
	// BarrierTimedOut reports that the Flush for a barrier did not come in time, so the calls
	// behind the barrier will run now.
	BarrierTimedOut(region.Shut)
	Count(Counter)
}

// A Counter is one of the process's counters. [Control.Count] adds one to it.
type Counter uint8

// The events that package shardhost counts.
const (
	CallForwarded Counter = iota
	CallRefused
	CallDropped
	CallCancelled
	MovedIn
	MovedOut
	NoPeer // an envelope had no session to go to
)
