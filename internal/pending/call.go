package pending

import (
	"sync"
	"sync/atomic"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// A Result is how one try of a call ended.
type Result struct {
	Payload []byte
	Code    wire.Code
	Text    string
	Lost    transport.Address // the node that took the call is gone
}

// Expired is the code of a call whose time is over. It is never on the wire, like the
// codes above it, which belong to the Table's user.
const Expired wire.Code = 1 << 16

// A Caller is who waits at a place of the table, for one call after another.
type Caller interface {
	// Wake has the caller go on. It is called once for each call whose end Complete or an
	// equal brought about, must not block, and must not call the table.
	Wake()
}

// A Session is where a call was sent: to a peer, under a sequence number.
type Session interface{ Peer() transport.Peer }

// A Call is a place for a call that waits for its answer. It belongs to one call after
// another, for as long as the table lives.
type Call struct {
	Caller Caller        // made with the place
	id     atomic.Uint64 // 0: it is not in the table
	last   uint64        // the number of the last call that was here
	// over is when the call's time is over, in nanoseconds of the clock that Sweep has;
	// 0: its caller watches itself. Below 0 it is how long the call may take from
	// the next sweep on, which spares callers a look at the clock.
	over atomic.Int64
	res  Result // set before the caller is woken

	mu      sync.Mutex // guards what follows
	session Session    // the session it was last sent on; nil while it is held or local
	seq     uint64
}

// Result is how the call ended. It is for the caller, once it was woken.
func (c *Call) Result() *Result { return &c.res }

// Answer sets how the call ended, which Remove has taken out of the table. Who sets it
// wakes the caller then.
func (c *Call) Answer(r Result) { c.res = r }

// Over is when the call's time is over, as Open was given it and Sweep has seen it.
func (c *Call) Over() int64 { return c.over.Load() }

// Touch reads what an answer reads first, so that the processor fetches it.
func (c *Call) Touch() byte { return byte(c.id.Load()) }

// SentOn returns where the call went last; nil where it went to no peer.
func (c *Call) SentOn() (Session, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session, c.seq
}

// index is the number of the place in its table. It is for who has the place.
func (c *Call) index() int { return int(c.last % MaxCalls) }
