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

// A beginner is a store that can send an append without waiting for the answer, so that no append
// needs a goroutine of its own.
type beginner interface {
	// BeginAppend sends an append, and reports whether it was sent. If so, done is called once, and
	// must not block. A nil rest means that the append is in the log at position p. Otherwise done
	// must call rest on another goroutine, because rest waits for the outcome.
	BeginAppend(s store.Shard, expect store.Position, data []byte, done func(p store.Position, rest Rest)) bool
}

// Rest waits for the outcome of an append that was sent.
type Rest = func(context.Context) (store.Position, error)

// Appends schedules the appends of all shards of one process. The zero value is ready for use.
//
// While few appends are running, each append is sent as soon as a turn has something to append.
// While more are running, the process is overloaded. An append is then sent only after all runnable
// goroutines have run, so that it has the commits of more turns. Appends beyond what the store
// works on at a time wait here (ADR 0010).
type Appends struct {
	mu      sync.Mutex
	limiter appendLimiter
	under   int       // number of unanswered appends sent since spell grew
	spell   int       // grows when the running appends are no longer counted in under
	queue   []*Tenure // tenures that have something to append, the one that waits longest first
	running bool      // the goroutine of run was started
	ended   bool      // the process has ended
	wake    chan struct{}
	active  sync.WaitGroup // answers that are being handled

	sweeps sweeps
	lists  sync.Mutex // held by the shard that lists its records

	outages atomic.Uint64 // how often the store took a shard's writes again after an outage

	tails atomic.Int64 // bytes of all logs' tails
	open  atomic.Int64 // number of tenures whose log has a tail
	// wrote is when the store last took a write, as Unix time in seconds.
	wrote atomic.Int64
	// written counts the bytes that the process has appended to all logs.
	written atomic.Int64
	Measured
}

// maxTails bounds the log tails of a process together, the bytes that next homes must read if it
// dies. Beyond maxTails, the larger tails are written to records.
const maxTails = 64 << 20

// maxHeld bounds the bytes that the process appends to all logs after a shard's last checkpoint.
// Beyond it the shard must advance its [store.Head].Since, the position from which the shard needs
// its log. A shared log is trimmed only up to the lowest Since of its shards.
const maxHeld = 64 << 20

// tailOf records the size of t's tail, the bytes of the log that the next home would have to read.
// It reports whether t's tail must be written to records. That is so if all tails of the process
// together exceed maxTails, and t's tail is at least half of maxTails divided by the number of
// tails. The caller holds t's lock.
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

// fewAppends is the number of running appends from which further appends wait to collect more
// turns.
const fewAppends = 3

// late reports whether a tenure's append must wait until the turns that can run now have run, so
// that the append has their commits too. If late returns true, the tenure is in the queue.
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

func (a *Appends) wakeLocked() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *Appends) startLocked(h Host) bool {
	if !a.running {
		a.running, a.wake = true, make(chan struct{}, 1)
		h.Go(func() { a.run(h.Context()) })
	}
	return !a.ended
}

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
			t.do(func(time.Time) {}) // sends what the core has to append
			due[i] = nil
		}
	}
}

// end empties the queue, because the process has ended.
func (a *Appends) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	for _, t := range a.queue {
		t.queued.Store(false)
	}
	a.queue = nil
}

// due removes from the queue the tenures that may append now, and returns them in room's memory.
// rest reports whether others remain in the queue. If overdue is set, the queue has waited for
// longestHold, so running appends no longer count against the limit.
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

// enter begins the handling of an append's answer. spell is what [Appends.sent] returned for the
// append. took is the append's duration; 0 means that its outcome is unknown. If enter returns
// true, the caller must call leave; the end of the process waits for that.
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

// leave ends the handling of an answer. It wakes [Appends.run] only now, so that the callers woken
// by the answer run first.
func (a *Appends) leave() {
	a.mu.Lock()
	if a.limiter.room(a.under, len(a.queue)) > 0 {
		a.wakeLocked()
	}
	a.mu.Unlock()
	a.active.Done()
}

// sent counts an append as running. The caller must pass spell to [Appends.enter] when the append
// is answered.
func (a *Appends) sent() (spell int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.under++
	return a.spell
}

func (t *Tenure) beginAppend(r *durable.Request) {
	a := t.shard.cfg.Appends
	spell, began := a.sent(), time.Now()
	t.shard.writing.begun(began)
	if !t.begin.BeginAppend(t.shard.cfg.Shard, r.Expect, r.Data, func(p store.Position, rest Rest) { t.answered(r, spell, began, p, rest) }) {
		if a.enter(t.shard.cfg.Host, spell, began, 0) {
			a.leave()
		}
		t.mu.Lock()
		t.sendLocked(*r)
		t.mu.Unlock()
	}
}

func (t *Tenure) answered(r *durable.Request, spell int, began time.Time, p store.Position, rest Rest) {
	t.appended.Store(began.UnixNano())
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
			t.shard.writing.took(began, err)
			a.Measured.ended(t.shard.cfg.Shard, r, began, err)
			t.done(r, durable.Response{ID: r.ID, Position: p, Err: err, Outcome: durable.OutcomeOf(r.Op, err)})
		})
		return
	}
	t.shard.writing.took(began, nil)
	a.Measured.ended(t.shard.cfg.Shard, r, began, nil)
	t.done(r, durable.Response{ID: r.ID, Position: p})
}

func (t *Tenure) done(r *durable.Request, a durable.Response) {
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return
	}
	t.doneLocked(t.nowLocked(), r, a)
	var after deferredEffects
	if t.core.Waiting() && t.shard.cfg.Appends.late(t) {
		after = t.effectsLocked(t.core.Hold())
	} else {
		after = t.takeLocked()
	}
	t.mu.Unlock()
	after.run(t)
}

// An appendLimiter decides how many appends of a process run at a time. An append beyond what the
// store works on would only wait at the store. If it waits here instead, it collects more commits:
// with n callers at s shards and k running appends, each append has n/s / (1/2 + k/s) commits.
//
// If appends are slow only because the store is far away, a limit costs throughput. Therefore the
// limit depends on how long appends take compared with the fastest recent one. The zero value sets
// no limit before the first round of answers.
type appendLimiter struct {
	limit   int           // 0 means none yet
	fastest time.Duration // the fastest append of this period and the one before; 0 means none
	next    time.Duration // the fastest append of this period; 0 means none
	period  time.Time     // when this period began
	sum     time.Duration // sum of this round's times
	answers int           // number of this round's answers
}

const (
	leastUnder   = 24 // keeps two busy processors from waiting for each other
	mostUnder    = 1024
	roundAnswers = 64
	// The limit is doubled if a round's mean time is below growAt times the fastest time, and
	// halved if it is above shrinkAt times that.
	growAt, shrinkAt = 4, 8
	// The fastest append's time is forgotten after fastestPeriod to twice that.
	fastestPeriod = 10 * time.Second
	// longestHold bounds how long an append waits for running appends, because these may belong to
	// a stream without a leader.
	longestHold = 10 * time.Millisecond
)

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

// room returns how many appends to send now. under is the number of running appends, and wait that
// of queued ones. Above the limit it returns 0 until many appends can go together, because each
// sending wakes the process and the server.
func (p *appendLimiter) room(under, wait int) int {
	switch {
	case p.limit == 0 || under+wait <= p.limit:
		return wait
	case under > p.limit/3:
		return 0
	}
	return p.limit - under
}

// An Appended describes one completed append to a log.
type Appended struct {
	Type    string // type of the shard's entities
	Commits int    // number of commits in the append; 0 means a claim
	Bytes   int
	Took    time.Duration // from the request to the store's answer
	Err     error         // why the store has not confirmed the append; nil means it has
}

// Measured reports a process's appends. The zero value reports none. It is safe for concurrent use.
type Measured struct {
	by atomic.Pointer[func(Appended)]
}

// By makes m call f at the end of each append. A nil f ends these calls. f must not block. Several
// goroutines call f at once.
func (m *Measured) By(f func(Appended)) {
	if f == nil {
		m.by.Store(nil)
		return
	}
	m.by.Store(&f)
}

func (m *Measured) ended(s store.Shard, r *durable.Request, began time.Time, err error) {
	if f := m.by.Load(); f != nil {
		(*f)(Appended{s.Type, r.Commits, len(r.Data), time.Since(began), err})
	}
}
