package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/counting"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// maxLeft bounds the time left for a call, in microseconds: 35 years.
const maxLeft = 1 << 50

const maxIDBytes = 1024

type invoker struct{ kind *Kind }

var _ codegen.Invoker = invoker{}

func (p invoker) called() *Kind { return p.kind }

func (p invoker) Hash(id string) (hash uint64, err error) {
	k := p.kind
	switch {
	case k.Err != nil:
		return 0, k.Err
	case id == "":
		return 0, fmt.Errorf("%w: the id is empty (want 1 to %d bytes)", ErrBadID, maxIDBytes)
	case len(id) > maxIDBytes:
		return 0, fmt.Errorf("%w: the id has %d bytes (want 1 to %d)", ErrBadID, len(id), maxIDBytes)
	case k.Desc.Hash == nil:
		hash = xxhash.Sum64String(id)
	default:
		if hash, err = k.ownHash(id); err != nil {
			return 0, fmt.Errorf("%w: %w", ErrBadID, err)
		}
	}
	return hash, nil
}

// Refs returns the cache of the kind's references, or nil if the kind has its own hash function,
// because many ids may then have one hash.
func (p invoker) Refs() *codegen.RefCache {
	kept := p.kind.refs.Load()
	if kept == nil && p.kind.Desc.Hash == nil {
		kept = new(codegen.RefCache)
		if !p.kind.refs.CompareAndSwap(nil, kept) {
			return p.kind.refs.Load()
		}
	}
	return kept
}

//go:noinline
func (p invoker) fail(r *codegen.Ref, method string, outcome calls.Outcome, err error) error {
	return p.kind.Driver.Config.CallError(CallFailure{Kind: p.kind.Desc.Name, ID: r.ID, Method: method, Outcome: outcome, Err: err})
}

// Begin starts a call. If the entity is in this process and may run on the caller's goroutine,
// Begin begins the turn; otherwise it returns no turn.
func (p invoker) Begin(ctx context.Context, r *codegen.Ref, method string, noContext bool) (codegen.Turn, error) {
	if _, odd := r.Invoker.(*codegen.RefWithOptions); odd || ctx.Err() != nil {
		if err := p.cannot(ctx, r, method); err != nil {
			return p.unbegun(ctx, r, method, err)
		}
		if _, timed := ctx.(*endable); !timed && !noContext && r.Timeout() > 0 {
			return p.beginTimed(ctx, r, method)
		}
	}
	up, mapped := callerOf(ctx)
	if mapped != nil {
		return p.unbegun(ctx, r, method, p.fail(r, method, calls.NotExecuted, mapped.fail(errMapCalls)))
	}
	if up != nil {
		if err := p.mayLeave(ctx, up, r, method); err != nil {
			return p.unbegun(ctx, r, method, err)
		}
		if up.depth >= maxInline {
			return codegen.Turn{}, nil
		}
	}
	k := p.kind
	note := uint32(k.Counts.Number(method))
	if k.Encodes {
		if e := p.enterRead(r, method, note); e != nil {
			return p.beginRead(ctx, up, e, method, note, noContext)
		}
		return codegen.Turn{}, nil
	}
	if e := (*region.Entity)(atomic.LoadPointer(&r.Near)); e != nil {
		if s := hostedOf(e); s.TryEnter(e, note) {
			return s.begin(ctx, up, e, method, note, 0, noContext)
		}
	}
	s := k.routeOf(r.Hash).local()
	if s == nil || !k.Host.Settings.Inline {
		return codegen.Turn{}, nil
	}
	if e := s.enter(r, note); e != nil {
		return s.begin(ctx, up, e, method, note, 0, noContext)
	}
	return p.waitTurn(ctx, up, s, r, method, note, noContext)
}

// unbegun counts a call that cannot begin because of err.
//
//go:noinline
func (p invoker) unbegun(ctx context.Context, r *codegen.Ref, method string, err error) (codegen.Turn, error) {
	p.made(r, method, false, p.kind.Driver.Lease.Now(), err)
	p.traceFailed(ctx, r, method, err)
	return codegen.Turn{}, err
}

//go:noinline
func (p invoker) beginTimed(ctx context.Context, r *codegen.Ref, method string) (codegen.Turn, error) {
	limit, cancel := context.WithTimeout(ctx, r.Timeout())
	begun, err := p.Begin(&endable{limit, cancel}, r, method, false)
	if t := localTurn(begun); t != nil {
		t.flags.Or(endsAfter)
		return begun, err
	}
	cancel() // it is elsewhere, or fails
	return begun, err
}

func (p invoker) cannot(ctx context.Context, r *codegen.Ref, method string) error {
	why := unfit(r)
	if err := ctx.Err(); why == nil && err != nil {
		why = fmt.Errorf("%w: the context had ended before the call began%s", err, moreTime(err))
	}
	if why == nil {
		return nil
	}
	p.uncalled(ctx, r, method)
	return p.fail(r, method, calls.NotExecuted, why)
}

func unfit(r *codegen.Ref) error {
	why := r.Err()
	if why == nil && r.Timeout() < 0 {
		why = expired("its timeout is negative (give shard.Timeout a positive duration)")
	}
	if key := commandKey(r); why == nil && key != nil && *key == "" {
		why = errNoCommandID
	}
	if why == nil && delayOf(r) != nil {
		why = errDelayed
	}
	return why
}

// waitTurn waits for a local caller's turn. If the shard moves away first, it returns no turn, and
// the caller sends the call.
func (p invoker) waitTurn(ctx context.Context, up *turn, s *HostedShard, r *codegen.Ref, method string, note uint32, noContext bool) (codegen.Turn, error) {
	drv := p.kind.Driver
	c := &InCall{granted: make(chan *region.Entity, 1), lane: s.lane}
	c.Entity, c.Sender, c.Local, c.Driver = r.ID, drv.Local, true, c
	if up != nil {
		c.Links = up.appendChain(nil)
		c.Chain = shardhost.Chain(c.Links)
	}
	began := drv.Lease.Now()
	e, v := s.Deliver(&c.Call, drv.Lease.Base().Add(time.Duration(began)), nil)
	fail := func(err error) (codegen.Turn, error) {
		err = p.fail(r, method, calls.NotExecuted, err)
		p.made(r, method, false, began, err)
		p.traceFailed(ctx, r, method, err)
		return codegen.Turn{}, err
	}
	switch calls.NextLocally(v) {
	case calls.Run:
		e.SetNote(drv.Clock.Load(), note)
		return s.begin(ctx, up, e, method, note, 0, noContext)
	case calls.Encode:
		return codegen.Turn{}, nil
	case calls.Refuse:
		if v == region.Circular {
			drv.refused(wire.CodeCircular)
			return fail(circular(s.explain(&c.Call, v)))
		}
		drv.refused(wire.CodeOverloaded)
		return fail(&overload{cause: s.noRoom(&c.Call.Call)})
	}
	up.yieldLane()
	limit, stop := p.limit(ctx, r)
	defer stop()
	select {
	case g := <-c.granted:
		return p.granted(ctx, up, s, method, note, began, noContext, g)
	case <-limit.Done():
	case <-drv.Stop:
	}
	if !s.Withdraw(&c.Call) { // its turn was granted at the same time
		return p.granted(ctx, up, s, method, note, began, noContext, <-c.granted)
	}
	drv.Counts.Add(callExpired)
	if drv.Closed() {
		return fail(drv.ErrClosed())
	}
	return fail(waitError(limit, errBusy))
}

func (p invoker) granted(ctx context.Context, up *turn, s *HostedShard, method string, note uint32, since int64, noContext bool, e *region.Entity) (codegen.Turn, error) {
	if e == nil {
		p.kind.Driver.Counts.Add(callRetried)
		return codegen.Turn{}, nil
	}
	e.SetNote(s.driver().Clock.Load(), note)
	return s.begin(ctx, up, e, method, note, since, noContext)
}

// limit returns ctx with the reference's timeout. If neither ctx nor the reference has a limit, the
// limit is Config.CallTimeout.
func (p invoker) limit(ctx context.Context, r *codegen.Ref) (context.Context, context.CancelFunc) {
	timeout := r.Timeout()
	if _, ok := ctx.Deadline(); ok && timeout == 0 {
		return ctx, func() {}
	}
	if timeout == 0 {
		timeout = p.kind.Driver.Config.CallTimeout
	}
	return context.WithTimeout(ctx, timeout)
}

// Check returns the reason why a call cannot be sent, or nil.
func (p invoker) Check(ctx context.Context, r *codegen.Ref, method string) error {
	return p.cannot(ctx, r, method)
}

// Send sends a tell. It returns nil when the tell is in a session or waits for its shard's home;
// the sender does not learn whether it arrives.
//
// A tell made by a durable entity's turn becomes part of the turn's commit. ctx may have ended,
// because a late turn also commits all of its tells or none.
func (p invoker) Send(ctx context.Context, r *codegen.Ref, method string, args []byte) error {
	k, began := p.kind, int64(0)
	ctx, trace := p.trace(ctx, r, method, true)
	number, words := k.Counts.Number(method), k.Counts.Words(uint32(r.Hash>>k.shift))
	if words.Due(number, counting.Sent) {
		began = k.Driver.Lease.Now()
	}
	err := p.send(ctx, r, method, args)
	trace.end(err)
	switch {
	case err != nil:
		if began == 0 {
			began = k.Driver.Lease.Now()
		}
		p.made(r, method, true, began, err)
		return err
	case began != 0:
		k.Counts.Timed(words, number, counting.Sent, k.Driver.since(began))
	default:
		words.Add(number, counting.Sent)
	}
	return nil
}

func (p invoker) send(ctx context.Context, r *codegen.Ref, method string, args []byte) error {
	c := outCall{Context: ctx, Args: args, Ref: r, Method: method}
	defer codegen.Recycle(c.Args)
	up, mapped := callerOf(ctx)
	if delay := delayOf(r); delay != nil {
		return p.schedule(ctx, r, delay, method, args)
	}
	if mapped != nil {
		if err := mapped.add(&c, p); err != nil {
			return p.fail(r, method, calls.NotExecuted, err)
		}
		return nil
	}
	if d := durableOf(up); d != nil && unfit(r) == nil && d.tells.add(&c, p) {
		return nil
	}
	if err := p.cannot(c.Context, c.Ref, c.Method); err != nil {
		return err
	}
	return p.tell(&c)
}

func (p invoker) tell(c *outCall) error {
	if p.kind.Driver.Closed() {
		return p.fail(c.Ref, c.Method, calls.NotExecuted, p.kind.Driver.ErrClosed())
	}
	if near, err := p.tellNear(c); err != nil {
		return p.fail(c.Ref, c.Method, calls.NotExecuted, err)
	} else if near {
		return nil
	}
	r := p.kind.routeOf(c.Ref.Hash)
	e := p.envelope(c, nil, r, wire.TypeTell)
	if err := r.send(&e); err != nil {
		return p.fail(c.Ref, c.Method, calls.NotExecuted, publicError(err))
	}
	return nil
}

// Failed returns the public error of a call whose arguments could not be encoded or, if ran is set,
// whose results could not be decoded.
func (p invoker) Failed(r *codegen.Ref, method string, ran bool, err error) error {
	if ran {
		return p.fail(r, method, calls.Executed, err)
	}
	return p.fail(r, method, calls.NotExecuted, err)
}

func (p invoker) envelope(c *outCall, up *turn, r *Route, t wire.Type) wire.Envelope {
	k := p.kind
	e := wire.Envelope{
		Type: t, Kind: k.name, Shard: r.shard,
		Entity: wire.BytesOf(c.Ref.ID), Method: wire.BytesOf(c.Method), Payload: c.Args,
	}
	if t == wire.TypeCall && !k.Driver.Local.Client { // members accept no chain from clients
		e.Chain = up.appendChain(nil)
	}
	if o, ok := c.Context.Value(outgoingKey{}).(*outgoing); ok {
		e.Info = o.encoded
	}
	return e
}

// enterDurable begins a durable turn on the caller's goroutine. If the call must queue, or the
// shard's home is elsewhere, it returns no entity.
func (p invoker) enterDurable(c *outCall, up *turn, r *Route) (*HostedShard, *region.Entity) {
	k := p.kind
	if k.Host == nil || !k.Host.Settings.Inline {
		return nil, nil
	}
	if up != nil && up.depth >= maxInline {
		return nil, nil
	}
	note := uint32(k.Counts.Number(c.Method))
	if e := nearOf(c.Ref); e != nil && hostedOf(e).TryEnter(e, note) {
		return hostedOf(e), e
	}
	s := r.local()
	if s == nil {
		return nil, nil
	}
	return s, s.enter(c.Ref, note)
}

// enterRead begins a turn on the caller's goroutine for a type with encoded calls. It returns nil
// unless the method is marked //shard:read and not intercepted, and the active entity's state is in
// the log. Other calls go through attempt, because their arguments and results are part of the
// commit.
func (p invoker) enterRead(r *codegen.Ref, method string, note uint32) *region.Entity {
	k := p.kind
	if k.Host == nil || !k.Host.nearReads[method] {
		return nil
	}
	e := nearOf(r)
	if e == nil || !hostedOf(e).TryEnter(e, note) {
		s := k.routeOf(r.Hash).local()
		if s == nil {
			return nil
		}
		if e = s.look(r); e == nil || !s.TryEnter(e, note) {
			return nil
		}
		setNear(r, e)
	}
	if s := hostedOf(e); !s.Durable.mayRead(e) {
		s.FinishTurn(e)
		return nil
	}
	return e
}

func (p invoker) beginRead(ctx context.Context, up *turn, e *region.Entity, method string, note uint32, noContext bool) (codegen.Turn, error) {
	checks := p.kind.Driver.ChecksTurns
	begun, err := hostedOf(e).begin(ctx, up, e, method, note, 0, noContext && !checks)
	if t := localTurn(begun); t != nil && checks {
		t.flags.Or(checkAfter)
	}
	return begun, err
}

// Do sends a call and waits for its results. A call that did not run because its shard moved is
// sent again until the call's deadline.
//
// The stacks of many waiting callers do not fit the processor's cache. So the code for sending and
// failing is in functions that are not inlined. The variables of such a function leave the stack
// when it returns.
func (p invoker) Do(ctx context.Context, r *codegen.Ref, method string, args []byte) (results []byte, err error) {
	began := p.kind.Driver.Lease.Now()
	ctx, trace := p.trace(ctx, r, method, false)
	results, err = p.do(ctx, r, method, args, trace)
	trace.end(err)
	p.made(r, method, false, began, err)
	turnOf(ctx).waitedSince(began)
	return results, err
}

func (p invoker) do(ctx context.Context, r *codegen.Ref, method string, args []byte, trace *sentTrace) (results []byte, err error) {
	c := outCall{Context: ctx, Args: args, Ref: r, Method: method, trace: trace}
	drv := p.kind.Driver
	up, mapped := callerOf(ctx)
	if mapped != nil {
		codegen.Recycle(args)
		return nil, p.fail(r, method, calls.NotExecuted, mapped.fail(errMapCalls))
	}
	if up != nil {
		if d := durableOf(up); d != nil && !d.logged() {
			return p.doLater(ctx, up, r, method, args, trace)
		}
	}
	if p.kind.Desc.Durable && !c.repeats() {
		c.Command = p.newCommand(&c, up)
	}
	up.yieldLane()
	limit := calls.NewDeadline(c.Context, c.Ref.Timeout(), drv.Config.CallTimeout, drv.tr.Load() != nil)
	for try, again := 0, true; again; try++ {
		var w *calls.Call
		var id uint64
		if w, id, err = p.attempt(&c, up, &limit); err != nil {
			break
		}
		answered := calls.Await(c.Context, &drv.Pending, w, id, &limit)
		if answered && w.Result().Code == wire.CodeOK {
			results = w.Result().Payload
			drv.Pending.Free(w, c.Ref.Hash)
			break
		}
		again, err = p.failed(&c, w, id, &limit, answered, try)
	}
	limit.Stop()
	if c.Command != nil {
		err = c.Command.end(drv, err)
		c.Command.recycle()
	}
	codegen.Recycle(c.Args) // a call that still waits has a copy
	return results, err
}

// doLater is do for a call that must wait before it may leave the turn that makes the call. up is
// that turn.
//
//go:noinline
func (p invoker) doLater(ctx context.Context, up *turn, r *codegen.Ref, method string, args []byte, trace *sentTrace) (results []byte, err error) {
	limit, stop := p.limit(ctx, r)
	defer stop()
	if err := p.mayLeave(limit, up, r, method); err != nil {
		codegen.Recycle(args)
		return nil, err
	}
	return p.do(limit, r, method, args, trace)
}

// mayLeave waits until a call may leave the turn that makes it, which is up. An error says why the
// call may not leave.
//
//go:noinline
func (p invoker) mayLeave(ctx context.Context, up *turn, r *codegen.Ref, method string) error {
	if d := durableOf(up); d != nil && !d.logged() {
		limit, stop := p.limit(ctx, r)
		defer stop()
		if err := d.before(limit); err != nil {
			p.uncalled(ctx, r, method)
			return p.fail(r, method, calls.NotExecuted, err)
		}
	}
	return nil
}

// newCommand gives a call its command. up is the turn that makes the call. The reference's key
// takes precedence over an id derived from that turn.
func (p invoker) newCommand(c *outCall, up *turn) *sentCommand {
	s := newSentCommand()
	if t, ok := c.Context.(*toldContext); ok {
		s.id = t.id
		return s
	}
	if key := commandKey(c.Ref); key != nil {
		s.id.Key = *key
		return s
	}
	if d := durableOf(up); d != nil && d.nested(&s.id, p.kind.Desc.Name, c.Ref.ID, c.Method) {
		return s
	}
	p.kind.Driver.commands.Begin(&s.id)
	s.number = s.id.Number
	return s
}

// uncalled gives a number to a call that ctx's turn did not send. A second run of the turn may send
// that call, and later calls must then have the same numbers.
//
//go:noinline
func (p invoker) uncalled(ctx context.Context, r *codegen.Ref, method string) {
	if !p.kind.Desc.Durable || r.ID == "" || commandKey(r) != nil {
		return
	}
	if d := durableOf(turnOf(ctx)); d != nil {
		var id durablehost.ID
		d.nested(&id, p.kind.Desc.Name, r.ID, method)
	}
}

// attempt sends the call once. up is the turn that makes the call, or nil. w receives the answer.
//
//go:noinline
func (p invoker) attempt(c *outCall, up *turn, limit *calls.Deadline) (w *calls.Call, id uint64, err error) {
	drv, r := p.kind.Driver, p.kind.routeOf(c.Ref.Hash)
	left := limit.Micros()
	if limit.Passed() {
		return nil, 0, p.fail(c.Ref, c.Method, calls.NotExecuted, late(context.DeadlineExceeded, errPassed))
	}
	if w, id = drv.Pending.Open(limit.Swept(drv.Lease.Base()), c.Ref.Hash); w == nil {
		return nil, 0, p.fail(c.Ref, c.Method, calls.NotExecuted, p.noPlace())
	}
	if c.Command != nil {
		if s, entity := p.enterDurable(c, up, r); entity != nil {
			s.Durable.runHere(entity, newHereCall(s, c, up, id, time.Duration(min(left, maxLeft))*time.Microsecond), func() { // runtime.Goexit in the method ends the caller
				calls.Abandon(&drv.Pending, w, id, c.Ref.Hash)
				_ = c.Command.end(drv, nil)
			})
			return w, id, nil
		}
	}
	if err := p.sendCall(c, up, r, id, left); err != nil {
		calls.Abandon(&drv.Pending, w, id, c.Ref.Hash)
		return nil, 0, p.fail(c.Ref, c.Method, calls.NotExecuted, publicError(err))
	}
	return w, id, nil
}

// sendCall sends the call to its shard's home. id is its number among the pending calls, left its
// remaining time in microseconds.
//
//go:noinline
func (p invoker) sendCall(c *outCall, up *turn, r *Route, id, left uint64) error {
	e := p.envelope(c, up, r, wire.TypeCall)
	e.ID, e.Timeout = id, left
	if c.Command != nil {
		e.Command = c.Command.next(&p.kind.Driver.commands).Append(nil)
	}
	return r.send(&e)
}

func (p invoker) noPlace() error {
	if p.kind.Driver.Closed() {
		return p.kind.Driver.ErrClosed()
	}
	return errPending
}

// failed ends an attempt without results. If the caller must send the call again, failed pauses,
// and again is true. Otherwise it returns the call's error.
//
//go:noinline
func (p invoker) failed(c *outCall, w *calls.Call, id uint64, limit *calls.Deadline, answered bool, try int) (again bool, err error) {
	drv, res := p.kind.Driver, *w.Result()
	step, outcome := calls.Withdraw, calls.Unknown
	if answered {
		step, outcome = calls.NextStep(res.Code, c.sent())
	}
	if step != calls.Withdraw {
		limit.Seen(w.Over(), drv.Lease.Base())
		drv.Pending.Free(w, c.Ref.Hash)
		if step == calls.Return {
			return false, p.resultError(c, res, outcome)
		}
		if res.Code == wire.CodeInDoubt && c.Command != nil {
			c.Command.doubt = res.Text
		}
		drv.Counts.Add(callRetried)
		if c.trace != nil {
			c.trace.again(p.resultError(c, res, outcome))
		}
		if limit.Sleep(calls.Pause(try)) {
			return true, nil
		}
		if err := c.Context.Err(); err != nil {
			return false, p.fail(c.Ref, c.Method, outcome, c.why(err, ErrMoving))
		}
		return false, p.fail(c.Ref, c.Method, outcome, c.why(context.DeadlineExceeded, ErrMoving))
	}
	if !answered {
		drv.Pending.Coalescer.GaveUp()
	}
	drv.Counts.Add(callExpired)
	err = context.DeadlineExceeded
	if drv.Closed() {
		err = drv.ErrClosed()
	} else if c.Context.Err() != nil {
		err = c.Context.Err()
	}
	how, why := p.giveUp(c, w, id)
	drv.Pending.Free(w, c.Ref.Hash)
	return false, p.fail(c.Ref, c.Method, calls.Withdrawn(how), c.why(err, why))
}

// giveUp withdraws, if possible, a call that was not answered in time. It returns how far the call
// came, and what held the call up there.
func (p invoker) giveUp(c *outCall, w *calls.Call, id uint64) (calls.Withdrawal, error) {
	drv, r := p.kind.Driver, p.kind.routeOf(c.Ref.Hash)
	how, on := drv.Data.Withdraw(&r.Route, w, id, c.Ref.ID)
	switch how {
	case calls.WithdrawnUnsent:
		if p.kind.Desc.Singleton {
			return how, r.NoInstance(time.Now())
		}
		if n := drv.Control.ShardsOf(p.kind.Desc.Name); n != 0 && n != p.kind.Shards {
			return how, fmt.Errorf("%w: %d shards here and %d in the cluster (generate caller and host from one version)", ErrMismatch, p.kind.Shards, n)
		}
		return how, r.WaitsFor(time.Now())
	case calls.WithdrawnQueued:
		return how, errBusy
	case calls.WithdrawnUndelivered:
		return how, fmt.Errorf("%w: %s could not be reached%s", errOutOfReach, on.Peer().Name, silence(on.(*peers.Session), time.Now()))
	case calls.WithdrawnBegun:
		return how, errNoAnswer
	}
	return how, fmt.Errorf("%w from %s%s", errNoAnswer, on.Peer().Name, silence(on.(*peers.Session), time.Now()))
}

// tellNear gives a tell to a runner without the shard's lock. It reports false if the entity is
// elsewhere or inactive, or if calls wait for the entity: to keep the order, the tell is then sent
// as an encoded call.
func (p invoker) tellNear(c *outCall) (near bool, err error) {
	if p.kind.Encodes || outgoingOf(c.Context) != nil {
		return false, nil // its turn commits, or it has more than arguments
	}
	if e := nearOf(c.Ref); e != nil {
		if near, err = hostedOf(e).tell(e, c); near {
			return near, err
		}
	}
	k := p.kind
	s := k.routeOf(c.Ref.Hash).local()
	if s == nil {
		return false, nil
	}
	e := s.look(c.Ref)
	if e == nil || e == nearOf(c.Ref) {
		return false, nil
	}
	if near, err = s.tell(e, c); near {
		setNear(c.Ref, e)
	}
	return near, err
}

// resultError returns the error of a call answered without results.
func (p invoker) resultError(c *outCall, res calls.Result, outcome calls.Outcome) error {
	kind := p.kind.Desc.Name
	switch res.Code {
	case wire.CodeMethodError:
		return p.kind.Driver.Config.CallError(CallFailure{Kind: kind, ID: c.Ref.ID, Method: c.Method, Text: res.Text, Causes: codegen.Causes(p.kind.errors(), res.Payload)})
	case wire.CodePanic:
		return p.kind.Driver.Config.CallError(CallFailure{Kind: kind, ID: c.Ref.ID, Method: c.Method, Text: res.Text, Panic: true})
	case wire.CodeIntercepted:
		return p.fail(c.Ref, c.Method, outcome, &refused{res.Text, codegen.Causes(p.kind.errors(), res.Payload)})
	case wire.CodeTooLarge:
		return p.fail(c.Ref, c.Method, outcome, fmt.Errorf("%w: %s%s", ErrTooLarge, res.Text, smaller))
	case wire.CodeForgotten:
		return p.fail(c.Ref, c.Method, outcome, fmt.Errorf("%w: %s (it will not run again: ask the entity for the result)", ErrAnswerForgotten, res.Text))
	case wire.CodeNoResult:
		return p.fail(c.Ref, c.Method, outcome, noResult(errors.New(res.Text)))
	case calls.Unrepeatable:
		return p.fail(c.Ref, c.Method, outcome, fmt.Errorf("%w: %s when it was to be sent again (it may have run: ask the entity before calling again)", ErrTooLarge, res.Text))
	case calls.TurnedAway:
		return p.fail(c.Ref, c.Method, outcome, fmt.Errorf("%w: %s", ErrOverloaded, res.Text))
	case calls.Denied:
		return p.fail(c.Ref, c.Method, outcome, errors.New(res.Text))
	case wire.CodeInDoubt:
		return p.fail(c.Ref, c.Method, outcome, fmt.Errorf("%w: %s (it may have run: ask the entity before calling again)", ErrLost, res.Text))
	case calls.Lost:
		if res.Text != "" {
			return p.fail(c.Ref, c.Method, outcome, fmt.Errorf("%w: %v %s (it may have run: ask the entity before calling again)", ErrLost, res.Lost, res.Text))
		}
		return p.fail(c.Ref, c.Method, outcome, fmt.Errorf("%w: %v (it may have run: ask the entity before calling again)", ErrLost, res.Lost))
	}
	if cause := notRun(kind, res, p.kind.Driver.Config.SingletonBuffer); cause != nil {
		return p.fail(c.Ref, c.Method, outcome, cause)
	}
	return p.fail(c.Ref, c.Method, outcome, fmt.Errorf("the answer has the unknown code %d (does the host run a newer program?)", res.Code))
}

// CalledBy returns the kind that an invoker calls; nil if the invoker belongs to neither a node nor
// a connection.
func CalledBy(p codegen.Invoker) *Kind {
	if at, ok := p.(interface{ called() *Kind }); ok {
		return at.called()
	}
	return nil
}

// commandKey returns the reference's idempotency key, or nil.
func commandKey(r *codegen.Ref) *string {
	if odd, is := r.Invoker.(*codegen.RefWithOptions); is {
		return odd.Options.CommandID
	}
	return nil
}

var errNoCommandID = errors.New("the command id is empty (give shard.CommandID a key, or leave the option out)")
