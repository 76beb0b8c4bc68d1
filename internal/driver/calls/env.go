package calls

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/driver/routing"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// AllLanes stands for every lane of a process.
const AllLanes = -1

// A Session is the session with another process on one lane.
type Session interface {
	shardhost.Session
	// Post appends an envelope that is not a call, and publishes it.
	Post(e *wire.Envelope)
	// AckSoon acknowledges handled envelopes with little delay.
	AckSoon()
	// Find returns an envelope that the peer has not acknowledged. It reports false if
	// there is none with that sequence number.
	Find(seq uint64) (wire.Envelope, bool)
	// Void withdraws an envelope that certainly did not arrive. It reports whether it could.
	Void(seq uint64) bool
	// SaidGoodbye reports whether the peer has ended the session in order.
	SaidGoodbye() bool
	// Dropped reports whether the peer has dropped its side of the session.
	Dropped() bool
}

// A Shard is a shard that the process hosts; see the methods of shardhost.Shard.
type Shard interface {
	Cancel(from transport.Address, entity string, id uint64) (waited bool)
	Dismiss()
	Flush(f region.Flush)
	Flushed(f region.Flush)
	Forget(departed func(transport.Address) bool)
	Holds() bool
	OpenBarriers(departed func(transport.Address) bool)
	Place(home transport.Address, epoch placement.Epoch, term uint32)
	Return(c *shardhost.Call, died bool)
	// MoveStep handles an envelope of the shard's move. It reports false for one that is
	// no such step.
	MoveStep(from shardhost.Session, e *wire.Envelope) bool
	// Needed reports whether a process that leaves waits for the shard.
	Needed() bool
}

// Left is what remains of a session that was closed.
type Left struct {
	Session        Session
	Lane           int
	Unacknowledged []stream.Unacknowledged
	Stopped        []*routing.Route // routes that wait for the peer's acknowledgement
}

// An Env is the process of a Plane. Its methods must not block.
type Env interface {
	Self() transport.Peer
	// Calls returns the calls that wait for their answers.
	Calls() *Table
	// Table returns the latest table; nil if none has arrived.
	Table() *placement.Table

	// Route returns the route of a shard; nil if the process knows no such shard.
	Route(kind []byte, shard uint32) *routing.Route
	// EachRoute calls f for the routes of a lane, or of all lanes.
	EachRoute(lane int, f func(*routing.Route))
	// Shard returns a shard of the process. It reports false if it does not host the type,
	// or if the type has no such shard.
	Shard(kind []byte, shard uint32) (Shard, bool)
	// EachShard calls f for the shards of a lane, or of all lanes.
	EachShard(lane int, f func(Shard))
	// Returned makes a call of an envelope forwarded on that lane before.
	Returned(e *wire.Envelope, lane int) *shardhost.Call

	// Session returns the session with a process. It reports false if the process was removed.
	Session(to transport.Peer, lane int) (Session, bool)
	// Peers returns the processes with which there are sessions.
	Peers() []transport.Address
	// Close closes the session with a process on a lane, or all sessions and for good. bye
	// says that the process has said goodbye. Close reports false if the process was removed
	// before.
	Close(a transport.Address, lane int, bye bool) (left []Left, ok bool)
	// Renew replaces a session that the peer has dropped by a new one, and closes the old one. next
	// is nil if the peer has departed, and left is nil if the session was replaced before.
	Renew(s Session) (next Session, left *Left)
	// Part says goodbye to a process that most likely does not exist any more.
	Part(a transport.Address)
	// MarkLeft notes that a process has left in order. Parted reports whether one has left, or
	// was removed.
	MarkLeft(a transport.Address)
	Parted(a transport.Address) bool
	// Forgive lets a process that was removed have sessions again.
	Forgive(a transport.Address)

	// After calls f once, after d, unless the process has ended by then.
	After(d time.Duration, f func())

	Count(Counter)
	// Refused counts a call from another process that was not taken, and is answered with the code.
	Refused(wire.Code)
	// Lost counts a call or a tell that was lost. Its caller, if one waits, is answered by
	// the Plane.
	Lost(e *wire.Envelope, how Loss)
	// TellRefused counts a tell refused by from, or a refused call without a waiting caller.
	TellRefused(from Session, e *wire.Envelope)
	// Renewed logs that a peer had dropped a session. lost is how many calls that were sent
	// on it have failed with an unknown outcome.
	Renewed(left *Left, lost int)
}

// A Counter is one of the counters of a process, which [Env.Count] raises by one.
type Counter uint8

// The counters.
const (
	Ignored Counter = iota // an envelope had no shard, or nothing to refer to
	NoPeer                 // an envelope was for a process that has departed
	Retried                // a call is sent again, or runs here after it had been forwarded
)

// A Loss says how a call or a tell was lost.
type Loss uint8

// The ways in which a call or a tell is lost.
const (
	LostUnacknowledged Loss = iota // the process that it was sent to has departed; it may have run
	LostForwarded                  // it was forwarded to a process that has departed; it may have run
	LostRefused                    // it was forwarded, and its home refused it
)

// String describes the loss.
func (l Loss) String() string {
	return [...]string{"sent to a process that is gone", "forwarded to a process that is gone", "forwarded, and refused"}[l]
}
