package node

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/counting"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/driver/runner"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/transport"
)

// maxInline bounds nested local calls on one goroutine. Deeper calls queue.
const maxInline = 16

// turn is one turn of an entity, and the context of its method. As a context it has the call's
// deadline and cancellation, but no values, because a remote caller's values are not sent either. A
// turn is never reused, because the method may keep the context. For a method that does not use its
// context, see unseenTurn.
type turn struct {
	parent context.Context // a local caller's context, or the encodedTurn, remoteTurn or durableTurn that contains this turn
	entity *region.Entity
	method string        // the called method; "" for a turn without a call
	depth  int32         // number of turns on this goroutine that wait for this turn
	flags  atomic.Uint32 // turnOver, gaveUp, and how the entity asked to end
}

const (
	turnOver uint32 = 1 << iota
	gaveUp          // the caller of an encoded call has given up
	passivateAfter
	forgetAfter
	checkAfter // the method is marked //shard:read: check that the state has not changed
	endsAfter  // the caller's context is an endable, with the timeout of a local caller's reference
	timedTurn  // parent is a timing
)

func (t *turn) shard() *HostedShard { return hostedOf(t.entity) }

// up returns the turn whose method made the call that this turn runs. It returns nil if no turn
// made the call. It also returns nil for the turn that an unseenTurn makes when its method fails.
func (t *turn) up() *turn {
	if t.parent == nil {
		return nil
	}
	return turnOf(t.parent)
}

func (t *turn) over() bool { return t.flags.Load()&turnOver != 0 }

func (t *turn) end() { t.flags.Or(turnOver) }

func (t *turn) after() uint32 { return t.flags.Load() }

// encodedTurn is the turn of an encoded call. A tell of a volatile entity has only an encodedTurn.
// Other calls have a remoteTurn or a durableTurn, which contains it.
type encodedTurn struct {
	turn   turn
	run    runner.Hold    // its hold on its lane or runner; zero means none
	from   *peers.Session // the session on which the call came; nil for a call of this process, or if unusual has the sender
	era    uint32         // the era in which the turn began: see Turning
	hidden bool           // the method does not name its context, and gets an unseenTurn
	// unusual has data that only few calls have; nil means none.
	unusual *unusualCall
	ctx     atomic.Pointer[endable] // nil until somebody asks for the context
}

// remoteTurn is the turn of an encoded ask; a durableTurn contains one.
type remoteTurn struct {
	encodedTurn
	deadline int64  // nanoseconds after the driver's base; 0 means none
	chain    []byte // the turns that wait for this one, encoded
}

// unseenTurn is the context for a method that, by the generated code, does not use its context. If
// the generated code is outdated, the method may use it after all. Calls with this context then
// fail, and Err says to generate the code again.
type unseenTurn struct{ entity *region.Entity }

// End ends the turn of a local caller; see turn.End.
func (t unseenTurn) End(method string, recovered any, err error) error {
	if recovered != nil || err != nil {
		return (&turn{entity: t.entity}).endOddly(method, recovered, err)
	}
	hostedOf(t.entity).finishAsk(t.entity)
	return nil
}

// timedUnseenTurn is an unseenTurn that is timed.
type timedUnseenTurn struct {
	unseenTurn
	caller context.Context
	began  int64
}

// End counts the turn and ends it.
func (t *timedUnseenTurn) End(method string, recovered any, err error) error {
	if recovered != nil || err != nil {
		return t.unseenTurn.End(method, recovered, err)
	}
	s := hostedOf(t.entity)
	note, _ := t.entity.Note()
	took := s.driver().since(t.began)
	n := s.Host.Kind.Counts.Timed(s.words, int(note), counting.Ask, took)
	s.spentWithin(turnOf(t.caller), n, took)
	if n = s.driver().due(n); n > 0 {
		s.driver().noteTurn((&turn{parent: t.caller, entity: t.entity, method: method}).described(), n, took)
	}
	s.FinishTurn(t.entity)
	return nil
}

func (unseenTurn) Deadline() (at time.Time, ok bool) { return at, false }

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

// Value returns nil, and logs why the context must not be used.
func (t unseenTurn) Value(any) any {
	s := hostedOf(t.entity)
	s.driver().Limiter.Warn(s.driver().Logger, "a method used its context, but the generated code does not know that", s.ID.Kind, "", "kind", s.ID.Kind, "err", t.Err())
	return nil
}

type turnKey struct{}

// turnOf returns the turn that ctx belongs to, or nil.
func turnOf(ctx context.Context) *turn {
	t, _ := callerOf(ctx)
	return t
}

// callerOf returns the turn or the mapping of a feed that ctx belongs to, or neither.
func callerOf(ctx context.Context) (t *turn, m *mapping) {
	t, ok := ctx.(*turn)
	if !ok {
		switch v := ctx.Value(turnKey{}).(type) {
		case *turn:
			t = v
		case *mapping:
			return nil, v
		}
	}
	if t == nil || t.over() {
		return nil, nil // a context that outlived its turn belongs to no turn
	}
	return t, nil
}

// Deadline returns the deadline of the call.
func (t *turn) Deadline() (time.Time, bool) { return t.parent.Deadline() }

// Done is closed when the caller gives up or the deadline passes.
func (t *turn) Done() <-chan struct{} { return t.parent.Done() }

// Err returns the reason why Done is closed.
func (t *turn) Err() error { return t.parent.Err() }

// Value returns the turn for turnKey, the caller's trace for the key of traces, and nil for any other
// key.
func (t *turn) Value(key any) any {
	if key == (turnKey{}) {
		return t
	}
	if tr := t.shard().driver().tracing; tr != nil && key == tr.key {
		return t.callersTrace(tr)
	}
	return nil
}

// encodedParent is the parent context of an encoded call's turn.
type encodedParent interface {
	context.Context
	whole() *encodedTurn   // the encodedTurn that it is or contains
	waiting() []byte       // the turns that wait for this one, encoded
	base() context.Context // the context whose end ends the turn's
}

func (t *turn) encoded() *encodedTurn {
	if p, ok := t.parent.(encodedParent); ok {
		return p.whole()
	}
	return nil
}

func (r *encodedTurn) whole() *encodedTurn { return r }

// waiting returns nil, because nobody waits for a tell.
func (r *encodedTurn) waiting() []byte { return nil }

func (r *remoteTurn) waiting() []byte { return r.chain }

func (r *encodedTurn) base() context.Context { return r.turn.shard().driver().Turning.context(r.era) }

func (r *encodedTurn) cut() bool {
	c := r.ctx.Load()
	return c != nil && context.Cause(c.Context) == errLeaves //nolint:errorlint // it is not wrapped
}

// Deadline returns none, because a tell has no deadline.
func (r *encodedTurn) Deadline() (time.Time, bool) { return time.Time{}, false }

// Deadline returns the call's deadline, if there is one.
func (r *remoteTurn) Deadline() (time.Time, bool) {
	if r.deadline == 0 {
		return time.Time{}, false
	}
	return r.turn.shard().driver().Lease.Base().Add(time.Duration(r.deadline)), true
}

// Done is closed when the caller gives up, the deadline passes, the turn or the node ends, or a
// leaving node stops waiting for the turn.
func (r *encodedTurn) Done() <-chan struct{} { return r.context().Done() }

// Err returns why Done is closed.
func (r *encodedTurn) Err() error { return r.context().Err() }

// Value returns nil, because a caller's values are not encoded.
func (r *encodedTurn) Value(any) any { return nil }

// seen returns the context for the method. r is nil if the method does not name its context.
func (r *encodedTurn) seen(e *region.Entity) context.Context {
	if r == nil || r.hidden {
		return unseenTurn{e}
	}
	return &r.turn
}

func (r *encodedTurn) context() *endable {
	if c := r.ctx.Load(); c != nil {
		return c
	}
	c, parent := &endable{}, r.turn.parent.(encodedParent).base()
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

func (r *encodedTurn) cancel(flag uint32) {
	r.turn.flags.Or(flag)
	if c := r.ctx.Load(); c != nil {
		c.cancel()
	}
}

func (r *encodedTurn) giveUp() { r.cancel(gaveUp) }

// finish ends the turn's context before another turn begins, and returns the turn's flags. r is nil
// if the method does not name its context.
func (r *encodedTurn) finish() (after uint32) {
	if r == nil {
		return 0
	}
	r.cancel(turnOver)
	return r.turn.after()
}

// yieldLane hands over this goroutine's lane or runner, because the turn is about to wait.
func (t *turn) yieldLane() {
	for ; t != nil; t = t.up() {
		if r := t.encoded(); r != nil {
			r.run.HandOver()
			return
		}
	}
}

// appendChain appends the encoded chain of the turns that wait for a call made in t, the outermost
// first.
func (t *turn) appendChain(b []byte) []byte {
	if t == nil {
		return b
	}
	if p, ok := t.parent.(encodedParent); ok {
		b = append(b, p.waiting()...)
	} else {
		b = t.up().appendChain(b)
	}
	id := t.shard().ID
	return wire.AppendLink(b, id.Kind, t.entity.ID, id.Shard)
}

// End ends a local caller's turn. It returns the error for the caller, which is the same as for a
// remote caller.
func (t *turn) End(method string, recovered any, err error) error {
	t.end()
	if recovered != nil || err != nil || t.after() != turnOver {
		return t.endOddly(method, recovered, err)
	}
	t.shard().finishAsk(t.entity)
	return nil
}

// finishAsk counts and ends a local caller's turn that was not timed and has succeeded.
func (s *HostedShard) finishAsk(e *region.Entity) {
	note, left := e.LeaveNoted(s.driver().Clock.Load())
	s.words.Add(int(note), counting.Ask)
	if !left {
		s.EndTurn(e)
	}
}

//go:noinline
func (t *turn) endOddly(method string, recovered any, err error) error {
	if t.after()&endsAfter != 0 {
		t.caller().(*endable).cancel()
	}
	s, cause := t.shard(), ""
	if recovered != nil {
		cause = s.driver().causeOf(ErrPanic)
	} else if err != nil {
		cause = s.driver().causeOf(err)
	}
	note, _ := t.entity.Note() // before the next turn begins
	result := t.endAsked(method, recovered, err)
	if result != nil && cause == "" {
		cause = s.driver().causeOf(result)
	}
	t.count(int(note), cause, result, true)
	return result
}

// endAsked ends a turn that is timed, has failed, or ends as its method asked. It returns the error
// for the caller.
func (t *turn) endAsked(method string, recovered any, err error) error {
	e, after := t.entity, t.after()
	s := hostedOf(e)
	if recovered == nil && after&checkAfter != 0 {
		if wrote := s.Durable.checkRead(e, method); wrote != nil {
			s.endTurnOf(e, after, nil)
			return s.Host.notRun(e.ID, method, wrote)
		}
	}
	var failed *failure
	switch {
	case recovered != nil:
		s.Host.died(fmt.Sprintf("panic in %s: %v", method, recovered))
		failed = s.Host.panicFailure(e.ID, method, fmt.Sprint(recovered))
		if s.Durable != nil { // as for an encoded turn, it may have changed the state
			s.Host.lost(e)
			e.Clear()
		}
	case err != nil:
		failed = s.Host.failureOf(e.ID, method, err)
	}
	s.endTurnOf(e, after, failed)
	if recovered != nil {
		s.Host.logPanic(e.ID, method, recovered)
		return s.driver().Config.CallError(CallFailure{Kind: s.ID.Kind, ID: e.ID, Method: method, Text: fmt.Sprint(recovered), Panic: true})
	}
	switch err := err.(type) { //nolint:errorlint
	case nil:
		return nil
	case *codegen.ArgumentsError:
		return s.Host.notRun(e.ID, method, err.Err)
	case *codegen.ResultsError:
		return s.driver().Config.CallError(CallFailure{Kind: s.ID.Kind, ID: e.ID, Method: method, Outcome: calls.Executed, Err: noResult(err.Err)})
	default:
		text, causes := codegen.DescribeError(s.Host.Kind.errors(), err)
		return s.driver().Config.CallError(CallFailure{
			Kind: s.ID.Kind, ID: e.ID, Method: method, Text: clipText(text),
			Causes: codegen.Causes(s.Host.Kind.errors(), causes),
		})
	}
}

// unusualCall has data for [CallInfo] that few calls have.
type unusualCall struct {
	sender transport.Peer // the sender, if it is not the session's peer, because the call was forwarded
	info   []byte
	tell   bool // the call is a tell of a durable entity, which the turn's type does not show
}

func (t *turn) info() CallInfo {
	s := t.shard()
	i := CallInfo{Kind: s.ID.Kind, ID: t.entity.ID, Method: t.method}
	said, sender := wire.Info{}, s.driver().Local
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
	i.Headers = said.Headers
	i.From.Class, i.From.Name, i.From.Incarnation = classMember, sender.Name, sender.Incarnation
	switch {
	case sender.Client:
		i.From.Class = classClient
	case said.Gateway != "":
		i.From.Class, i.From.Name, i.From.Incarnation = classGateway, said.Gateway, 0
	}
	return i
}

func (t *turn) described() operator.Turn {
	info := t.info()
	from := info.From.String()
	if info.From.Kind != "" {
		from = "entity " + info.From.Kind + "/" + clip(info.From.ID)
	}
	return operator.Turn{
		EntityID: operator.EntityID{Kind: info.Kind, ID: strings.Clone(info.ID)}, Method: strings.Clone(info.Method), From: from,
	}
}

func (r *encodedTurn) caller() (kind, id string) {
	links, err := wire.ParseChain(r.turn.parent.(encodedParent).waiting())
	if err != nil || len(links) == 0 {
		return "", ""
	}
	last := links[len(links)-1]
	return last.Kind, last.Entity
}
