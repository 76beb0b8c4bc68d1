package routing

import (
	"errors"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Session sends envelopes in order to another process, on the route's lane.
type Session interface {
	Peer() transport.Peer
	// Lock guards appending to the session, and Route.Core.LastSeq of routes that lead to its peer.
	// The methods named …Locked are called with this lock.
	Lock()
	Unlock()
	// DepartedLocked reports whether the peer has departed, so that nothing can be appended.
	// HasDeparted is DepartedLocked for callers without the lock.
	DepartedLocked() bool
	HasDeparted() bool
	// AckedLocked returns the highest sequence number that the peer has acknowledged.
	AckedLocked() uint64
	// AppendLocked adds an envelope and returns its sequence number.
	AppendLocked(e *wire.Envelope) (uint64, error)
	// AwaitLocked makes the session call r.Acked, without the lock, when the peer acknowledges more.
	AwaitLocked(r *Route)
	// Flush publishes appended envelopes. It takes the lock.
	Flush()
}

// A Local is a shard that this process hosts.
type Local interface {
	CloseBarrier(sender, via transport.Address, epoch placement.Epoch, departed bool)
	Flush(region.Flush)
	// Enqueue takes a call that has waited in the route, under the epoch that its envelope names.
	// It answers the call if the call cannot run.
	Enqueue(e *wire.Envelope)
	// Direct records whether this process's calls go straight to the shard.
	Direct(on bool)
}

// Errors of Env.Admit for a call that a route cannot hold.
var (
	ErrCalls      = errors.New("too many calls wait for the homes of their shards")
	ErrBytes      = errors.New("calls that wait for the homes of their shards have too many bytes")
	ErrUnbuffered = errors.New("no tell may wait for the home of its shard")
)

// A Carrier has the functions that send the envelope of one call. The route gets only the
// functions, so that the sender can keep the envelope on its stack.
type Carrier struct {
	// Here brings the envelope to the target t, a shard of this process. It reports false if the
	// shard is not here. It also reports false if the route has left t meanwhile: the call would
	// reach the shard after the route's Flush, which says that no more calls come.
	Here func(t *Target) (brought bool, err error)
	// AppendLocked appends the envelope to a session, whose lock is held.
	AppendLocked func(Session) (seq uint64, err error)
	// PublishUnlock publishes the session, perhaps later, and unlocks it.
	PublishUnlock func(Session)
}

// An Env is what a Route needs of its process. The methods may be called with Mu or a session's
// lock held, unless a method's comment says otherwise. They must not call the route. Only Retry may
// block.
type Env interface {
	Self() transport.Peer
	// Now returns the time, which never goes back.
	Now() time.Time
	// Session returns the session with a process, and makes it if necessary. It reports false if the
	// process was removed.
	Session(transport.Address) (Session, bool)
	// Known returns the session with a process. It makes none, and reports false if there is none.
	Known(transport.Address) (Session, bool)
	// Local returns the shard at this process. It reports false if this process does not host the
	// type.
	Local() (Local, bool)
	// Ask requests a home for the shard.
	Ask()
	// Waits reports whether a caller still waits for the answer to the call with that number.
	Waits(id uint64) bool
	// Sent records the session and the sequence number with which an ask was sent. to is nil if the
	// ask went to this process, or is not sent yet.
	Sent(id uint64, to Session, seq uint64)
	// Admit makes room for holding a call of size bytes. If there is no room, its error is ErrCalls,
	// ErrBytes or ErrUnbuffered.
	Admit(size int, tell bool) error
	// Held is called without Mu after the route has held one more call. It asks for a home. shed has
	// the held calls that were dropped to make room: the oldest one or, if the route may hold none,
	// the new one.
	Held(shed []stream.Outgoing)
	// Retry waits before a Send tries for the nth time. Earlier tries failed because the route
	// changed meanwhile, or because the shard was not where the route leads. An error of Retry ends
	// the Send. Retry is called without Mu.
	Retry(n int) error
	// Expired counts a call that is not sent because no caller waits for it any more.
	Expired()
	// Unsent ends a call that could not be appended to a session, so it certainly did not run.
	Unsent(e *wire.Envelope, err error)
	// Taken counts calls that the route takes back. Released counts calls that are no longer held.
	Taken([]stream.Outgoing)
	Released([]stream.Outgoing)
}
