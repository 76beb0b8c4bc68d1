package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/counting"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// Tracing traces the calls that the driver has chosen. Package shard documents the methods.
type Tracing interface {
	Ratio() float64
	ParentKey() any
	Sampled(parent any) (sampled, ok bool)
	Begin(now time.Time) bool
	Call(ctx context.Context, call CallInfo, began time.Time) CallTrace
	Turn(ctx, caller context.Context, call CallInfo) TurnTrace
	Extract(ctx context.Context, call CallInfo) context.Context
	Inject(ctx context.Context) context.Context
}

// A CallTrace records one call at its caller.
type CallTrace interface {
	Context() context.Context
	Repeat(why error)
	End(err error)
}

// A TurnTrace records one turn.
type TurnTrace interface {
	Context() context.Context
	Return(err error)
	End(appended time.Time, err error)
}

// tracing decides which calls are traced, before anything is allocated for them.
type tracing struct {
	Tracing
	key   any     // the key of a call's parent in contexts
	ratio float64 // the share of calls without a parent that are traced
	// thin is set if few calls are traced: ratio is at most maxThin. Then, of calls without a parent,
	// only timed calls may be traced, so that other calls need no random number. A timed call stands
	// for up to 2*counting.Every calls but gets at most one trace. At a ratio of maxThin one in twenty
	// traces is missing because of that.
	thin bool
	// refused is when Begin last refused a trace, in nanoseconds after the driver's base. Begin is
	// not asked again for askAgain, because it takes longer than a call.
	refused atomic.Int64
}

const (
	maxThin  = 0.01
	askAgain = int64(time.Millisecond)
)

func newTracing(t Tracing) *tracing {
	if t == nil {
		return nil
	}
	ratio := t.Ratio()
	tr := &tracing{Tracing: t, key: t.ParentKey(), ratio: ratio, thin: ratio <= maxThin}
	tr.refused.Store(-askAgain)
	return tr
}

// A choice says what the driver does about the trace of one call.
type choice int

const (
	untraced choice = iota
	carried         // it is not traced, and its parent's trace is passed on
	traced
)

// choose decides whether a call with the context ctx is traced. up is the turn that makes the call,
// or nil. of is how many calls a call without a parent represents. If of is 0, such a call is not
// traced. now is the time in nanoseconds after the driver's base, or 0 if it is to be read.
//
// A turn that is not traced begins no traces of its own for its calls, because such traces would
// lack the beginning.
func (drv *Driver) choose(ctx context.Context, up *turn, of float64, now int64) choice {
	tr := drv.tracing
	if t, ok := ctx.(*turn); ok && t == up {
		return untraced // the context of a traced turn has another type
	}
	if parent := ctx.Value(tr.key); parent != nil {
		switch sampled, ok := tr.Sampled(parent); {
		case sampled:
			return traced
		case ok:
			return carried
		}
	}
	if up != nil || rand.Float64() >= tr.ratio*of {
		return untraced
	}
	if now == 0 {
		now = drv.Lease.Now()
	}
	if now < tr.refused.Load()+askAgain {
		return untraced
	}
	if !tr.Begin(drv.at(now)) {
		tr.refused.Store(now)
		return untraced
	}
	return traced
}

// traceLocal begins the trace of a call whose turn runs on its caller's goroutine. It returns nil
// if the call is not to be traced. since is when the caller began to wait for the turn; 0 means
// that the caller did not wait. now is the time, or 0 if the call is not timed.
func (s *HostedShard) traceLocal(ctx context.Context, up *turn, e *region.Entity, method string, note uint32, since, now int64) CallTrace {
	drv, of := s.driver(), 1.0
	switch {
	case !drv.tracing.thin || since != 0:
	case now != 0:
		of = float64(s.words.Since(int(note), counting.Ask))
	default:
		of = 0
	}
	if drv.choose(ctx, up, of, now) != traced {
		return nil
	}
	if since == 0 {
		since = drv.Lease.Now()
	}
	return drv.tracing.Call(ctx, invoker{s.Host.Kind}.outgoingInfo(ctx, e.ID, method, false), drv.at(since))
}

// at returns the time of a number of nanoseconds after the driver's base.
func (drv *Driver) at(t int64) time.Time { return drv.Lease.Base().Add(time.Duration(t)) }

// beginTraced is [HostedShard.begin] for a call that is traced.
func (s *HostedShard) beginTraced(call CallTrace, ctx context.Context, up *turn, e *region.Entity, method string, since int64) (codegen.Turn, error) {
	drv := s.driver()
	m := &timing{Context: ctx, since: since, began: drv.Lease.Now()}
	t := &turn{parent: m, entity: e, method: method}
	t.flags.Or(timedTurn)
	if up != nil {
		t.depth = up.depth + 1
	}
	info := t.info()
	if since != 0 {
		info.Arrived = drv.at(since)
	}
	x := &tracedTurn{Context: t, turn: t, call: call, run: drv.tracing.Turn(t, call.Context(), info)}
	if x.run != nil {
		x.Context = x.run.Context()
	}
	if e.Value == nil || !s.mayRunInline() {
		if err := s.beginSlowly(t, method); err != nil {
			x.traced(err)
			return codegen.Turn{}, err
		}
	}
	return codegen.Turn{Entity: e.Value, Context: x}, nil
}

// tracedTurn is the context of a traced turn on its caller's goroutine.
type tracedTurn struct {
	context.Context // derived from turn
	turn            *turn
	call            CallTrace
	run             TurnTrace // nil: none
}

// End ends the turn and its trace.
func (x *tracedTurn) End(method string, recovered any, err error) error {
	err = x.turn.End(method, recovered, err)
	x.traced(err)
	return err
}

func (x *tracedTurn) traced(err error) {
	if x.run != nil {
		x.run.Return(err)
		x.run.End(time.Time{}, nil)
	}
	x.call.End(err)
}

// localTurn returns the turn that a local caller has begun. It returns nil if the turn's method
// does not name its context.
func localTurn(begun codegen.Turn) *turn {
	switch x := begun.Context.(type) {
	case *turn:
		return x
	case *tracedTurn:
		return x.turn
	}
	return nil
}

// sentTrace is the trace of a call that is sent encoded. A nil sentTrace means that the call is not
// traced.
type sentTrace struct{ CallTrace }

func (t *sentTrace) end(err error) {
	if t != nil {
		t.End(err)
	}
}

func (t *sentTrace) again(why error) {
	if t != nil {
		t.Repeat(why)
	}
}

// trace begins the trace of a call that is sent encoded, if the call is to be traced. It returns
// the context with which the call must be sent, and the trace or nil. Calls that the runtime makes
// by itself are not traced.
func (p invoker) trace(ctx context.Context, r *codegen.Ref, method string, tell bool) (context.Context, *sentTrace) {
	tr := p.kind.Driver.tracing
	if tr == nil || strings.HasPrefix(method, wire.OwnMethod) {
		return ctx, nil
	}
	if _, told := ctx.(*toldContext); told {
		return ctx, nil
	}
	switch p.kind.Driver.choose(ctx, turnOf(ctx), 1, 0) {
	case carried:
		return tr.Inject(ctx), nil
	case traced:
		return p.traceSent(ctx, r, method, tell)
	case untraced:
	}
	return ctx, nil
}

//go:noinline
func (p invoker) traceSent(ctx context.Context, r *codegen.Ref, method string, tell bool) (context.Context, *sentTrace) {
	tr := p.kind.Driver.tracing
	trace := tr.Call(ctx, p.outgoingInfo(ctx, r.ID, method, tell), time.Now())
	ctx = tr.Inject(trace.Context())
	info := wire.Info{}
	if o := outgoingOf(ctx); o != nil {
		info = o.info
	}
	info.Traced = true
	return WithOutgoing(ctx, info), &sentTrace{trace}
}

// traceFailed traces a call that could not begin.
func (p invoker) traceFailed(ctx context.Context, r *codegen.Ref, method string, err error) {
	if p.kind.Driver.tracing != nil {
		_, trace := p.trace(ctx, r, method, false)
		trace.end(err)
	}
}

// callersTrace returns the caller's trace, or nil if the caller has sent none. In an untraced turn,
// the turn's calls to other systems continue that trace. In a traced turn, they continue the turn's
// own trace.
func (t *turn) callersTrace(tr *tracing) any {
	r := t.encoded()
	if r == nil {
		return t.parent.Value(tr.key)
	}
	if r.unusual == nil || len(r.unusual.info) == 0 {
		return nil
	}
	return tr.Extract(context.Background(), t.info()).Value(tr.key)
}

// traced runs the method of a call that its caller traces.
func (c *InCall) traced(s *HostedShard, r *encodedTurn, e *region.Entity, method codegen.Method) (a answer) {
	info := r.turn.info()
	info.Arrived = c.arrived
	trace := s.driver().tracing.Turn(&r.turn, nil, info)
	if trace == nil {
		return c.intercepted(s, r, nil, e, method)
	}
	err := fmt.Errorf("%w: runtime.Goexit", ErrPanic) // unless the method returns
	defer func() {
		trace.Return(err)
		r.turn.endTrace(trace)
	}()
	within := len(s.Host.Settings.Intercept) > 0
	var own error // the method's error
	a = c.intercepted(s, r, trace.Context(), e, func(ctx context.Context, entity any, args, out []byte) ([]byte, error) {
		if !within {
			ctx = trace.Context()
		}
		out, err := method(ctx, entity, args, out)
		own = err
		return out, err
	})
	err = a.err(s, info, own)
	return a
}

// endTrace ends the trace of an encoded call's turn once the store has the turn's changes.
func (t *turn) endTrace(trace TurnTrace) {
	if !AfterCommit(t, func(err error) { trace.End(durableOf(t).tenure.Appended(), err) }) {
		trace.End(time.Time{}, nil)
	}
}

// traceFiring begins the trace of a reminder's turn, if the tell that set the reminder was traced.
// The caller must call traced with the method's error.
func (t *turn) traceFiring(m *wire.DurableReminder, info CallInfo) (ctx context.Context, traced func(error)) {
	tr := t.shard().driver().tracing
	if tr == nil || !wire.Traced(m.GetInfo()) {
		return t, func(error) {}
	}
	trace := tr.Turn(t, nil, info)
	if trace == nil {
		return t, func(error) {}
	}
	return trace.Context(), func(err error) {
		trace.Return(err)
		if d := durableOf(t); d != nil && d.reminders != nil {
			d.reminders.trace = trace // until the commit
		} else {
			trace.End(time.Time{}, nil)
		}
	}
}

// endFiring ends the trace of a reminder that the turn has run.
func (r *encodedTurn) endFiring() {
	if d := durableOf(&r.turn); d != nil && d.reminders != nil && d.reminders.trace != nil {
		r.turn.endTrace(d.reminders.trace)
	}
}
