package shard

import (
	"sync"
	"sync/atomic"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// result is how one try of a call ended.
type result struct {
	payload []byte
	code    wire.Code
	text    string
	lost    transport.Address // the node that took the call is gone
}

// pendingCall is a call that waits for its answer. where is guarded by its
// shard of the table; the rest belongs to the caller.
type pendingCall struct {
	id    uint64
	done  chan result // holds one; whoever removes the call from the table fills it
	route *route
	path  *path // the path it was last sent on; nil while it is held or local
	seq   uint64
	over  int64 // nanoseconds after the plane's base; 0: the caller watches itself
}

// pendingShards divides the table so that callers do not meet at one lock.
const pendingShards = 64

// pendingTable finds the caller of an answer. It is safe for concurrent use.
type pendingTable struct {
	next   atomic.Uint64
	count  atomic.Int64
	shards [pendingShards]struct {
		mu    sync.Mutex
		calls map[uint64]*pendingCall
		_     [40]byte // a cache line each
	}
}

var pendingPool = sync.Pool{New: func() any { return &pendingCall{done: make(chan result, 1)} }}

// open enters a call. Each try of a call has a number of its own, so that a late
// answer to an earlier one is not taken for its own.
// over is when its time is over, for sweep; 0 leaves that to the caller.
func (t *pendingTable) open(r *route, over int64) *pendingCall {
	p := pendingPool.Get().(*pendingCall)
	p.id, p.route, p.path, p.seq, p.over = t.next.Add(1), r, nil, 0, over
	s := &t.shards[p.id%pendingShards]
	s.mu.Lock()
	if s.calls == nil {
		s.calls = map[uint64]*pendingCall{}
	}
	s.calls[p.id] = p
	s.mu.Unlock()
	t.count.Add(1)
	return p
}

// free gives a call back for reuse; its channel must be empty and the call out
// of the table.
func (t *pendingTable) free(p *pendingCall) {
	p.route, p.path = nil, nil
	pendingPool.Put(p)
}

// sent notes where the call went.
func (t *pendingTable) sent(id uint64, p *path, seq uint64) {
	s := &t.shards[id%pendingShards]
	s.mu.Lock()
	if c := s.calls[id]; c != nil {
		c.path, c.seq = p, seq
	}
	s.mu.Unlock()
}

// remove takes a call out of the table. nil means that its answer is in its
// channel, or will be at once.
func (t *pendingTable) remove(id uint64) *pendingCall {
	s := &t.shards[id%pendingShards]
	s.mu.Lock()
	c := s.calls[id]
	delete(s.calls, id)
	s.mu.Unlock()
	if c != nil {
		t.count.Add(-1)
	}
	return c
}

// waits tells whether somebody waits for the call's answer.
func (t *pendingTable) waits(id uint64) bool {
	s := &t.shards[id%pendingShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[id] != nil
}

// complete answers the call and reports whether anybody waited for it.
func (t *pendingTable) complete(id uint64, r result) bool {
	c := t.remove(id)
	if c == nil {
		return false
	}
	c.done <- r
	return true
}

// sweep ends the calls whose time is over at now; what they were sent on stays
// with them, for their callers to take back what they can.
func (t *pendingTable) sweep(now int64) {
	if t.count.Load() > 0 {
		t.completeIf(func(c *pendingCall) bool { return c.over != 0 && now >= c.over }, result{code: codeExpired})
	}
}

// completeIf answers every call that match picks.
func (t *pendingTable) completeIf(match func(*pendingCall) bool, r result) (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		var hit []*pendingCall
		s.mu.Lock()
		for id, c := range s.calls {
			if match(c) {
				delete(s.calls, id)
				hit = append(hit, c)
			}
		}
		s.mu.Unlock()
		t.count.Add(-int64(len(hit)))
		for _, c := range hit {
			c.done <- r
		}
		n += len(hit)
	}
	return n
}
