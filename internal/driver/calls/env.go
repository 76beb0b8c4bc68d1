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

// AllLanes, as a lane number, means every lane of a process.
const AllLanes = -1

// A Session is the session with another process on one lane.
type Session interface {
	shardhost.Session
	// Post appends an envelope that is not a call, and publishes it.
	Post(e *wire.Envelope)
	// AckSoon acknowledges handled envelopes after a short delay.
	AckSoon()
	// Find returns the envelope with that sequence number. It reports false if the peer has
	// acknowledged the envelope, or if there is none.
	Find(seq uint64) (wire.Envelope, bool)
	// Void withdraws an envelope that certainly did not arrive. It reports false if the envelope may
	// have arrived.
	Void(seq uint64) bool
	// SaidGoodbye reports whether the peer has ended the session gracefully.
	SaidGoodbye() bool
	// Dropped reports whether the peer has dropped its state of the session.
	Dropped() bool
}

// A Shard is a shard that the process hosts. shardhost.Shard documents the methods.
type Shard interface {
	Cancel(from transport.Address, entity string, id uint64) (waited bool)
	Depart(departed func(transport.Address) bool, died bool, back []region.Returned)
	Dismiss()
	Flush(f region.Flush)
	Flushed(f region.Flush)
	Holds() bool
	OpenBarriers(departed func(transport.Address) bool)
	Place(home transport.Address, epoch placement.Epoch, term uint32)
	// MoveStep handles an envelope of the protocol that moves shards. It reports false for any other
	// envelope.
	MoveStep(from shardhost.Session, e *wire.Envelope) bool
	// Needed reports whether a leaving process waits for the shard.
	Needed() bool
	// Owes reports whether a sender whose calls the shard forwarded must still send a Flush.
	Owes() bool
}

// Left is what a closed session leaves behind: its unacknowledged envelopes.
type Left struct {
	Session        Session
	Lane           int
	Unacknowledged []stream.Unacknowledged
	Stopped        []*routing.Route // routes that waited for the peer's acknowledgements
}

// An Env is what a Plane needs from its process. The methods must not block.
type Env interface {
	Self() transport.Peer
	// Calls returns the calls that wait for their answers.
	Calls() *Table
	// Table returns the latest shard table; nil if none has arrived.
	Table() *placement.Table

	// Route returns the route of a shard; nil if the process knows no such shard.
	Route(kind []byte, shard uint32) *routing.Route
	// EachRoute calls f for the routes of a lane, or of all lanes if lane is AllLanes.
	EachRoute(lane int, f func(*routing.Route))
	// Shard returns a shard of the process. It reports false if the process does not host the type,
	// or if the type has no such shard.
	Shard(kind []byte, shard uint32) (Shard, bool)
	// EachShard calls f for the shards of a lane, or of all lanes if lane is AllLanes.
	EachShard(lane int, f func(Shard))
	// Returned makes a call from an envelope that this process forwarded on the lane. The envelope
	// came back, because its receiver departed without handling it.
	Returned(e *wire.Envelope, lane int) *shardhost.Call

	// Session returns the session with a process. It reports false if the process was removed.
	Session(to transport.Peer, lane int) (Session, bool)
	// Peers returns the processes with which this process has sessions.
	Peers() []transport.Address
	// Close closes the session with a process on one lane. If lane is AllLanes, it closes all
	// sessions, and the process gets no new ones. bye means that the process has said goodbye.
	// Close reports false if the process was already removed.
	Close(a transport.Address, lane int, bye bool) (left []Left, ok bool)
	// Renew closes a session that the peer has dropped, and begins a new one. next is nil if the
	// peer has departed, and left is nil if the session was already replaced.
	Renew(s Session) (next Session, left *Left)
	// Part sends a goodbye to a process that has probably ended.
	Part(a transport.Address)
	// MarkLeft records that a process has left gracefully. Parted reports whether a process has left
	// or was removed.
	MarkLeft(a transport.Address)
	Parted(a transport.Address) bool
	// Unacknowledged returns a function that reports whether any reachable peer has yet to
	// acknowledge an envelope appended before the call of Unacknowledged.
	Unacknowledged() func() bool
	// StopReceiving makes the process handle no more envelopes, except answers and refusals.
	// Acknowledgements still count. It returns when the frames that arrived before are handled.
	StopReceiving()
	// Forgive lets this process have sessions with a removed process again.
	Forgive(a transport.Address)

	Now() time.Time
	// After calls f once, after d, unless the process has ended by then.
	After(d time.Duration, f func())

	Count(Counter)
	// Refused counts a call from another process that is refused with the code.
	Refused(wire.Code)
	// Lost counts a lost tell. Of a lost call the Plane answers the caller, if one waits.
	Lost(e *wire.Envelope, how Loss)
	// TellRefused counts a tell that the session's peer refused, or a refused call whose caller has
	// stopped waiting.
	TellRefused(from Session, e *wire.Envelope)
	// Renewed logs that a peer had dropped a session. lost is the number of the session's calls
	// that have failed with an unknown outcome.
	Renewed(left *Left, lost int)
}

// A Counter names a counter of the process. [Env.Count] adds one to it.
type Counter uint8

// The events that package calls counts.
const (
	Ignored Counter = iota // envelopes for unknown shards, or without effect
	NoPeer                 // envelopes for a process that has departed
	Retried                // calls that are sent again, or run here after they had been forwarded
)

// A Loss says how a call or a tell was lost.
type Loss uint8

// The ways in which a call or a tell is lost.
const (
	LostUnacknowledged Loss = iota // sent to a process that has departed; it may have run
	LostForwarded                  // forwarded to a process that has departed; it may have run
	LostRefused                    // forwarded, and refused by the home
)

// String returns a description of the loss.
func (l Loss) String() string {
	return [...]string{"sent to a process that is gone", "forwarded to a process that is gone", "forwarded, and refused"}[l]
}
