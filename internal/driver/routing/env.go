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

// A Session is the ordered way to another process, on the route's lane.
type Session interface {
	Peer() transport.Peer
	// Lock guards appending to the session, and Route.Core.LastSeq of the routes that
	// lead there. The methods named …Locked are called with it.
	Lock()
	Unlock()
	// DepartedLocked reports whether the peer has departed, so that nothing can be appended.
	// HasDeparted is the same for a caller without the lock.
	DepartedLocked() bool
	HasDeparted() bool
	// AckedLocked is the highest sequence number that the peer has acknowledged.
	AckedLocked() uint64
	// AppendLocked adds an envelope and returns its sequence number.
	AppendLocked(e *wire.Envelope) (uint64, error)
	// AwaitLocked has r.Acked called, without the lock, when the peer acknowledges more.
	AwaitLocked(r *Route)
	// Flush publishes appended envelopes. It takes the lock.
	Flush()
}

// A Local is a shard that is hosted by the process itself.
type Local interface {
	CloseBarrier(sender, via transport.Address, epoch placement.Epoch)
	Flush(region.Flush)
	// Enqueue takes a call that waited here, under the epoch in it, and answers it if it
	// cannot run.
	Enqueue(e *wire.Envelope)
	// Direct notes whether the process's calls come straight to the shard.
	Direct(on bool)
}

// Errors of a call that a route cannot hold.
var (
	ErrCalls      = errors.New("too many calls wait for homes")
	ErrBytes      = errors.New("calls that wait for homes have too many bytes")
	ErrUnbuffered = errors.New("no tell may wait for a home")
)

// A Carrier has the steps of one call's way that need its envelope. They are functions, so
// that a caller can keep the envelope on its stack.
type Carrier struct {
	// Here brings the envelope to the target, a shard of this process. It reports false if
	// the shard is no longer here, or the route has left the target meanwhile: the call
	// would then arrive behind the route's Flush.
	Here func(t *Target) (brought bool, err error)
	// AppendLocked appends the envelope to a session, whose lock is held.
	AppendLocked func(Session) (seq uint64, err error)
	// PublishUnlock arranges the publication of the session, and unlocks it.
	PublishUnlock func(Session)
}

// An Env is the process that a Route is in. Its methods may be called with Mu held or with a
// session's lock, unless they say otherwise. They must not call the route, and only Retry may
// block.
type Env interface {
	Self() transport.Peer
	// Now is the time, which never goes back.
	Now() time.Time
	// Session leads to a process. It reports false when that process was removed.
	Session(transport.Address) (Session, bool)
	// Known is Session for a process that this one has dealt with.
	Known(transport.Address) (Session, bool)
	// Local is the shard at this process. It reports false if it hosts none.
	Local() (Local, bool)
	// Ask asks for a home of the shard.
	Ask()
	// Waits reports whether a caller still waits for the answer to a call.
	Waits(id uint64) bool
	// Sent notes where an ask went; nil means to this process, or nowhere yet.
	Sent(id uint64, to Session, seq uint64)
	// Admit makes room for a call of size bytes to be held. The error says that there is none:
	// ErrCalls, ErrBytes or ErrUnbuffered.
	Admit(size int, tell bool) error
	// Held notes, without Mu, that the route was given one more call to hold, and asks for a home.
	// shed are the unsent calls given up for lack of room: the oldest or, where it may hold none,
	// the new one.
	Held(shed []stream.Outgoing)
	// Retry delays a Send, without Mu, after its n-th try: the route changed meanwhile, or the
	// shard is not where the route still says. The error ends the Send.
	Retry(n int) error
	// Expired counts a call that is not sent because nobody waits for it any more.
	Expired()
	// Unsent ends a call that could not be appended, and certainly did not run.
	Unsent(e *wire.Envelope, err error)
	// Taken counts calls that the route holds from now on. Released counts calls that it no longer
	// holds.
	Taken([]stream.Outgoing)
	Released([]stream.Outgoing)
}
