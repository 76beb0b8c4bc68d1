package calls

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

const (
	// parts is the number of lists of free slots, so that callers do not contend for one lock.
	parts = 64
	// slotBits is the number of bits of a call's number that are the number of its slot. The other
	// bits distinguish the calls of one slot.
	slotBits = 20
	// MaxCalls is the largest number of pending calls in a Table.
	MaxCalls = 1 << slotBits

	// keptSlots is the number of slots that a Table always keeps. A larger Table keeps its slots
	// while at least 1/keptOf of them are in use.
	keptSlots, keptOf = 1 << 10, 8
	// shrinkAfter is how many sweeps in a row, 5 s, must find few slots in use before the Table
	// shrinks.
	shrinkAfter = 100
)

// A Result is the result of one attempt of a call.
type Result struct {
	Payload []byte
	Code    wire.Code
	Text    string
	Lost    transport.Address // with Lost: the node that the call was sent to
}

// Codes that end a call inside the caller's process, and are never sent. The Table's user may
// define codes above Lost.
const (
	Expired wire.Code = 1<<16 + iota // the call's time is over
	Lost                             // the process that the call was sent to is gone; it may have run
)

// A Caller waits for the call in its slot of the Table. The slot is later reused for other calls.
type Caller interface {
	// Wake wakes the caller. It is called once for each call that Complete or a similar method has
	// ended. It must not block or call the table.
	Wake()
}

// A Completer is called at a call's end, instead of waking a goroutine.
type Completer interface {
	// Completed is called once, when the call has its result. It must not block or call the table.
	Completed(c *Call)
}

// A Carrier is the session on which a call was sent to a peer.
type Carrier interface{ Peer() transport.Peer }

// A Call is a slot for a call that waits for its answer. Later calls reuse the slot as long as the
// table exists.
type Call struct {
	Caller Caller        // made together with the slot
	id     atomic.Uint64 // number of the call; 0: the slot has no call
	last   uint64        // number of the last call in the slot
	// over is when the call's time ends, in nanoseconds of Sweep's clock. 0 means that the caller
	// watches the time itself. Below 0 it is how long the call may take from the next sweep on, so
	// that callers need not read the clock.
	over atomic.Int64
	res  Result    // set before the caller is woken
	then Completer // unless nil, called at the call's end instead of waking Caller

	mu      sync.Mutex // guards the fields below
	sent    uint64     // number of the call that session and seq belong to; if the slot has a later call, that call has not been sent
	session Carrier    // the session on which the call was last sent; nil while it is held or local
	seq     uint64
}

// Result returns the result of the call. The caller reads it after being woken.
func (c *Call) Result() *Result { return &c.res }

// Answer sets the result of a call that Remove has returned. The same goroutine must then wake the
// caller.
func (c *Call) Answer(r Result) { c.res = r }

// Over returns when the call's time ends, on Sweep's clock: as given to Open, or as computed by
// Sweep.
func (c *Call) Over() int64 { return c.over.Load() }

// SentOn returns the session on which the call was last sent to a peer, and the call's sequence in
// that session. The session is nil if the call was not sent. Only the owner of the slot may call
// SentOn.
func (c *Call) SentOn() (Carrier, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent != c.last {
		return nil, 0
	}
	return c.session, c.seq
}

// index returns the number of the slot in its table. Only the owner of the slot may call it.
func (c *Call) index() int { return int(c.last % MaxCalls) }

// A Table holds the pending calls. A call's number leads to its slot without a search, and callers
// do not share a lock. It is safe for concurrent use.
type Table struct {
	Coalescer Coalescer
	_         [64]byte                // separates the fields that every call writes from the cache line of the fields that it reads
	newCaller func() Caller           // makes the caller of a new slot
	slots     atomic.Pointer[[]*Call] // all slots; copied to grow
	closed    atomic.Bool             // no new call is entered
	limit     atomic.Int64            // free slots from this number on are taken out of use; 0 means none
	grow      sync.Mutex              // guards changes of slots and limit, and guards gone and uses
	gone      []*Call                 // slots taken out of use; empty without a limit
	uses      uint64                  // the highest number of uses of a dropped slot
	few       int                     // how many sweeps in a row found few slots in use; only Sweep uses it
	parts     [parts]struct {
		mu   sync.Mutex
		free []*Call
		_    [32]byte // separate cache lines
	}
}

// Init sets the function that makes the Caller of each new slot. Init is called once, before any
// other method of the table.
func (t *Table) Init(newCaller func() Caller) { t.newCaller = newCaller }

// Wake wakes the caller of a call that Remove has returned and that has its answer.
func (c *Call) Wake() {
	if then := c.then; then != nil {
		then.Completed(c)
		return
	}
	c.Caller.Wake()
}

// Open adds a call to the table, and returns the call's slot and number. over is the call's
// deadline on Sweep's clock. If over is 0, the caller itself watches the time. If over is negative,
// the next Sweep sets the deadline to the time -over after that Sweep. hint selects the lock, so
// that callers with different hints rarely wait for each other. Open returns nil if the table is
// closed or already has MaxCalls calls.
func (t *Table) Open(over int64, hint uint64) (c *Call, id uint64) { return t.OpenFor(over, hint, nil) }

// OpenFor is Open, except that the end of the call is reported to the Completer instead of the
// slot's Caller. If the Completer is nil, the Caller is woken as usual.
func (t *Table) OpenFor(over int64, hint uint64, then Completer) (c *Call, id uint64) {
	c = t.slot(hint % parts)
	if c == nil {
		return nil, 0
	}
	c.then = then
	c.last += MaxCalls
	c.over.Store(over)
	c.id.Store(c.last)
	if t.closed.Load() && t.Remove(c.last) != nil { // if Remove returns nil, Close answers the call
		t.Free(c, hint)
		return nil, 0
	}
	t.Coalescer.calls.Add(oneUnderWay)
	return c, c.last
}

// Close answers every call with r and makes Open fail from now on. It returns the number of
// answered calls.
func (t *Table) Close(r Result) (n int) {
	t.closed.Store(true) // first, so that a call that it does not see is not entered
	return t.completeIf(func(*Call, uint64) bool { return true }, r)
}

// slot returns a free slot of the given part; if none is free there, a new slot; and if the table
// is full, a free slot of another part.
func (t *Table) slot(part uint64) *Call {
	c := t.take(part)
	if c == nil {
		c = t.add()
	}
	for i := uint64(0); c == nil && i < parts; i++ {
		c = t.take(i)
	}
	return c
}

func (t *Table) take(part uint64) (c *Call) {
	s := &t.parts[part]
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		c, s.free = s.free[n-1], s.free[:n-1]
	}
	return c
}

// add makes a new slot, or returns nil if there are MaxCalls slots.
func (t *Table) add() *Call {
	t.grow.Lock()
	defer t.grow.Unlock()
	if last := len(t.gone) - 1; last >= 0 {
		c := t.gone[last]
		t.gone = t.gone[:last]
		return c
	}
	var old []*Call
	if p := t.slots.Load(); p != nil {
		old = *p
	}
	n := len(old)
	if n == MaxCalls {
		return nil
	}
	c := &Call{Caller: t.newCaller(), last: t.uses*MaxCalls + uint64(n)}
	grown := append(old, c) // readers see no more than their own length
	t.slots.Store(&grown)
	return c
}

// Free makes a slot available to later calls. hint is the one given to Open. The slot's call must
// be out of the table, and no goroutine may be about to wake its caller.
func (t *Table) Free(c *Call, hint uint64) {
	c.res, c.then = Result{}, nil
	if t.limit.Load() != 0 && t.letGo(c) {
		return
	}
	s := &t.parts[hint%parts]
	s.mu.Lock()
	s.free = append(s.free, c)
	s.mu.Unlock()
}

// End returns the result of a call that has ended, and frees its slot. hint is the one given to
// Open.
func (t *Table) End(c *Call, hint uint64) Result {
	r := c.res
	t.Coalescer.Resumed()
	t.Free(c, hint)
	return r
}

// At returns the slot that a call's number names; nil if there is none. The slot may already hold
// another call.
func (t *Table) At(id uint64) *Call {
	slots := t.slots.Load()
	if i := id % MaxCalls; id != 0 && slots != nil && i < uint64(len(*slots)) {
		return (*slots)[i]
	}
	return nil
}

// Sent records the session on which call id was sent, and the envelope's sequence number there. A
// nil session means that the call was not sent.
func (t *Table) Sent(id uint64, to Carrier, seq uint64) {
	c := t.At(id)
	if c == nil {
		return
	}
	c.mu.Lock()
	if c.id.Load() == id {
		c.sent, c.session, c.seq = id, to, seq
	}
	c.mu.Unlock()
}

// Remove takes call id out of the table. If another goroutine has already removed the call, Remove
// returns nil, and that goroutine wakes the caller. Otherwise this goroutine must set the answer,
// count the caller with Coalescer.Wake, and wake the caller.
func (t *Table) Remove(id uint64) *Call {
	c := t.At(id)
	if c == nil || !c.id.CompareAndSwap(id, 0) {
		return nil
	}
	return c
}

// Waits reports whether a caller waits for the answer to call id.
func (t *Table) Waits(id uint64) bool {
	c := t.At(id)
	return c != nil && c.id.Load() == id
}

// Complete answers call id with r, and reports whether a caller waited for the answer.
func (t *Table) Complete(id uint64, r Result) bool {
	c := t.Remove(id)
	if c == nil {
		return false
	}
	c.res = r
	t.Coalescer.Wake(1)
	c.Wake()
	return true
}

// Sweep ends the calls whose time is over. now is the present time of Sweep's clock, in
// nanoseconds. The slot of an ended call keeps the session on which the call was sent, so that the
// caller can withdraw a call that has not arrived. Only one goroutine at a time may call Sweep.
func (t *Table) Sweep(now int64) {
	slots := t.slots.Load()
	if slots == nil {
		return
	}
	defer t.shrink()
	if t.Coalescer.UnderWay() == 0 {
		return
	}
	for _, c := range *slots {
		id, over := c.id.Load(), c.over.Load()
		switch {
		case id == 0 || over == 0:
		case over < 0:
			c.over.CompareAndSwap(over, now-over) // from now on
		case now >= over && c.id.Load() == id: // the slot still has the call id, so over belongs to it
			t.Complete(id, Result{Code: Expired})
		}
	}
}

// CompleteSent answers, with r, each call that was last sent on a session for which lost reports
// true. It returns the number of these calls. lost must not call the table.
func (t *Table) CompleteSent(lost func(Carrier) bool, r Result) (n int) {
	return t.completeIf(func(c *Call, id uint64) bool { return c.sent == id && c.session != nil && lost(c.session) }, r)
}

// completeIf answers, with r, each call for whose slot and number match reports true. match is
// called under the call's lock.
func (t *Table) completeIf(match func(*Call, uint64) bool, r Result) (n int) {
	slots := t.slots.Load()
	if slots == nil {
		return 0
	}
	for _, c := range *slots {
		c.mu.Lock()
		id := c.id.Load()
		hit := id != 0 && match(c, id)
		c.mu.Unlock()
		if hit && t.Complete(id, r) {
			n++
		}
	}
	return n
}

// shrink takes up to three of four slots out of use if few slots were in use for shrinkAfter sweeps
// in a row. Fewer slots make a sweep shorter, because it visits all slots. A slot with a call
// leaves when it becomes free. Only Sweep calls shrink.
func (t *Table) shrink() {
	n, inUse, limit := len(*t.slots.Load()), int(t.Coalescer.UnderWay()), int(t.limit.Load())
	switch {
	case limit != 0 && inUse > limit/2:
		t.keepAll()
		fallthrough
	case limit != 0 || n <= keptSlots || inUse > n/keptOf:
		t.few = 0
		return
	}
	if t.few++; t.few < shrinkAfter {
		return
	}
	t.few = 0
	t.grow.Lock()
	t.limit.Store(int64(max(keptSlots, n/4)))
	t.grow.Unlock()
	for i := range t.parts {
		s := &t.parts[i]
		var free []*Call
		s.mu.Lock()
		s.free, free = nil, s.free
		s.mu.Unlock()
		for _, c := range free {
			t.Free(c, uint64(i))
		}
	}
}

// letGo takes a free slot beyond the limit out of use, and reports whether it did. When all slots
// beyond the limit are out of use, they are dropped. Slots made later continue the call numbers, so
// that a late answer to a call of a dropped slot matches no call.
func (t *Table) letGo(c *Call) bool {
	t.grow.Lock()
	defer t.grow.Unlock()
	slots, limit := *t.slots.Load(), int(t.limit.Load())
	if limit == 0 || c.index() < limit {
		return false
	}
	t.gone = append(t.gone, c)
	if len(t.gone) < len(slots)-limit {
		return true
	}
	for _, c := range t.gone {
		t.uses = max(t.uses, c.last/MaxCalls)
	}
	kept := slices.Clone(slots[:limit])
	t.slots.Store(&kept)
	t.gone = nil
	t.limit.Store(0)
	return true
}

// keepAll takes all slots into use again, because there are many calls.
func (t *Table) keepAll() {
	t.grow.Lock()
	t.limit.Store(0)
	gone := t.gone
	t.gone = nil
	t.grow.Unlock()
	for i, c := range gone {
		t.Free(c, uint64(i))
	}
}
