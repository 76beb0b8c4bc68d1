package region

import (
	"iter"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Call is an ask or a tell that waits for a turn, or has one. Its exported fields are set once,
// before Deliver, except Full and Epoch, which the Shard may set. Small fields are adjacent to save
// memory, because many calls may wait.
type Call struct {
	Entity string
	// Sender is the process that made the call; the order of its calls is kept.
	Sender transport.Peer
	// Gateway is the caller in another language for which the sender makes the call; "" means none.
	Gateway string
	// Via is the old home that forwarded the call; zero if it came directly.
	Via   transport.Address
	Epoch placement.Epoch // of the latest placement that the sender knows, unless the call was forwarded
	// Chain has the turns that wait for this call; nil means none.
	Chain Chain
	// Size is how many bytes are kept for the call while it waits.
	Size int
	// Driver is for the driver alone.
	Driver any

	next  *Call
	at    time.Time
	along *departure // the destination of its sender's Flush, if the call is sent ahead of the Flush; else nil

	// Straight reports that Via, the forwarding home, got the call directly from its sender.
	Straight bool
	// Local calls run on their caller's goroutine and cannot be forwarded: when the shard moves,
	// the caller has to look for the new home.
	Local bool
	// Full is the bound that refused the call, when Deliver says Overloaded.
	Full Bound
	held bool // Size is reserved
}

// SentTo reports whether the call's sender sent the call to the given home. The home may have
// forwarded the call since, and got it back.
func (c *Call) SentTo(home transport.Address) bool {
	return c.Via.IsZero() || c.Via == home && c.Straight
}

// A Chain is the chain of nested calls that led to a call: the turns that wait for its answer.
type Chain interface {
	// HoldsShard reports whether one of the turns is in the given shard.
	HoldsShard(placement.ShardID) bool
	// HoldsEntity reports whether one of the turns is the given entity's.
	HoldsEntity(s placement.ShardID, entity string) bool
}

// queue is a FIFO list of calls. A nil queue is empty and read-only.
type queue struct {
	last     *Call  // the last call; its next is the first call, so a queue needs only one pointer
	n, bytes uint32 // the number of calls and the sum of their sizes; small types, because each entity has a queue
}

func (q *queue) len() int {
	if q == nil {
		return 0
	}
	return int(q.n)
}

func (q *queue) size() int {
	if q == nil {
		return 0
	}
	return int(q.bytes)
}

// all yields the calls in order. The caller must not add or remove calls meanwhile.
func (q *queue) all() iter.Seq[*Call] {
	return func(yield func(*Call) bool) {
		if q.len() == 0 {
			return
		}
		for c := q.last.next; yield(c) && c != q.last; c = c.next {
		}
	}
}

func (q *queue) push(c *Call) {
	if q.last == nil {
		c.next = c
	} else {
		c.next, q.last.next = q.last.next, c
	}
	q.last = c
	q.n++
	q.bytes += uint32(c.Size)
}

func (q *queue) pop() *Call {
	if q.len() == 0 {
		return nil
	}
	c := q.last.next
	if c == q.last {
		q.last = nil
	} else {
		q.last.next = c.next
	}
	c.next = nil
	q.n--
	q.bytes -= uint32(c.Size)
	return c
}

func (q *queue) take(o *queue) {
	if o.len() == 0 {
		return
	}
	if q.last != nil {
		q.last.next, o.last.next = o.last.next, q.last.next
	}
	q.last = o.last
	q.n += o.n
	q.bytes += o.bytes
	*o = queue{}
}

// lower limits the epochs of the calls that the given function accepts to the given maximum. It
// reports whether any epoch changed.
func (q *queue) lower(to placement.Epoch, is func(*Call) bool) (any bool) {
	for c := range q.all() {
		if c.Epoch > to && is(c) {
			c.Epoch, any = to, true
		}
	}
	return any
}

func (q *queue) filter(drop func(*Call) bool) []*Call {
	if q.len() == 0 {
		return nil
	}
	var kept queue
	var out []*Call
	for c := q.pop(); c != nil; c = q.pop() {
		if drop(c) {
			out = append(out, c)
		} else {
			kept.push(c)
		}
	}
	*q = kept
	return out
}

// A Verdict is the outcome of delivering a call.
type Verdict uint8

// The verdicts on a delivered call.
const (
	Run        Verdict = iota // its turn has begun; End must follow
	Queued                    // the call waits; a later Effects has it
	Moved                     // this node is not the shard's home; Home and Epoch name it
	Forward                   // send it on to Successor: the shard, or calls that must run first, have left
	Overloaded                // there is no room for the call to wait: Call.Full says where
	Shed                      // the shard is moving, and its type's handoff drops calls
	Circular                  // the call's chain holds the entity's turn: the call would wait for itself
)

// String returns the name of the verdict.
func (v Verdict) String() string {
	switch v {
	case Run:
		return "run"
	case Queued:
		return "queued"
	case Moved:
		return "moved"
	case Forward:
		return "forward"
	case Overloaded:
		return "overloaded"
	case Shed:
		return "shed"
	case Circular:
		return "circular"
	}
	return "unknown"
}
