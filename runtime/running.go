package shard

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/nocopy"
	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/runtoken"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// answer is the answer to a turn's caller.
type answer struct {
	code    wire.Code
	text    string
	payload *[]byte      // of CodeOK: the results, in a buffer of replyPool; of CodeMethodError: causes
	after   *durableTurn // whose log must have what the answer saw; nil: it may leave at once
}

// replyPool keeps the buffers that results are encoded into. None is nil.
var replyPool = sync.Pool{New: func() any { return &[]byte{} }}

// runTurn runs a remote call's turn, on the lane's goroutine unless turns take
// long. It reports whether this goroutine still has the lane afterwards.
func (l *lane) runTurn(sh *hostedShard, e *region.Entity, c *inCall) bool {
	l.wake() // a turn may take long
	if l.slow.IsSlow() && sh.runAlone(e, c, &l.slow) {
		return true
	}
	l.plane.watch.Awake()
	c.run = l.Enter()
	a := sh.guarded(e, c)
	if !c.run.Leave() {
		sh.finish(c, a, c.failed(), nil)
		return false
	}
	l.slow.Ran(c.began)
	sh.endTurnOf(c.turn(), c.failed())
	sh.plane().answerTurn(c, a, l)
	return true
}

// maxAlone bounds the turns of remote calls that have a goroutine of their own.
// Beyond it the lane runs turns itself, and so makes the senders wait.
const maxAlone = 16 << 10

// runAlone runs a turn on a goroutine of its own, unless there are too many.
func (s *hostedShard) runAlone(e *region.Entity, c *inCall, p *runtoken.SlowTurnDetector) bool {
	pl := s.plane()
	if pl.alone.Add(1) > maxAlone {
		pl.alone.Add(-1)
		return false
	}
	pl.wg.Go(func() {
		defer pl.alone.Add(-1)
		a := s.guarded(e, c)
		p.Took(time.Duration(pl.lease.Now() - c.began))
		s.finish(c, a, c.failed(), peers.Pumps{})
	})
	return true
}

// runQueued runs a turn on a runner's goroutine. It reports whether this goroutine
// still has the run token afterwards.
func (s *hostedShard) runQueued(e *region.Entity, c *inCall, r *turnRunner) bool {
	c.run = r.Enter()
	a := s.guarded(e, c)
	kept := c.run.Leave()
	told := c.told // finish copies the others
	s.finish(c, a, c.failed(), peers.Pumps{})
	if kept && told {
		r.told.keep(c)
	}
	return kept
}

// finish ends a turn and answers its call. A process that leaves does not wait for this
// goroutine, so it waits for the answers that are under way.
func (s *hostedShard) finish(c *inCall, a answer, failed *failure, by peers.Publisher) {
	pl, answers := s.plane(), c.ID != 0
	if answers {
		pl.answering.Add(1)
		defer pl.answering.Add(-1)
	}
	s.endTurnOf(c.turn(), failed)
	pl.answerTurn(c, a, by)
}

// answerTurn sends the result of a turn, unless its call was a tell, and ends the call.
// An answer to another process waits in its session for the lease if it must, one to
// a caller in this process on a goroutine.
func (pl *plane) answerTurn(c *inCall, a answer, by peers.Publisher) {
	if a.after != nil && c.ID != 0 && !a.after.mayLeave() {
		a.after.answer(pl, c, a)
		return
	}
	own := c.Sender.Address == pl.self.Address
	if c.ID != 0 && own && !pl.lease.MayAnswer() {
		pl.wg.Go(func() { pl.answerLeased(c, a) })
		return
	}
	if c.ID != 0 {
		pl.answerNow(c, a, by)
	}
	if a.payload != nil && (c.ID == 0 || !own) && cap(*a.payload) <= 64<<10 {
		replyPool.Put(a.payload) // it was copied into the session
	}
	if l, ok := by.(*lane); ok {
		l.keep(c)
	} else {
		c.recycle()
	}
}

func (pl *plane) answerNow(c *inCall, a answer, by peers.Publisher) {
	e := wire.Envelope{Type: wire.TypeReply, ID: c.ID, Code: a.code, Text: nocopy.Bytes(clipText(a.text))}
	if a.payload != nil {
		e.Payload = *a.payload
	}
	if a.code != wire.CodeOK {
		if room := pl.maxResult(); len(e.Text)+len(e.Payload) > room {
			e.Text, e.Payload = e.Text[:min(len(e.Text), room)], nil // the text is what people read
		}
	}
	pl.answer(c, &e, by)
}

// answerLeased sends an answer once this node may: somebody else may have run
// the entity since, if the cluster has given this node up. Then it never does.
func (pl *plane) answerLeased(c *inCall, a answer) {
	if pl.waitLease(pl.ctx) == nil {
		pl.answerNow(c, a, nil)
	}
}

// maxErrorText bounds the text of an error on the wire.
const maxErrorText = 64 << 10

func clipText(s string) string { return s[:min(len(s), maxErrorText)] }

// guarded is runCall that survives a method calling runtime.Goexit, which ends this
// goroutine: the lane, the entity and the caller must not wait for it.
func (s *hostedShard) guarded(e *region.Entity, c *inCall) (a answer) {
	returned := false
	defer func() {
		if returned {
			return
		}
		c.run.HandOver()
		s.died("runtime.Goexit in " + string(c.Method))
		failed := s.panicFailure(e.ID, string(c.Method), "runtime.Goexit")
		s.finish(c, answer{code: wire.CodePanic, text: "runtime.Goexit"}, failed, nil)
	}()
	a = s.runCall(e, c)
	returned = true
	return a
}

// hostedOf is the shard that the entity is one of.
func hostedOf(e *region.Entity) *hostedShard { return e.Shard().Driver.(*hostedShard) }

// tryEnter begins a turn without the shard's lock, if that can be.
func (s *hostedShard) tryEnter(e *region.Entity) bool { return s.entered(e, e.Enter()) }

func (s *hostedShard) entered(e *region.Entity, how region.Entry) bool {
	switch how {
	case region.Entered:
		return true
	case region.Withdrawn:
		s.EndTurn(e)
	}
	return false
}

// look finds the reference's entity, without the shard's lock.
func (s *hostedShard) look(r *codegen.Ref) *region.Entity {
	hash := r.Hash
	if s.host.desc.Hash != nil { // the user's
		hash = region.Hash(r.ID)
	}
	return s.Core.Look(hash, r.ID)
}

// enter begins a turn on the caller's goroutine, for a reference that has not met
// the entity, or whose entity is gone or has something to do; nil where it has to
// wait.
func (s *hostedShard) enter(r *codegen.Ref) *region.Entity {
	if e := s.look(r); e != nil && s.tryEnter(e) {
		r.Near.Store(e)
		return e
	}
	e := s.Begin(r.ID)
	if e != nil {
		r.Near.Store(e)
	}
	return e
}

// endTurn gives the entity to the next call.
func (s *hostedShard) endTurn(e *region.Entity) {
	if !e.Leave(s.plane().clock.Load()) {
		s.EndTurn(e)
	}
}

// runCall runs one encoded call on its entity.
func (s *hostedShard) runCall(e *region.Entity, c *inCall) answer {
	pl := s.plane()
	r := c.newTurn(e)
	t := &r.turn
	defer r.finish()
	var now int64
	if !c.told || !s.mayRunInline() { // a tell of this process has no deadline either
		now = pl.lease.Now()
		c.began = now
		if !s.mayRunAt(now) {
			if a, ok := s.leased(t); !ok {
				return a
			}
			now = pl.lease.Now()
		}
	}
	if c.Deadline != 0 && now > c.Deadline {
		pl.counters.add(callExpired)
		return answer{code: wire.CodeExpired}
	}
	method, ok := s.host.desc.Dispatch[string(c.Method)]
	if !ok {
		return answer{code: wire.CodeNoMethod, text: string(c.Method)}
	}
	if s.durable != nil {
		return s.durable.run(t.parent.(*durableTurn), e, c, method)
	}
	if e.Value == nil {
		if err := s.activate(t, e); err != nil {
			return notActivated(s, r, e, c, err)
		}
		if a, ok := s.leased(t); !ok { // the hook may have taken long
			return a
		}
	}
	return runMethod(s, r, e, c, method)
}

// notActivated is the answer to a call whose entity could not be activated.
func notActivated(s *hostedShard, r *encodedTurn, e *region.Entity, c *inCall, err error) answer {
	pl := s.plane()
	r.failed = &failure{string(c.Method), fmt.Errorf("%w: %w", ErrActivation, err)}
	if n, tell := pl.seldom.tell("activation failed", s.ID.Kind, ""); tell {
		pl.log.Error("activation failed", "kind", s.ID.Kind, "entity", clip(e.ID), "err", err, "count", n)
	}
	return answer{code: wire.CodeActivation, text: err.Error()}
}

// runMethod runs the method of an encoded call on its entity, which is active.
func runMethod(s *hostedShard, r *encodedTurn, e *region.Entity, c *inCall, method codegen.Method) answer {
	pl, t := s.plane(), &r.turn
	var buf *[]byte
	var out []byte // nil: nobody wants the results
	if c.ID != 0 {
		buf = replyPool.Get().(*[]byte)
		out = (*buf)[:0]
	}
	out, err := s.invoke(method, t, c, out)
	if err != nil {
		r.failed = s.failureOf(e.ID, string(c.Method), err)
		return methodError(s.host.kind.errors, err)
	}
	if buf == nil {
		return answer{}
	}
	*buf = out
	if len(out) > smallMessage {
		if limit := pl.maxResult(); len(out) > limit {
			return answer{code: wire.CodeTooLarge, text: fmt.Sprintf("%d bytes of results, at most %d", len(out), limit)}
		}
	}
	return answer{payload: buf}
}

// leased waits until a remote turn may run. ok is false when it never may here.
func (s *hostedShard) leased(t *turn) (a answer, ok bool) {
	if s.mayRun() {
		return answer{}, true
	}
	t.yieldLane()
	switch err := s.waitLease(t); {
	case err == nil:
		return answer{}, true
	case errors.Is(err, errNoLease):
		return answer{code: wire.CodeDropped}, false // the caller looks for the next instance
	case errors.Is(err, ErrClosed):
		return answer{code: wire.CodeStopped}, false
	}
	return answer{code: wire.CodeExpired, text: noContact(s.plane().self.Name)}, false
}

// maxResult is the largest result that fits the broker.
func (pl *plane) maxResult() int {
	return max(pl.link().MaxPayload(), minPayload) - wire.MaxFrameHeader - wire.Overhead
}

// methodError is the answer for an error that a method, or decoding its
// arguments, came to.
func methodError(table func() []codegen.Error, err error) answer {
	// Only the value itself counts: a method may return the error of a nested call, and
	// no call returns one of these.
	switch err := err.(type) { //nolint:errorlint
	case *panicked:
		return answer{code: wire.CodePanic, text: err.Error()}
	case *codegen.ArgumentsError:
		return answer{code: wire.CodeBadArgs, text: err.Error()}
	case *codegen.ResultsError:
		return answer{code: wire.CodeNoResult, text: err.Error()}
	}
	text, causes := codegen.DescribeError(table(), err)
	a := answer{code: wire.CodeMethodError, text: text}
	if len(causes) > 0 {
		a.payload = &causes
	}
	return a
}

// failureOf is a method's error as a supervisor sees it; nil where the method did
// not run, or its results are at fault.
func (s *hostedShard) failureOf(id, method string, err error) *failure {
	switch err := err.(type) { //nolint:errorlint // only the value itself counts
	case *panicked:
		return s.panicFailure(id, method, err.Error())
	case *codegen.ArgumentsError, *codegen.ResultsError:
		return nil
	}
	return &failure{method, err}
}

func (s *hostedShard) panicFailure(id, method, text string) *failure {
	return &failure{method, &EntityError{Kind: s.ID.Kind, ID: id, Method: method, Text: text, Panic: true}}
}

// panicked is a method's panic on its way to the caller.
type panicked struct{ value any }

func (p *panicked) Error() string { return fmt.Sprint(p.value) }

// invoke runs the method and turns a panic into an error.
func (s *hostedShard) invoke(m codegen.Method, t *turn, c *inCall, buf []byte) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.notePanic(t.entity.ID, string(c.Method), r)
			out, err = nil, &panicked{r}
		}
	}()
	return m(t, t.entity.Value, c.Args, buf)
}

// notePanic is about a method's panic, which a singleton's instance does not outlive.
func (s *hostedShard) notePanic(id, method string, r any) {
	s.logPanic(id, method, r)
	s.died(fmt.Sprintf("panic in %s: %v", method, r))
}

// died ends a singleton's instance; other entities live on.
func (s *hostedShard) died(why string) {
	if s.host.instance != nil {
		s.host.instance.Fail(why)
	}
}

func (s *hostedShard) logPanic(entity, method string, r any) {
	const text = "panic in an entity's turn"
	if n, tell := s.plane().seldom.tell(text, s.ID.Kind, method); tell {
		s.plane().log.Error(text, "kind", s.ID.Kind, "entity", clip(entity),
			"method", method, "panic", r, "count", n, "stack", string(debug.Stack()))
	}
}

func panicError(what string, r any) error { return fmt.Errorf("%w in %s: %v", ErrPanic, what, r) }

// begin starts a turn of a local caller on its own goroutine.
func (s *hostedShard) begin(ctx context.Context, up *turn, e *region.Entity, method string) (codegen.Turn, error) {
	t := &turn{parent: ctx, entity: e}
	if up != nil {
		t.depth = up.depth + 1
	}
	if e.Value == nil || !s.mayRunInline() {
		if err := s.beginSlowly(t, method); err != nil {
			return codegen.Turn{}, err
		}
	}
	return codegen.Turn{Entity: e.Value, Context: t}, nil
}

// beginSlowly is for turns that cannot begin at once; one that cannot at all has
// ended when it returns.
func (s *hostedShard) beginSlowly(t *turn, method string) error {
	prepared := false
	var failed *failure
	defer func() { // also when a hook ends this goroutine
		if !prepared {
			t.end()
			s.endTurnOf(t, failed)
		}
	}()
	failed, err := s.prepareTurn(t, method)
	prepared = err == nil
	return err
}

// prepareTurn does the rare steps before a turn: it waits for the lease and activates.
// failed is the failure that the supervisor decides about.
func (s *hostedShard) prepareTurn(t *turn, method string) (failed *failure, err error) {
	t.yieldLane()
	ctx, cancel := t.parent, context.CancelFunc(func() {})
	if _, ok := ctx.Deadline(); !ok {
		ctx, cancel = context.WithTimeout(ctx, s.plane().cfg.CallTimeout)
	}
	defer cancel()
	if err := s.waitLease(ctx); err != nil {
		return nil, s.notRun(t.entity.ID, method, s.leaseError(err))
	}
	if t.entity.Value != nil {
		return nil, nil
	}
	if err := s.activate(t, t.entity); err != nil {
		return &failure{method, fmt.Errorf("%w: %w", ErrActivation, err)},
			s.notRun(t.entity.ID, method, fmt.Errorf("%w: %w (the log of the entity's node has more)", ErrActivation, err))
	}
	if err := s.waitLease(ctx); err != nil { // the hook may have taken long
		return nil, s.notRun(t.entity.ID, method, s.leaseError(err))
	}
	return nil, nil
}

func (s *hostedShard) notRun(id, method string, err error) error {
	return &CallError{Kind: s.ID.Kind, ID: id, Method: method, Outcome: NotExecuted, Err: err}
}

// End ends a local caller's turn and returns the error that the caller gets: the
// same as a remote one would.
func (t *turn) End(method string, recovered any, err error) error {
	t.end()
	if recovered != nil || err != nil || t.flags.Load() != turnOver {
		return t.endOddly(method, recovered, err)
	}
	t.shard().endTurn(t.entity)
	return nil
}

// endOddly is End for a turn that failed, or after which more is to be done.
func (t *turn) endOddly(method string, recovered any, err error) error {
	s, e := t.shard(), t.entity
	var failed *failure
	switch {
	case recovered != nil:
		s.died(fmt.Sprintf("panic in %s: %v", method, recovered))
		failed = s.panicFailure(e.ID, method, fmt.Sprint(recovered))
		if s.durable != nil { // as where the turn is encoded: it may have changed something
			s.host.lost(e)
			e.Value, e.State = nil, nil
		}
	case err != nil:
		failed = s.failureOf(e.ID, method, err)
	}
	s.endTurnOf(t, failed)
	if recovered != nil {
		s.logPanic(e.ID, method, recovered)
		return &EntityError{Kind: s.ID.Kind, ID: e.ID, Method: method, Text: fmt.Sprint(recovered), Panic: true}
	}
	switch err := err.(type) { //nolint:errorlint
	case nil:
		return nil
	case *codegen.ArgumentsError:
		return s.notRun(e.ID, method, err.Err)
	case *codegen.ResultsError:
		return &CallError{Kind: s.ID.Kind, ID: e.ID, Method: method, Outcome: Executed, Err: noResult(err.Err)}
	default:
		text, causes := codegen.DescribeError(s.host.kind.errors(), err)
		return &EntityError{
			Kind: s.ID.Kind, ID: e.ID, Method: method, Text: clipText(text),
			causes: codegen.Causes(s.host.kind.errors(), causes),
		}
	}
}

// mayRunInline is mayRun for a turn on its caller's goroutine: by the coarse clock
// if the lease lasts longer than that can be wrong.
func (s *hostedShard) mayRunInline() bool {
	pl := s.plane()
	if !pl.watch.Valid(&pl.lease) && !pl.lease.Valid() {
		return false
	}
	return s.host.instance == nil || s.host.instance.LeaseValid()
}
