package durablehost

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// A Tenure is the time during which a process holds a shard, from the claim on. It is safe for
// concurrent use, but an entity must have only one turn at a time.
type Tenure struct {
	shard *Shard
	epoch atomic.Uint64 // epoch in the store; changed under mu. With Config.Alone it may grow until the tenure has opened

	ctx    context.Context // the context of the tenure's requests
	cancel context.CancelFunc
	opened chan struct{} // closed when the tenure has opened
	open   atomic.Bool   // the tenure has opened and not ended

	mu        sync.Mutex
	core      *durable.Shard
	line      lineClock     // the time of the core
	reached   atomic.Uint64 // the highest ticket up to which everything is in the log; changed under mu
	waits     []wait
	loads     loads
	lists     map[uint64]*listing // by the number of the core's list
	unlisted  []*listing          // lists that wait until the catalog is complete
	outbox    outbox
	timer     *time.Timer
	wake      time.Time        // when timer fires, in line's time
	begin     beginner         // the store, if it can send appends without a goroutine; nil if not
	next      *durable.Request // the next append to send; nil means none
	appending bool             // the goroutine of append is running
	appended  atomic.Int64     // when the last answered append was sent, in Unix nanoseconds
	queued    atomic.Bool      // the tenure is in the queue of Appends; changed under the lock of Appends
	claim     tenureClaim      // guarded by the lock of Claims
	tail      int64            // bytes of the log's tail, as Appends has counted them
	over      bool
	left      chan struct{} // closed when the tenure has ended; made when the shard begins to leave
	rested    bool          // the tenure ended after its whole log was written to records
	away      [2]bool       // by streamOf: the store did not take, or did not answer, the last write
	failed    error         // the last fault of the store; nil after a success
	failing   time.Time     // when the first fault after the last success occurred
	tellDoubt bool          // callers that will ask again must get the error in failed now
	followers followerLook
	idle      idle
	walk      walk     // the sweep through the shard's records
	due       []string // entities that have due reminders, to be given to the host
}

// A Waiter is notified when the log has everything up to a ticket, or when that cannot be known.
type Waiter interface {
	// Logged is called once. err is nil if everything is in the log; otherwise err says why that is
	// not known: see [Tenure.Then] and [Tenure.Answer].
	Logged(err error)
}

// A WaiterFunc makes a function a Waiter.
type WaiterFunc func(err error)

// Logged calls the function.
func (f WaiterFunc) Logged(err error) { f(err) }

type wait struct {
	ticket durable.Ticket
	again  bool // the caller will ask again, so it may get a store error early
	Waiter
}

// newTenure returns a tenure that begins its claim. The caller holds the shard's lock.
func newTenure(s *Shard, epoch uint64) *Tenure {
	t := &Tenure{shard: s, opened: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.nowLocked()
	t.idle = newIdle(&s.cfg, now)
	t.ctx, t.cancel = context.WithCancel(s.cfg.Host.Context())
	config := durable.Config{
		Epoch: epoch, Above: s.cfg.Alone != nil, Known: s.known, FirstTell: max(s.tells, uint64(max(time.Now().UnixMicro(), 0))), // all releases number them by this clock
		Node: s.cfg.Node, Incarnation: s.cfg.Incarnation, Limits: s.cfg.Limits, Journal: s.cfg.Journal,
	}
	if s.cfg.Index != nil {
		config.Index = s.cfg.Index()
	}
	t.core = durable.New(now, config)
	t.epoch.Store(epoch)
	t.takeLocked() // the core has only requests yet, so there are no effects to run without the lock
	t.begin, _ = s.cfg.Store.(beginner)
	return t
}

// nowLocked returns the time for the core: the store's time, except that it never goes back during
// a tenure.
func (t *Tenure) nowLocked() time.Time { return t.line.now(t.shard.cfg.Clock) }

// Expired reports whether an entity has expired by the tenure's time. expires is its expiry as Unix
// time in milliseconds; 0 means never.
func (t *Tenure) Expired(expires int64) bool {
	return expires != 0 && t.line.read(t.shard.cfg.Clock).UnixMilli() >= expires
}

// Expiry returns when an entity that is committed now expires after ttl, as Unix time in
// milliseconds. ttl counts from the present time of the tenure's clock or of the store's, whichever
// is later. So no entity expires too early.
func (t *Tenure) Expiry(ttl time.Duration) int64 {
	now, _ := t.shard.cfg.Clock.Now()
	return max(now.UnixMilli(), t.line.read(t.shard.cfg.Clock).UnixMilli()) + ttl.Milliseconds()
}

// Context returns a context that ends with the tenure.
func (t *Tenure) Context() context.Context { return t.ctx }

// Epoch returns the tenure's epoch in the store. Later tenures of the shard, at any home, have
// higher epochs.
func (t *Tenure) Epoch() uint64 { return t.epoch.Load() }

// fix makes the tenure keep its epoch, and returns what the next tenure needs. tells is greater
// than the numbers of all tells so far.
func (t *Tenure) fix() (epoch uint64, head durable.Mark, tells uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.core.FixEpoch()
	return t.core.Epoch(), t.core.Mark(), t.core.NextTell()
}

func (t *Tenure) isOpen() bool { return t.open.Load() }

// Ended reports whether the tenure has ended.
func (t *Tenure) Ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// do calls f, and then carries out the core's effects. It does nothing after the end of the tenure.
func (t *Tenure) do(f func(now time.Time)) {
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return
	}
	f(t.nowLocked())
	after := t.takeLocked()
	t.mu.Unlock()
	after.run(t)
}

// look calls f, which must cause no effects of the core. Like do, it does nothing after the tenure's
// end.
func (t *Tenure) look(f func(now time.Time)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		f(t.nowLocked())
	}
}

// takeLocked carries out the core's effects, and returns the effects that the caller must run
// without the lock.
func (t *Tenure) takeLocked() deferredEffects { return t.effectsLocked(t.core.Take()) }

func (t *Tenure) effectsLocked(out durable.Effects) (after deferredEffects) {
	for i := range out.Requests {
		r := &out.Requests[i]
		if r.Op == durable.OpAppend && t.begin != nil && after.append == nil {
			after.append = r
			continue
		}
		t.sendLocked(*r)
	}
	for _, l := range out.Loaded {
		t.loads.done(l)
	}
	t.pagesLocked(out.Pages, &after)
	t.lookLocked(&after)
	ended := durable.Event{Kind: durable.Ended}
	for _, e := range out.Events {
		switch e.Kind {
		case durable.Opened:
			t.open.Store(true)
			t.shard.cfg.Claims.over(t)
			after.add(func() {
				t.shard.opened(t)
				close(t.opened)
			})
		case durable.Ended:
			ended = e
		case durable.Checkpointed:
			t.idle.checkpointed(&t.shard.cfg, t.nowLocked())
		default:
		}
		after.add(func() { t.shard.cfg.Host.Event(t, e) })
	}
	if out.Durable > durable.Ticket(t.reached.Load()) {
		t.reached.Store(uint64(out.Durable))
		after.logged = t.releaseLocked()
	}
	if t.left != nil && t.core.State() == durable.Open && !t.core.Busy() {
		t.core.Drop() // the whole log is in records
		t.rested = true
		for _, e := range t.core.Take().Events {
			after.add(func() { t.shard.cfg.Host.Event(t, e) })
		}
	}
	if t.core.State() == durable.Dropped {
		t.endLocked(ended, &after)
		return after
	}
	if t.tellDoubt {
		t.tellDoubt = false
		after.doubted, t.waits = askAgain(t.waits)
		after.why = fmt.Errorf("shard %v: %w: %w", t.shard.cfg.Shard, errUnconfirmed, t.failed)
	}
	for _, tell := range out.Tells {
		t.outbox.put(tell)
	}
	t.tellLocked()
	t.armLocked()
	return after
}

func (t *Tenure) releaseLocked() (due []wait) {
	var kept []wait
	reached := durable.Ticket(t.reached.Load())
	for i, w := range t.waits {
		switch {
		case w.ticket > reached:
			kept = append(kept, w)
		case len(kept) > 0:
			due = append(due, w)
		default:
			due = t.waits[: i+1 : i+1] // the waits usually come in the order of their tickets
		}
	}
	if t.waits = kept; kept == nil {
		t.waits = make([]wait, 0, len(due)) // probably as many waits come until the next append
	}
	return due
}

func (t *Tenure) endLocked(e durable.Event, after *deferredEffects) {
	t.over = true
	t.backLocked(0)
	t.backLocked(1)
	t.shard.cfg.Appends.tailOf(t)
	t.open.Store(false)
	t.shard.cfg.Claims.over(t)
	t.cancel()
	if t.timer != nil {
		t.timer.Stop()
	}
	if t.left != nil {
		close(t.left)
	}
	after.doubted, after.why = t.waits, t.inDoubt(e)
	t.waits = nil
	t.loads.end()
	t.endListsLocked(after.why, after)
	after.add(func() { t.shard.ended(t, e) })
}

func (t *Tenure) inDoubt(e durable.Event) error {
	err := fmt.Errorf("shard %v: %w", t.shard.cfg.Shard, ErrInDoubt)
	if e.Err != nil {
		err = fmt.Errorf("%w: %w", err, e.Err)
	}
	return err
}

// Drop ends the tenure. It may be called again, and on a nil pointer.
func (t *Tenure) Drop() {
	if t != nil {
		t.do(func(time.Time) { t.core.Drop() })
	}
}

func (t *Tenure) leave(ctx context.Context) error {
	if t == nil {
		return nil
	}
	var left chan struct{} // nil: the tenure has ended
	t.do(func(now time.Time) {
		t.core.Verify(now) // only this tenure can know what the store has lost
		t.core.Checkpoint(now)
		if t.left == nil { // set only now: before Verify, a core without a running checkpoint would be dropped
			t.left = make(chan struct{})
		}
		left = t.left
	})
	if left == nil {
		return nil
	}
	t.shard.cfg.Claims.want(t)
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shard %v: write its entities to the store: %w%s", t.shard.cfg.Shard, ctx.Err(), t.trouble())
	}
}

// Rested reports whether the tenure has ended because its whole log was written to records. After
// [Shard.Leave] it is false if the tenure ended before that, for example because of an error of the
// store.
func (t *Tenure) Rested() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rested
}

func (t *Tenure) trouble() string {
	if t == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil {
		return ""
	}
	return ": " + t.failed.Error()
}

const shortestNap = time.Millisecond

func (t *Tenure) armLocked() {
	at := t.core.Wake()
	if d, ok := t.untilDueLocked(); ok {
		if due := t.nowLocked().Add(d); due.Before(at) {
			at = due
		}
	}
	if t.timer != nil && !at.Before(t.wake) {
		return // the timer fires sooner anyway
	}
	t.wake = at
	d := max(at.Sub(t.nowLocked()), shortestNap)
	if t.timer == nil {
		t.timer = time.AfterFunc(d, t.tick)
	} else {
		t.timer.Reset(d)
	}
}

func (t *Tenure) tick() {
	if t.ctx.Err() != nil { // the process has ended
		t.Drop()
		return
	}
	t.do(func(now time.Time) {
		t.wake = now.Add(24 * time.Hour) // the timer has fired, so any next time is sooner
		t.core.Tick(now)
		t.dueLocked(now)
		t.shard.cfg.Appends.tailOf(t) // after a checkpoint or a recovery too
		t.followers.next(t, now)
		t.idle.look(t, now)
		t.walk.next(t, now)
		t.listAgainLocked(now)
	})
}

func (t *Tenure) asker() asker { return asker{&t.shard.cfg, t.ctx, &t.shard.writing} }

func (t *Tenure) sendLocked(r durable.Request) {
	if r.Op == durable.OpGet && len(r.IDs) == 1 && t.core.State() == durable.Open {
		t.loads.queue = append(t.loads.queue, r)
		t.loadLocked()
		return
	}
	if r.Op == durable.OpAppend {
		if t.next = &r; !t.appending {
			t.appending = true
			t.shard.cfg.Host.Go(t.append)
		}
		return
	}
	if r.Op == durable.OpHead && t.core.State() == durable.Claiming {
		t.shard.cfg.Claims.ask(t, func() { t.goAsk(r) })
		return
	}
	t.goAsk(r)
}

func (t *Tenure) goAsk(r durable.Request) { t.shard.cfg.Host.Go(func() { t.ask(r) }) }

func (t *Tenure) ask(r durable.Request) {
	a := t.asker().ask(r)
	if r.Op == durable.OpTrim && a.Err != nil && t.ctx.Err() == nil {
		t.shard.cfg.Host.Event(t, durable.Event{Kind: durable.Untrimmed, Err: a.Err})
	}
	t.do(func(now time.Time) { t.doneLocked(now, &r, a) })
}

func (t *Tenure) doneLocked(now time.Time, r *durable.Request, a durable.Response) {
	t.note(r, a)
	if stream := streamOf(r.Op); stream >= 0 && !errors.Is(a.Err, store.ErrBusy) {
		if a.Outcome == durable.NotApplied || a.Outcome == durable.Uncertain {
			t.away[stream] = true
		} else {
			t.backLocked(stream)
		}
	}
	t.idle.verify(t.core, &t.shard.cfg, now) // before the core counts its writes as kept
	if r.Op == durable.OpAppend && a.Err == nil {
		t.shard.cfg.Appends.written.Add(int64(len(r.Data)))
	}
	t.core.Done(now, a)
	if t.shard.cfg.Alone != nil {
		t.epoch.Store(t.core.Epoch())
	}
	if t.shard.cfg.Appends.tailOf(t) {
		t.core.Relieve(now)
	}
}

// streamOf returns which stream an operation writes: 0 means the log, 1 the records, -1 none.
func streamOf(op durable.Op) int {
	switch op {
	case durable.OpAppend:
		return 0
	case durable.OpPut, durable.OpSetHead:
		return 1
	default:
		return -1
	}
}

// backLocked counts a stream's outage at the end of the outage or the tenure.
func (t *Tenure) backLocked(stream int) {
	if t.away[stream] {
		t.away[stream] = false
		t.shard.cfg.Appends.outages.Add(1)
	}
}

// append sends the appends that the core requests, until no request is left. One goroutine sends
// them all, so that its stack grows only once.
func (t *Tenure) append() {
	for {
		t.mu.Lock()
		r := t.next
		t.next = nil
		t.appending = r != nil
		t.mu.Unlock()
		if r == nil {
			return
		}
		t.appended.Store(time.Now().UnixNano())
		t.ask(*r)
	}
}

// loadLocked starts to send waiting reads, unless maxReads are running. A read is sent only after
// all runnable goroutines have run, so that it has the records that other turns need now, too.
func (t *Tenure) loadLocked() {
	if !t.loads.begin() {
		return
	}
	t.shard.cfg.Host.Go(func() {
		runtime.Gosched()
		t.mu.Lock()
		together := t.loads.next()
		t.loadLocked()
		t.mu.Unlock()
		if together == nil {
			return
		}
		all := t.asker().askTogether(together)
		t.do(func(now time.Time) {
			t.loads.under--
			for i, a := range all {
				t.note(&together[i], a)
				t.core.Done(now, a)
			}
			t.loadLocked()
		})
	})
}

// note records the store's last error for callers that wait too long. A conflict does not count.
func (t *Tenure) note(r *durable.Request, a durable.Response) {
	if streamOf(r.Op) >= 0 && t.ctx.Err() == nil {
		t.shard.writing.ended(t.shard.cfg.Appends, a.Err)
	}
	switch {
	case r.Op == durable.OpTrim:
	case a.Err == nil:
		t.failed, t.failing, t.tellDoubt = nil, time.Time{}, false
	case !errors.Is(a.Err, store.ErrConflict) && t.ctx.Err() == nil:
		now := time.Now()
		if t.failing.IsZero() {
			t.failing = now
		}
		t.failed, t.tellDoubt = a.Err, now.Sub(t.failing) >= doubtAfter
	}
}

// Admit decides whether a command is run, answered with its stored answer or refused.
func (t *Tenure) Admit(c *durable.Command) (a durable.Admission) {
	a.Verdict = durable.Closed
	t.look(func(now time.Time) { a = t.core.Admit(now, c) })
	return a
}

// Keyed is Admit for a command with an idempotency key. The entity must be loaded: see
// [durable.Shard.Keyed].
func (t *Tenure) Keyed(entity string, c *durable.Command) (a durable.Admission) {
	a.Verdict = durable.Closed
	t.do(func(now time.Time) { a = t.core.Keyed(now, entity, c) })
	return a
}

// Discard ends a command whose turn commits nothing.
func (t *Tenure) Discard(c *durable.Command) {
	t.look(func(time.Time) { t.core.Discard(c) })
}

// Commit commits a turn that has changed something. It fails with durable.ErrNotOpen, or with
// durable.ErrTooLarge; after the latter, the caller must load the entity again.
func (t *Tenure) Commit(turn *durable.Turn) (ticket durable.Ticket, err error) {
	var after deferredEffects
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return 0, fmt.Errorf("commit: entity %q: %w", turn.Entity, durable.ErrNotOpen)
	}
	t.idle.changed = t.nowLocked()
	ticket, err = t.core.Commit(t.idle.changed, turn)
	if t.core.Waiting() && !t.shard.cfg.Appends.late(t) { // otherwise the answer to the running append sends this commit
		after = t.takeLocked()
	}
	t.mu.Unlock()
	after.run(t)
	return ticket, err
}

// Observe ends a turn that has changed nothing: see durable.Shard.Observe.
func (t *Tenure) Observe(entity string, leased bool) (ticket durable.Ticket) {
	t.do(func(now time.Time) { ticket = t.core.Observe(now, entity, leased) })
	return ticket
}

// Seen returns the ticket of the entity's last commit.
func (t *Tenure) Seen(entity string) (ticket durable.Ticket) {
	t.look(func(time.Time) { ticket = t.core.Seen(entity) })
	return ticket
}

// Then calls the function do once: with nil when the log has everything up to the ticket, or with
// ErrInDoubt if the tenure ends first. Then may call do before it returns. As long as the tenure
// lasts, ticket 0 counts as in the log.
func (t *Tenure) Then(ticket durable.Ticket, do func(error)) {
	t.then(wait{ticket, false, WaiterFunc(do)})
}

// Answer is like [Tenure.Then], but for a caller that will send the same command again. If the
// store has failed for doubtAfter, w gets the store's last error, so that the caller's timeout
// error can name the cause. The commit goes on.
func (t *Tenure) Answer(ticket durable.Ticket, w Waiter) { t.then(wait{ticket, true, w}) }

func (t *Tenure) then(w wait) {
	t.mu.Lock()
	switch {
	case t.over:
		t.mu.Unlock()
		w.Logged(t.inDoubt(durable.Event{}))
	case w.ticket <= durable.Ticket(t.reached.Load()):
		t.mu.Unlock()
		w.Logged(nil)
	default:
		t.waits = append(t.waits, w)
		t.mu.Unlock()
	}
}

// Appended returns when the last answered append was sent. In a function given to Then, that is the
// awaited append.
func (t *Tenure) Appended() time.Time { return time.Unix(0, t.appended.Load()) }

// Reached reports whether the tenure is open and the log has everything up to the ticket.
func (t *Tenure) Reached(ticket durable.Ticket) bool {
	return ticket <= durable.Ticket(t.reached.Load()) && t.open.Load()
}

// Wait waits until the log has everything up to the ticket. It fails with ErrInDoubt if the tenure
// ends first, and with ctx's error.
func (t *Tenure) Wait(ctx context.Context, ticket durable.Ticket) error {
	done := make(chan error, 1)
	t.Then(ticket, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("shard %v: %w: commit not acknowledged by the store%s", t.shard.cfg.Shard, ctx.Err(), t.trouble())
	}
}

// Load returns an entity's state for its activation. If the state is not in memory, Load waits for
// the store.
func (t *Tenure) Load(ctx context.Context, entity string) (durable.Loaded, error) {
	var l durable.Loaded
	var there bool
	got := make(chan durable.Loaded, 1)
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return l, fmt.Errorf("shard %v: %w", t.shard.cfg.Shard, ErrNotHere)
	}
	if l, there = t.core.Load(t.nowLocked(), entity); !there {
		t.loads.wait(entity, got)
	}
	after := t.takeLocked()
	t.mu.Unlock()
	after.run(t)
	if there {
		return l, nil
	}
	select {
	case l, ok := <-got:
		if !ok {
			return l, fmt.Errorf("shard %v: %w", t.shard.cfg.Shard, ErrNotHere)
		}
		return l, l.Err
	case <-ctx.Done():
		t.do(func(time.Time) {
			t.loads.forget(entity, got)
			t.core.Passivated(entity)
		})
		return l, fmt.Errorf("shard %v: read entity %q: %w%s", t.shard.cfg.Shard, entity, ctx.Err(), t.trouble())
	}
}

// Passivated undoes Load. The caller calls it after it has removed the entity from memory.
func (t *Tenure) Passivated(entity string) {
	t.do(func(time.Time) { t.core.Passivated(entity) })
}

// Shard returns the shard's name in the store.
func (t *Tenure) Shard() store.Shard { return t.shard.cfg.Shard }

// deferredEffects are effects of the core that must be carried out without the tenure's lock.
type deferredEffects struct {
	append  *durable.Request // the append to send from this goroutine; nil means none
	logged  []wait           // waits whose tickets are in the log
	doubted []wait           // waits that end with why
	why     error
	rest    []func()
}

func (a *deferredEffects) add(f func()) { a.rest = append(a.rest, f) }

// run carries out the effects, without the lock.
func (a *deferredEffects) run(t *Tenure) {
	if a.append != nil {
		t.beginAppend(a.append)
	}
	for _, w := range a.logged {
		w.Logged(nil)
	}
	for _, w := range a.doubted {
		w.Logged(a.why)
	}
	for _, f := range a.rest {
		f()
	}
}

const doubtAfter = time.Second

var errUnconfirmed = errors.New("commit not acknowledged by the store")

// askAgain splits the waits in two: due has those whose callers ask again after a store error, and
// kept the others. Both are copies. askAgain must not change the slice all, because slices of
// released waits share its memory.
func askAgain(all []wait) (due, kept []wait) {
	for _, w := range all {
		if w.again {
			due = append(due, w)
		} else {
			kept = append(kept, w)
		}
	}
	return due, kept
}
