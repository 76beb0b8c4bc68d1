package shardhost

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Session is the ordered way to another process, on the shard's lane. Its methods may be
// called with a shard's lock held, but for Flush.
type Session interface {
	Peer() transport.Peer
	// Append adds an envelope behind those before it and returns its sequence number. The
	// error is stream.ErrTooLarge, for a call or a tell also stream.ErrFull, or says that the
	// peer has departed.
	Append(e *wire.Envelope) (seq uint64, err error)
	// AppendAll adds envelopes with nothing between them. It ends at the first error.
	AppendAll(parts []*wire.Envelope) error
	// Flush publishes appended envelopes. It has nothing to do with the Flush of a move.
	Flush()
}

// A Host is the process of a Shard, as the shard needs it.
type Host interface {
	Clock
	Sessions
	Turns
	Control
}

// A Clock is a process's time. All of its methods may be called with Mu held.
type Clock interface {
	Now() time.Time
	// Elapsed is the time since the process's base in nanoseconds, as Call.Deadline has it.
	Elapsed() int64
	// After calls f once, after d, without a lock, unless the process has ended by then.
	After(d time.Duration, f func())
}

// Sessions are a process's ways to others on the shard's lane. All methods but Learn may be
// called with Mu held.
type Sessions interface {
	// Session leads to a process. It reports false when that process was removed.
	Session(to transport.Peer) (Session, bool)
	// Departed are the latest processes from which nothing comes any more.
	Departed() []transport.Address
	// HasDeparted reports whether nothing comes from that process any more.
	HasDeparted(transport.Address) bool
	// MaxPayload is the largest message that the broker takes, in bytes.
	MaxPayload() int
	// Learn tells the process's own route where the shard is.
	Learn(home transport.Address, epoch placement.Epoch)
}

// Turns run the entities. Unless a method says otherwise, it is called without a lock.
type Turns interface {
	// Run runs an already begun turn for an encoded call. The host answers the call.
	Run(e *region.Entity, c *Call)
	// Grant ends the wait of a local caller: with its turn, which has begun, or with nil to
	// have it look for the shard's home anew. Mu may be held.
	Grant(c *Call, e *region.Entity)
	// Lead runs the shard's first turn after it opened; that turn has begun.
	Lead(e *region.Entity)
	// Release ends the turns that hold entities back after a failure, for the shard moves.
	Release()
	// Drained arranges that HandOff is called soon, on another goroutine.
	Drained()
	// StopEntities runs the stop hooks of entities whose turns Core.Stop began, in order:
	// each after MayStop has allowed it, and none after MayStop has refused one. Then it
	// calls done, with an error if the state of the shard must not leave.
	StopEntities(entities []*region.Entity, done func(error))
	// Changed is called with Mu held at the end of each Do; opened says that the shard runs
	// here under a new epoch.
	Changed(opened bool)

	// Answer brings an answer to the call's sender, if it is no tell.
	Answer(c *Call, e *wire.Envelope)
	// Forwarded notes that a call was appended to a session, to follow the shard to its next
	// home. Mu is held.
	Forwarded(c *Call, to Session, seq uint64)
	// LoseTell notes that a tell was taken and will not run. Mu may be held.
	LoseTell(c *Call)
	// Canceler returns the function that cancels the turn of a call; nil if there is none. It
	// is called with Mu held, because the call may be reused once its turn has ended. The
	// function is called without Mu.
	Canceler(c *Call) func()
	// InDoubt returns the function for answering another process's call during its turn: nobody
	// will know how the turn ends. It is called with Mu held, and the function without Mu, for the
	// same reason as with Canceler.
	InDoubt(c *Call) func()
	// Why explains the verdict on a call to its caller.
	Why(c *Call, v region.Verdict) string
}

// Control is a process's control plane, and its records. All of its methods may be called
// with Mu held; their effects happen later.
type Control interface {
	// Exiting reports whether the process takes no shard any more.
	Exiting() bool
	// MoveDone: the shard runs here under that epoch.
	MoveDone(placement.Epoch)
	// MoveAborted: a move from or to this process must be given up.
	MoveAborted(e placement.Epoch, reason string)
	// Progress: others may wait for a change in the shard.
	Progress()
	// Remembered returns the remembered ids leaving with the shard, and Arrived takes the ids
	// coming with it.
	Remembered() RememberedIDs
	Arrived(RememberedIDs)
	// BarrierTimedOut: calls waited for a Flush that did not come, and will run now.
	BarrierTimedOut(region.Shut)
	Count(Counter)
}

// A Counter is one of the process's counters, which [Control.Count] raises by one.
type Counter uint8

// The counters.
const (
	CallForwarded Counter = iota
	CallRefused
	CallDropped
	CallCancelled
	MovedIn
	MovedOut
	NoPeer // an envelope had no peer to go to
)
