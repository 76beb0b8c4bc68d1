package shard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/runtoken"
	"github.com/shardgen/shardgen/internal/turnwatch"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/transport"
)

// maxInline is the depth up to which nested local calls run on one goroutine; deeper
// ones queue.
const maxInline = 16

// turn is one turn of an entity, and the context that its method sees: it has the
// deadline and cancellation of the call and none of the caller's values, so that a
// method behaves alike for local and remote callers. It is the one allocation of a
// local call, and is never reused, because a method may keep its context. Where the method does not
// name its context there is none: see unseenTurn.
type turn struct {
	parent context.Context // a local caller's, or the encodedTurn or remoteTurn that this is part of
	entity *region.Entity
	method string        // that is called; "" means it has no call
	depth  int32         // number of turns on this goroutine that wait for this one
	flags  atomic.Uint32 // turnOver, gaveUp, and the entity's requests for its end
}

// The flags of a turn.
const (
	turnOver uint32 = 1 << iota
	gaveUp          // the caller of an encoded call has given up
	passivateAfter
	forgetAfter
	checkAfter // its method is marked //shard:read, and must not have changed the state
)

// shard returns the shard of the turn's entity.
func (t *turn) shard() *hostedShard { return hostedOf(t.entity) }

// up returns the turn that made this call on this goroutine, or nil at the start of the
// chain.
func (t *turn) up() *turn { return turnOf(t.parent) }

// over reports whether the turn has ended.
func (t *turn) over() bool { return t.flags.Load()&turnOver != 0 }

// end marks the turn as ended, before another may begin.
func (t *turn) end() { t.flags.Or(turnOver) }

// after returns the flags, for the end of the turn.
func (t *turn) after() uint32 { return t.flags.Load() }

// encodedTurn is a turn for an encoded call. For a tell nothing else is needed.
type encodedTurn struct {
	turn turn
	run  runtoken.Hold  // its hold on its lane or runner; zero means it has none
	from *peers.Session // the session on which its call came; nil means it is this process's own, or unusual has its sender
	// unusual has parts that only some calls have; nil means none.
	unusual *unusualCall
	ctx     atomic.Pointer[endable] // made when somebody asks
}

// remoteTurn is a turn for an encoded call, with the call's envelope.
type remoteTurn struct {
	encodedTurn
	deadline int64  // nanoseconds after the driver's base; 0 means none
	chain    []byte // encoded turns that wait for this one
}

// unseenTurn is the turn of a method that does not name its context. Nobody can ask it for anything,
// so it is nothing but a pointer to its entity, and takes no memory. It is a context because the
// method must be given one.
//
// Where the generated code is older than its source the method may use that context nevertheless. It
// is one that has ended, so that calls with it fail, and Err has the remedy.
type unseenTurn struct{ entity *region.Entity }

// End ends the turn of a local caller; see turn.End.
func (t unseenTurn) End(method string, recovered any, err error) error {
	if recovered != nil || err != nil {
		return endOddly(t.entity, 0, method, recovered, err)
	}
	hostedOf(t.entity).endTurn(t.entity)
	return nil
}

// Deadline returns none.
func (unseenTurn) Deadline() (at time.Time, ok bool) { return at, false }

// Done returns a channel that is closed.
func (unseenTurn) Done() <-chan struct{} { return closedChannel }

var closedChannel = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Err returns the reason why the context has ended.
func (t unseenTurn) Err() error {
	return fmt.Errorf("%w: the generated code of %s is older than its methods, one of which uses its context now (run go generate)",
		context.Canceled, hostedOf(t.entity).ID.Kind)
}

// Value returns nil, and logs why it does.
func (t unseenTurn) Value(any) any {
	s := hostedOf(t.entity)
	s.driver().seldom.warn(s.driver().log, "context used that the generated code does not know of", s.ID.Kind, "", "kind", s.ID.Kind, "err", t.Err())
	return nil
}

// turnKey is the key under which a context derived from a turn's context has the turn.
type turnKey struct{}

// turnOf returns the turn to which ctx belongs, or nil.
func turnOf(ctx context.Context) *turn {
	t, ok := ctx.(*turn)
	if !ok {
		t, _ = ctx.Value(turnKey{}).(*turn)
	}
	if t == nil || t.over() {
		return nil // a context that outlived its turn belongs to no turn
	}
	return t
}

// Deadline returns the deadline of the call.
func (t *turn) Deadline() (time.Time, bool) { return t.parent.Deadline() }

// Done is closed when the caller gives up or the deadline passes.
func (t *turn) Done() <-chan struct{} { return t.parent.Done() }

// Err returns the reason why Done is closed.
func (t *turn) Err() error { return t.parent.Err() }

// Value returns the turn itself, and none of the caller's values.
func (t *turn) Value(key any) any {
	if key == (turnKey{}) {
		return t
	}
	return nil
}

// encoded returns the additional fields of a turn for an encoded call, or nil for a
// local one.
func (t *turn) encoded() *encodedTurn {
	switch r := t.parent.(type) {
	case *encodedTurn:
		return r
	case *remoteTurn:
		return &r.encodedTurn
	case *durableTurn:
		return &r.encodedTurn
	}
	return nil
}

// Deadline returns none, because a tell has no deadline.
func (r *encodedTurn) Deadline() (time.Time, bool) { return time.Time{}, false }

// Deadline returns the deadline of the call.
func (r *remoteTurn) Deadline() (time.Time, bool) {
	if r.deadline == 0 {
		return time.Time{}, false
	}
	return r.turn.shard().driver().lease.Base().Add(time.Duration(r.deadline)), true
}

// Done is closed when the caller gives up, the deadline passes, or the turn or the node
// ends.
func (r *encodedTurn) Done() <-chan struct{} { return r.context().Done() }

// Err returns the reason why Done is closed.
func (r *encodedTurn) Err() error { return r.context().Err() }

// Value returns nil, because a caller's values are not encoded.
func (r *encodedTurn) Value(any) any { return nil }

// seen returns the context for the method of e. R is nil if nobody can see the turn.
func (r *encodedTurn) seen(e *region.Entity) context.Context {
	if r == nil {
		return unseenTurn{e}
	}
	return &r.turn
}

// context returns the context of package context, which it makes at the first call.
func (r *encodedTurn) context() *endable {
	if c := r.ctx.Load(); c != nil {
		return c
	}
	c, parent := &endable{}, r.turn.shard().driver().ctx
	if d, ok := r.turn.parent.(*durableTurn); ok && d.caller != nil {
		parent = d.caller
	}
	if at, ok := r.turn.Deadline(); ok {
		c.Context, c.cancel = context.WithDeadline(parent, at)
	} else {
		c.Context, c.cancel = context.WithCancel(parent)
	}
	if !r.ctx.CompareAndSwap(nil, c) {
		c.cancel()
		return r.ctx.Load()
	}
	if r.turn.flags.Load()&(turnOver|gaveUp) != 0 { // their cancel found no context yet
		c.cancel()
	}
	return c
}

// cancel cancels the method's context, and sets the flag.
func (r *encodedTurn) cancel(flag uint32) {
	r.turn.flags.Or(flag)
	if c := r.ctx.Load(); c != nil {
		c.cancel()
	}
}

// giveUp cancels the method's context.
func (r *encodedTurn) giveUp() { r.cancel(gaveUp) }

// finish ends the turn's context, before another turn may begin, and returns the turn's flags. Of a
// turn that nobody could see, which is nil, there are none.
func (r *encodedTurn) finish() (after uint32) {
	if r == nil {
		return 0
	}
	r.cancel(turnOver)
	return r.turn.after()
}

// yieldLane lets the turn's lane go on without this goroutine, before the turn waits.
func (t *turn) yieldLane() {
	for ; t != nil; t = t.up() {
		if r := t.encoded(); r != nil {
			r.run.HandOver()
			return
		}
	}
}

// appendChain appends the turns, encoded, that wait for a call made in t, outermost
// first.
func (t *turn) appendChain(b []byte) []byte {
	if t == nil {
		return b
	}
	switch r := t.parent.(type) {
	case *remoteTurn:
		b = append(b, r.chain...)
	case *durableTurn:
		b = append(b, r.chain...)
	case *encodedTurn: // nobody waits for a tell
	default:
		b = t.up().appendChain(b)
	}
	id := t.shard().ID
	return wire.AppendLink(b, id.Kind, t.entity.ID, id.Shard)
}

// ErrNoEpoch means that [Epoch] was called outside a turn of a durable type.
var ErrNoEpoch = errors.New("ctx is not that of a turn of a durable type, whose epochs grow over full restarts")

// Epoch returns the epoch of the turn to which ctx belongs, for conditional writes to a
// database of your own. It is a number that only grows for the entity, over moves, crashes
// and full restarts. A write under an epoch lower than one that the database has seen comes
// from a former home and must be refused. It fails with ErrNoEpoch if ctx belongs to no turn
// of a durable type.
func Epoch(ctx context.Context) (uint64, error) {
	t := turnOf(ctx)
	if t == nil || t.shard().durable == nil {
		return 0, ErrNoEpoch
	}
	if d := durableOf(t); d != nil {
		if d.tenure == nil {
			return 0, fmt.Errorf("%w: an interceptor asks, before its turn has begun", ErrNoEpoch)
		}
		return d.tenure.Epoch(), nil
	}
	a := t.shard().durable.entity(t.entity) // of a turn that only reads
	if a == nil {
		return 0, fmt.Errorf("%w: its shard was lost meanwhile", ErrNoEpoch)
	}
	return a.tenure.Epoch(), nil
}

// AfterCommit has f called once the store has everything that the turn of ctx has changed and seen,
// with nil, or with an error when the shard's home does not know whether the store has it: the next
// home does then. The turn's answer leaves after that. It is for interceptors of a host, after next
// has returned; ctx is the interceptor's. It returns false and does not call f if nothing is waited
// for: the type is not durable, or the store already has all that the turn changed and saw. f must
// not block.
func AfterCommit(ctx context.Context, f func(err error)) bool {
	d := durableOf(turnOf(ctx))
	if d == nil || d.tenure == nil || d.ticket == 0 || d.mayLeave() {
		return false
	}
	d.tenure.Then(d.ticket, f)
	return true
}

// End ends a local caller's turn and returns the caller's error, which is the same as
// for a remote caller.
func (t *turn) End(method string, recovered any, err error) error {
	t.end()
	if recovered != nil || err != nil || t.after() != turnOver {
		return endOddly(t.entity, t.after(), method, recovered, err)
	}
	t.shard().endTurn(t.entity)
	return nil
}

// endOddly ends a local caller's turn that failed or has further requests, such as Passivate.
func endOddly(e *region.Entity, after uint32, method string, recovered any, err error) error {
	s := hostedOf(e)
	if recovered == nil && after&checkAfter != 0 {
		if wrote := s.durable.checkRead(e, method); wrote != nil {
			s.endTurnOf(e, after, nil)
			return s.host.notRun(e.ID, method, wrote)
		}
	}
	var failed *failure
	switch {
	case recovered != nil:
		s.host.died(fmt.Sprintf("panic in %s: %v", method, recovered))
		failed = s.host.panicFailure(e.ID, method, fmt.Sprint(recovered))
		if s.durable != nil { // as for an encoded turn, it may have changed the state
			s.host.lost(e)
			e.Clear()
		}
	case err != nil:
		failed = s.host.failureOf(e.ID, method, err)
	}
	s.endTurnOf(e, after, failed)
	if recovered != nil {
		s.host.logPanic(e.ID, method, recovered)
		return &EntityError{Kind: s.ID.Kind, ID: e.ID, Method: method, Text: fmt.Sprint(recovered), Panic: true}
	}
	switch err := err.(type) { //nolint:errorlint
	case nil:
		return nil
	case *codegen.ArgumentsError:
		return s.host.notRun(e.ID, method, err.Err)
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

// runTell runs a tell's method in a turn that has begun, and ends the turn. It reports
// whether this goroutine still has the run token. from is the session on which the tell came; nil:
// it is this process's own.
func runTell(s *hostedShard, m *hostedMethod, e *region.Entity, name string, args []byte, from *peers.Session, b *runtoken.Token) bool {
	var t *encodedTurn
	w, run := s.driver().turns.Load(), b.Enter()
	if !m.unseen || w != nil {
		t = &encodedTurn{run: run, from: from}
		t.turn.parent, t.turn.entity, t.turn.method = t, e, name
	}
	if w != nil {
		t.turn.watched(w)
	}
	failed := invokeTold(t, m, e, name, args, run)
	after, kept := t.finish(), run.Leave()
	if !kept {
		s.lostToken(e)
	}
	s.endTurnOf(e, after, failed)
	return kept
}

// invokeTold runs the method of a tell. Only the supervisor gets its error, which invokeTold
// returns; the results are dropped.
func invokeTold(t *encodedTurn, m *hostedMethod, e *region.Entity, name string, args []byte, run runtoken.Hold) (failed *failure) {
	s, returned := hostedOf(e), false
	defer func() {
		if returned {
			return
		}
		if r := recover(); r != nil {
			s.host.notePanic(e.ID, name, r)
			failed = s.host.panicFailure(e.ID, name, fmt.Sprint(r))
			return
		}
		// runtime.Goexit ends this goroutine, so another one must take over the run
		// token.
		run.HandOver()
		s.lostToken(e)
		s.host.died("runtime.Goexit in " + name)
		s.endTurnOf(e, t.finish(), s.host.panicFailure(e.ID, name, "runtime.Goexit"))
	}()
	if _, err := m.run(t.seen(e), e.Value, args, nil); err != nil {
		failed = s.host.failureOf(e.ID, name, err)
	}
	returned = true
	return failed
}

// CallInfo returns the description of the call whose turn ctx belongs to: the context of a method, or
// of OnActivate if a call activates the entity. It reports false for other contexts, also after the
// turn has ended. A local call keeps 16 bytes for it; the rest is put together here.
func CallInfo(ctx context.Context) (Info, bool) {
	t := turnOf(ctx)
	if t == nil || t.method == "" {
		return Info{}, false
	}
	return t.info(), true
}

// unusualCall has the parts of a call that only some encoded calls have, for [CallInfo].
type unusualCall struct {
	sender transport.Peer // not the other end of the session, because the call was forwarded
	info   []byte
	tell   bool // of a durable entity, whose turn does not say so itself
}

// info returns the description of the turn's call.
func (t *turn) info() Info {
	s := t.shard()
	i := Info{Kind: s.ID.Kind, ID: t.entity.ID, Method: t.method}
	said, sender := wire.Info{}, s.driver().self
	r := t.encoded()
	if r == nil {
		if o := outgoingOf(t.parent); o != nil {
			said = o.info
		}
		if up := t.up(); up != nil {
			i.From.Kind, i.From.ID = up.shard().ID.Kind, up.entity.ID
		}
	} else {
		switch {
		case r.unusual != nil && !r.unusual.sender.IsZero():
			sender = r.unusual.sender
		case r.from != nil:
			sender = r.from.Peer()
		}
		if r.unusual != nil {
			said, _ = wire.ParseInfo(r.unusual.info) // a client's was checked when it came
		}
		i.From.Kind, i.From.ID = r.caller()
		i.Tell = t.parent == context.Context(r) || said.Told || r.unusual != nil && r.unusual.tell
	}
	i.headers = said.Headers
	i.From.Class, i.From.Name, i.From.Incarnation = ClassMember, sender.Name, sender.Incarnation
	switch {
	case sender.Client:
		i.From.Class = ClassClient
	case said.Gateway != "":
		i.From.Class, i.From.Name, i.From.Incarnation = ClassGateway, said.Gateway, 0
	}
	return i
}

// watched counts a turn that begins, while an operator looks.
func (t *turn) watched(w *turnwatch.Watch) {
	if t.method != "" { // else it has no call
		w.Begin(t.entity, t.described(), time.Now())
	}
}

// described describes a turn that has a call, for operators.
func (t *turn) described() turnwatch.Turn {
	info := t.info()
	from := info.From.String()
	if info.From.Kind != "" {
		from = "entity " + info.From.Kind + "/" + clip(info.From.ID)
	}
	return turnwatch.Turn{
		Entity: turnwatch.Entity{Kind: info.Kind, ID: strings.Clone(info.ID)}, Method: strings.Clone(info.Method), From: from,
	}
}

// caller returns the entity whose turn waits for this one; "" means none.
func (r *encodedTurn) caller() (kind, id string) {
	var chain []byte
	switch whole := r.turn.parent.(type) {
	case *remoteTurn:
		chain = whole.chain
	case *durableTurn:
		chain = whole.chain
	}
	links, err := wire.ParseChain(chain)
	if err != nil || len(links) == 0 {
		return "", ""
	}
	last := links[len(links)-1]
	return last.Kind, last.Entity
}

// durableTurn is a turn of a durable type's entity.
type durableTurn struct {
	remoteTurn
	tenure  *durablehost.Tenure
	read    bool            // its method changes nothing
	command durable.Command // the zero Command: none
	ticket  durable.Ticket  // the answer waits for it
	seen    durable.Ticket  // calls that the turn makes wait for it
	caller  context.Context // if the turn runs on its caller's goroutine, whose end ends the turn's context; otherwise nil

	mu    sync.Mutex
	wakes bool // OnActivate runs
	calls durable.Calls
	tells durableTells
}

// durableOf returns t as a turn of a durable type, or nil if it is none.
func durableOf(t *turn) *durableTurn {
	if t == nil {
		return nil
	}
	d, _ := t.parent.(*durableTurn)
	return d
}

// mayLeave reports whether the answer may leave at once.
func (d *durableTurn) mayLeave() bool { return d.tenure.Reached(d.ticket) }

// answer sends an answer when everything that it saw is in the log. If the tenure ends
// before that, the caller of a command sends it to the next home; the outcome of any other call
// is Unknown.
func (d *durableTurn) answer(drv *driver, c *inCall, a answer) {
	a.after = nil
	drv.answering.Add(1)
	do := func(err error) {
		defer drv.answering.Add(-1)
		if err != nil {
			a = answer{code: wire.CodeInDoubt, text: err.Error()}
		}
		c.answer(drv, a, peers.Pumps{})
	}
	if c.hasCommand() {
		d.tenure.Answer(d.ticket, do) // its caller asks again
	} else {
		d.tenure.Then(d.ticket, do)
	}
}

// before waits until everything that the turn saw is in the log, because something is
// about to leave the turn.
func (d *durableTurn) before(ctx context.Context) error {
	if d.tenure == nil || d.tenure.Reached(d.seen) { // nil: it is an interceptor's call
		return nil
	}
	d.turn.yieldLane()
	return d.tenure.Wait(ctx, d.seen)
}

// activating notes that OnActivate runs, until end is called.
func (d *durableTurn) activating() (end func()) {
	set := func(on bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.wakes = on
	}
	set(true)
	return func() { set(false) }
}

// nested is the command of a call that the turn makes; it is zero if the turn has no
// command. Calls of OnActivate are not the command's: when the command runs again, OnActivate
// may not.
func (d *durableTurn) nested(kind, entity, method string) durablehost.ID {
	if d.command.Number == 0 {
		return durablehost.ID{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wakes {
		return durablehost.ID{}
	}
	id := d.turn.shard().ID
	return durablehost.Nested(d.command, durable.Target{Log: id.Kind, Shard: id.Shard}, &d.calls, kind, entity, method)
}
