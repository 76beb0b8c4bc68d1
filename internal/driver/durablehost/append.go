package durablehost

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// A beginner is a store that sends an append without waiting for its answer. So the goroutine of
// the turn sends it, and the connection's reader ends the waiting turns: nobody else is woken.
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
// process is overloaded, and a later append has more turns at no cost to waiting ones: all runnable
// goroutines run first, and appends beyond those in work at the store wait here (ADR 0010).
type Appends struct {
	mu      sync.Mutex
	limiter appendLimiter
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
		if len(a.queue) == 1 || a.limiter.room(a.under, len(a.queue)) > 0 {
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
	n := a.limiter.room(a.under, len(a.queue))
	due = append(room[:0], a.queue[:n]...)
	for _, t := range due {
		t.queued.Store(false)
	}
	left := copy(a.queue, a.queue[n:])
	clear(a.queue[left:])
	a.queue = a.queue[:left]
	return due, left > 0
}

// enter begins to handle the answer to an append sent in that spell. A process that ends waits
// until leave. took is the duration of the append; 0 means an unknown outcome. enter reports false
// if the process has ended already.
func (a *Appends) enter(h Host, spell int, now time.Time, took time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if spell == a.spell {
		a.under--
	}
	if took > 0 {
		a.limiter.answered(now, took)
	}
	if !a.startLocked(h) {
		return false
	}
	a.active.Add(1)
	return true
}

// leave ends the handling of an answer. Waiting appends are sent only now, so that the callers
// woken by the answer run first.
func (a *Appends) leave() {
	a.mu.Lock()
	if a.limiter.room(a.under, len(a.queue)) > 0 {
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

// answered takes the answer to an append begun at that time.
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
	var after deferredEffects
	if t.core.Waiting() && t.shard.cfg.Appends.late(t) {
		after = t.effectsLocked(t.core.Hold())
	} else {
		after = t.takeLocked()
	}
	t.mu.Unlock()
	after.run(t)
}

// An appendLimiter says how many appends a process has under way. More appends than the store works on
// at a time only wait there. An append waiting here gets more commits: with n callers at s shards and k
// appends under way it has n/s / (1/2 + k/s) commits.
//
// Where an append takes its time without anybody working, because the store is far, a limit costs
// throughput instead. So the limit follows how long appends take, compared with the fastest of late.
// The zero value is not limited before the first round of answers.
type appendLimiter struct {
	limit   int           // 0 means none yet
	fastest time.Duration // of this period and the one before; 0 means none
	next    time.Duration // the fastest of this period
	period  time.Time     // when this one began
	sum     time.Duration // of the answers in this round
	answers int           // in this round
}

const (
	leastUnder = 24 // which keeps two busy processors from waiting for each other
	mostUnder  = 1024
	// roundAnswers is how many answers come before the limit is looked at again.
	roundAnswers = 64
	// An append that takes so many times as long as the fastest has waited for others: below growAt
	// the limit is doubled, above shrinkAt it is halved.
	growAt, shrinkAt = 4, 8
	// fastestPeriod bounds how long an append counts as the fastest, to twice as much.
	fastestPeriod = 10 * time.Second
	// longestHold bounds the wait of an append for others. Appends unanswered by then may be of a
	// stream without a leader, and do not count any more.
	longestHold = 10 * time.Millisecond
)

// answered notes how long an append took.
func (p *appendLimiter) answered(now time.Time, took time.Duration) {
	if now.Sub(p.period) >= fastestPeriod {
		p.fastest, p.next, p.period = p.next, 0, now
	}
	if p.next == 0 || took < p.next {
		p.next = took
	}
	if p.fastest == 0 || took < p.fastest {
		p.fastest = took
	}
	p.sum += took
	if p.answers++; p.answers < roundAnswers {
		return
	}
	switch mean := p.sum / roundAnswers; {
	case p.limit == 0:
		p.limit = leastUnder
	case mean < growAt*p.fastest:
		p.limit = min(2*p.limit, mostUnder)
	case mean > shrinkAt*p.fastest:
		p.limit = max(p.limit/2, leastUnder)
	}
	p.sum, p.answers = 0, 0
}

// room returns how many of the appends that wait are to leave, with so many under way. Where all are
// more than the limit, they leave together once a third of it is under way: one by one each would
// wake this process and the server anew.
func (p *appendLimiter) room(under, wait int) int {
	switch {
	case p.limit == 0 || under+wait <= p.limit:
		return wait
	case under > p.limit/3:
		return 0
	}
	return p.limit - under
}

// An Appended is the end of one append to a log.
type Appended struct {
	Type    string // of the shard's entities
	Commits int    // that it had; 0 means it was a claim
	Bytes   int
	Took    time.Duration // from the request to the store's answer
	Err     error         // why the store has not confirmed it; nil means it has
}

// Measured has the appends of a process measured. The zero value measures none. It is safe for
// concurrent use.
type Measured struct {
	by atomic.Pointer[func(Appended)]
}

// By has f called at the end of each append, until it is called again; nil ends that. f must not
// block, and is called by several goroutines at once.
func (m *Measured) By(f func(Appended)) {
	if f == nil {
		m.by.Store(nil)
		return
	}
	m.by.Store(&f)
}

// begun returns the time if appends are measured, or else the zero time, without a look at the clock.
func (m *Measured) begun() (at time.Time) {
	if m.by.Load() != nil {
		at = time.Now()
	}
	return at
}

// ended reports an append that began at a time of begun.
func (m *Measured) ended(s store.Shard, r *durable.Request, began time.Time, err error) {
	if f := m.by.Load(); f != nil && !began.IsZero() {
		(*f)(Appended{s.Type, r.Commits, len(r.Data), time.Since(began), err})
	}
}
