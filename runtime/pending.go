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

// pendingCall is a place for a call that waits for its answer. It belongs to one
// call after another, for as long as the table lives.
type pendingCall struct {
	done chan struct{} // filled by whoever takes the call out of the table
	id   atomic.Uint64 // 0: it is not in the table
	last uint64        // the number of the last call that was here
	// over is when the call's time is over, in nanoseconds after the plane's base;
	// 0: its caller watches itself. Below 0 it is how long the call may take from
	// the next sweep on, which spares callers a look at the clock.
	over atomic.Int64
	res  result // set before done is filled

	mu      sync.Mutex // guards what follows
	route   *route
	session *peerSession // the session it was last sent on; nil while it is held or local
	seq     uint64
}

const (
	// pendingShards divides the free places, so that callers do not meet at one lock.
	pendingShards = 64
	// slotBits is how much of a call's number names its place; the rest tells one
	// call of the place from another.
	slotBits = 20
	maxSlots = 1 << slotBits
)

// pendingTable finds the caller of an answer. A call's number leads to its place
// without a search, and callers share no lock. It is safe for concurrent use.
type pendingTable struct {
	coalescer coalescer
	_         [64]byte                       // what every call writes is no neighbour of what it reads
	slots     atomic.Pointer[[]*pendingCall] // copied when it grows
	limit     atomic.Int64                   // places from this number on go when they are free; 0: none
	grow      sync.Mutex                     // guards changes of slots and limit, and gone and uses
	gone      []*pendingCall                 // those that went; empty without a limit
	uses      uint64                         // how often a place was used that is no more, at most
	few       int                            // the sweep's: how often in a row few places were in use
	shards    [pendingShards]struct {
		mu   sync.Mutex
		free []*pendingCall
		_    [32]byte // a cache line each
	}
}

// open enters a call. Each try of a call has a number of its own, so that a late
// answer to an earlier one is not taken for its own. over is as in pendingCall;
// callers with different hints meet at different locks. It is nil when a million
// calls are under way.
func (t *pendingTable) open(r *route, over int64, hint uint64) (c *pendingCall, id uint64) {
	c = t.place(hint % pendingShards)
	if c == nil {
		return nil, 0
	}
	c.mu.Lock()
	c.route, c.session, c.seq = r, nil, 0
	c.mu.Unlock()
	c.last += maxSlots
	c.over.Store(over)
	c.id.Store(c.last)
	t.coalescer.begin()
	return c, c.last
}

// place takes a free place: of that shard, or a new one, or of any shard.
func (t *pendingTable) place(shard uint64) *pendingCall {
	c := t.take(shard)
	if c == nil {
		c = t.add()
	}
	for i := uint64(0); c == nil && i < pendingShards; i++ {
		c = t.take(i)
	}
	return c
}

func (t *pendingTable) take(shard uint64) (c *pendingCall) {
	s := &t.shards[shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		c, s.free = s.free[n-1], s.free[:n-1]
	}
	return c
}

// add makes a new place, unless there are as many as can be named.
func (t *pendingTable) add() *pendingCall {
	t.grow.Lock()
	defer t.grow.Unlock()
	if last := len(t.gone) - 1; last >= 0 {
		c := t.gone[last]
		t.gone = t.gone[:last]
		return c
	}
	var old []*pendingCall
	if p := t.slots.Load(); p != nil {
		old = *p
	}
	n := len(old)
	if n == maxSlots {
		return nil
	}
	c := &pendingCall{done: make(chan struct{}, 1), last: t.uses*maxSlots + uint64(n)}
	grown := append(old, c) // readers see no more than their own length
	t.slots.Store(&grown)
	return c
}

// free gives a place back to the shard it was opened with; its channel must be
// empty and the call out of the table.
func (t *pendingTable) free(c *pendingCall, hint uint64) {
	c.res = result{}
	if t.limit.Load() != 0 && t.letGo(c) {
		return
	}
	s := &t.shards[hint%pendingShards]
	s.mu.Lock()
	s.free = append(s.free, c)
	s.mu.Unlock()
}

// abandon ends a call that was opened and never sent.
func (t *pendingTable) abandon(c *pendingCall, id, hint uint64) {
	if t.remove(id) == nil {
		<-c.done
		t.coalescer.resumed()
	} else {
		t.coalescer.gaveUp()
	}
	t.free(c, hint)
}

// at is the place that a call's number names; nil if there is none.
func (t *pendingTable) at(id uint64) *pendingCall {
	slots := t.slots.Load()
	if i := id % maxSlots; id != 0 && slots != nil && i < uint64(len(*slots)) {
		return (*slots)[i]
	}
	return nil
}

// index is the place's in the table. It is for who has the place.
func (c *pendingCall) index() int { return int(c.last % maxSlots) }

// sentOn notes where the call went.
func (c *pendingCall) sentOn(id uint64, p *peerSession, seq uint64) {
	c.mu.Lock()
	if c.id.Load() == id {
		c.session, c.seq = p, seq
	}
	c.mu.Unlock()
}

// way is where the call went last.
func (c *pendingCall) way() (*peerSession, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session, c.seq
}

// sent notes where the call with that number went.
func (t *pendingTable) sent(id uint64, p *peerSession, seq uint64) {
	if c := t.at(id); c != nil {
		c.sentOn(id, p, seq)
	}
}

// remove takes a call out of the table. nil means that its answer is in its
// channel, or will be at once.
func (t *pendingTable) remove(id uint64) *pendingCall {
	c := t.at(id)
	if c == nil || !c.id.CompareAndSwap(id, 0) {
		return nil
	}
	return c
}

// waits reports whether somebody waits for the call's answer.
func (t *pendingTable) waits(id uint64) bool {
	c := t.at(id)
	return c != nil && c.id.Load() == id
}

// complete answers the call and reports whether anybody waited for it.
func (t *pendingTable) complete(id uint64, r result) bool {
	c := t.remove(id)
	if c == nil {
		return false
	}
	c.res = r
	t.coalescer.wake(1)
	c.done <- struct{}{}
	return true
}

// sweep ends the calls whose time is over at now; what they were sent on stays
// with them, for their callers to take back what they can.
func (t *pendingTable) sweep(now int64) {
	slots := t.slots.Load()
	if slots == nil {
		return
	}
	defer t.shrink()
	if t.coalescer.underWay() == 0 {
		return
	}
	for _, c := range *slots {
		id, over := c.id.Load(), c.over.Load()
		switch {
		case id == 0 || over == 0:
		case over < 0:
			c.over.CompareAndSwap(over, now-over) // from now on
		case now >= over && c.id.Load() == id: // over is id's, for numbers are not used again
			t.complete(id, result{code: codeExpired})
		}
	}
}

// completeIf answers every call that match picks; match is called under the
// call's lock.
func (t *pendingTable) completeIf(match func(*pendingCall) bool, r result) (n int) {
	slots := t.slots.Load()
	if slots == nil {
		return 0
	}
	for _, c := range *slots {
		c.mu.Lock()
		id := c.id.Load()
		hit := id != 0 && match(c)
		c.mu.Unlock()
		if hit && t.complete(id, r) {
			n++
		}
	}
	return n
}
