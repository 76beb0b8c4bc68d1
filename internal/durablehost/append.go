package durablehost

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/store"
)

// A beginner is a store that sends an append without waiting for its answer. So the goroutine
// of the turn sends it, and the one that reads the connection ends the turns that wait: nobody
// else is woken.
type beginner interface {
	// BeginAppend is Append up to its answer. It reports whether it was sent; then done is
	// called once, which must not block. A rest that is not nil finds the outcome, and may
	// block. If it is nil, the append stands at the position.
	BeginAppend(s store.Shard, expect store.Position, data []byte, done func(p store.Position, rest Rest)) bool
}

// Rest waits for the outcome of an append that was sent.
type Rest = func(context.Context) (store.Position, error)

// Appends are those of all shards of one process. The zero value is ready.
//
// As long as few are under way, each is sent when a turn has something to append. Otherwise the
// process has more to do than it can, and an append that leaves later has more turns, at no cost
// to those that wait: all goroutines that can run do so first, and appends beyond those that the
// store works on wait here (ADR 0010).
type Appends struct {
	mu      sync.Mutex
	pace    pace
	under   int       // sent in this spell, and not answered
	spell   int       // grows when those under way do not count any more
	queue   []*Tenure // have something to append, the longest first
	running bool      // run has been started
	ended   bool      // the process has
	wake    chan struct{}
	active  sync.WaitGroup // answers that are handled

	sweeps sweeps

	outages atomic.Uint64 // how often the store took an append of a shard again, after it could not or did not answer

	tails atomic.Int64 // bytes of all logs' tails
	open  atomic.Int64 // tenures that have one
	// written has the bytes that the process has appended to all logs.
	written atomic.Int64
	Measured
}

// maxTails bounds all tails of a process together, in bytes, before the larger ones are
// written to records: others must read them when the process dies.
const maxTails = 64 << 20

// maxHeld is how many bytes the process appends to all logs before each shard has moved its
// since. The store removes of a log that several shards share only the part before the lowest
// since.
const maxHeld = 64 << 20

// tailOf counts a tenure's tail; its lock is held. It reports whether it is to be written to records: the
// process has too much, and this shard at least half of its share.
func (a *Appends) tailOf(t *Tenure) bool {
	size := int64(t.core.TailBytes())
	if t.core.State() == durable.Dropped {
		size = 0
	}
	if (size > 0) != (t.tail > 0) {
		if size > 0 {
			a.open.Add(1)
		} else {
			a.open.Add(-1)
		}
	}
	all := a.tails.Add(size - t.tail)
	t.tail = size
	return size > 0 && all > maxTails && 2*size*a.open.Load() >= maxTails
}

// fewAppends is how many may be under way before turns are collected.
const fewAppends = 3

// late reports whether a tenure's append is to wait for the turns that can run now. The tenure
// then appends soon.
func (a *Appends) late(t *Tenure) bool {
	if t.queued.Load() {
		return true // run takes its lock after it has taken the tenure out of the queue
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.under < fewAppends && len(a.queue) == 0 || !a.startLocked(t.shard.cfg.Host) {
		return false
	}
	if !t.queued.Swap(true) {
		a.queue = append(a.queue, t)
		if len(a.queue) == 1 || a.pace.room(a.under, len(a.queue)) > 0 {
			a.wakeLocked()
		}
	}
	return true
}

// wakeLocked has run look at the queue.
func (a *Appends) wakeLocked() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// startLocked starts run, unless that was done before. It reports whether run has not ended.
func (a *Appends) startLocked(h Host) bool {
	if !a.running {
		a.running, a.wake = true, make(chan struct{}, 1)
		h.Go(func() { a.run(h.Context()) })
	}
	return !a.ended
}

// run has the tenures append that have something to append, until the process ends.
func (a *Appends) run(ctx context.Context) {
	var due []*Tenure
	held, holds := time.NewTimer(longestHold), true
	defer held.Stop()
	for {
		overdue := false
		select {
		case <-a.wake:
		case <-held.C:
			overdue = true
		case <-ctx.Done():
			a.end()
			a.active.Wait()
			return
		}
		runtime.Gosched() // the turns that can run now are appended too
		var rest bool
		due, rest = a.due(due, overdue)
		switch {
		case !rest && holds:
			held.Stop()
			holds = false
		case rest && (!holds || overdue || len(due) > 0):
			held.Reset(longestHold)
			holds = true
		}
		for i, t := range due {
			t.do(func(time.Time) {}) // takes
			due[i] = nil
		}
	}
}

// end has nothing wait any more: the process has ended.
func (a *Appends) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	for _, t := range a.queue {
		t.queued.Store(false)
	}
	a.queue = nil
}

// due takes the tenures that append now out of the queue, into room, and reports whether others
// wait. Overdue says that they have waited for long: nothing under way counts any more.
func (a *Appends) due(room []*Tenure, overdue bool) (due []*Tenure, rest bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if overdue && len(a.queue) > 0 {
		a.spell++
		a.under = 0
	}
	n := a.pace.room(a.under, len(a.queue))
	due = append(room[:0], a.queue[:n]...)
	for _, t := range due {
		t.queued.Store(false)
	}
	left := copy(a.queue, a.queue[n:])
	clear(a.queue[left:])
	a.queue = a.queue[:left]
	return due, left > 0
}

// enter begins to handle the answer to an append that was sent in that spell. A process that ends
// waits until leave. took is the time that the append took; 0 means that its outcome is not known.
// enter reports false if the process has ended already.
func (a *Appends) enter(h Host, spell int, now time.Time, took time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if spell == a.spell {
		a.under--
	}
	if took > 0 {
		a.pace.answered(now, took)
	}
	if !a.startLocked(h) {
		return false
	}
	a.active.Add(1)
	return true
}

// leave ends the handling of an answer. Appends that have waited are sent only now, so that the
// callers that the answer woke run first.
func (a *Appends) leave() {
	a.mu.Lock()
	if a.pace.room(a.under, len(a.queue)) > 0 {
		a.wakeLocked()
	}
	a.mu.Unlock()
	a.active.Done()
}

// sent counts an append that is sent now, until enter is called with the spell.
func (a *Appends) sent() (spell int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.under++
	return a.spell
}

// beginAppend sends an append, here if the store can.
func (t *Tenure) beginAppend(r *durable.Request) {
	a := t.shard.cfg.Appends
	spell, began := a.sent(), time.Now()
	if !t.begin.BeginAppend(t.shard.cfg.Shard, r.Expect, r.Data, func(p store.Position, rest Rest) { t.answered(r, spell, began, p, rest) }) {
		if a.enter(t.shard.cfg.Host, spell, began, 0) {
			a.leave()
		}
		t.mu.Lock()
		t.sendLocked(*r)
		t.mu.Unlock()
	}
}

// answered takes the answer to an append that began at that time.
func (t *Tenure) answered(r *durable.Request, spell int, began time.Time, p store.Position, rest Rest) {
	a, h := t.shard.cfg.Appends, t.shard.cfg.Host
	now, took := time.Now(), time.Duration(0)
	if rest == nil {
		took = now.Sub(began)
	}
	if !a.enter(h, spell, now, took) {
		return
	}
	defer a.leave()
	if rest != nil {
		h.Go(func() {
			ctx, cancel := context.WithTimeout(t.ctx, t.shard.cfg.Patience)
			defer cancel()
			p, err := rest(ctx)
			a.Measured.ended(t.shard.cfg.Shard, r, began, err)
			t.done(r, durable.Response{ID: r.ID, Position: p, Err: err, Outcome: durable.OutcomeOf(r.Op, err)})
		})
		return
	}
	a.Measured.ended(t.shard.cfg.Shard, r, began, nil)
	t.done(r, durable.Response{ID: r.ID, Position: p})
}

// done tells the core of an append, and has the next one follow.
func (t *Tenure) done(r *durable.Request, a durable.Response) {
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return
	}
	t.doneLocked(time.Now(), r, a)
	var after aftermath
	if t.core.Waiting() && t.shard.cfg.Appends.late(t) {
		after = t.effectsLocked(t.core.Hold())
	} else {
		after = t.takeLocked()
	}
	t.mu.Unlock()
	after.run(t)
}
