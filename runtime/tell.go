package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/nocopy"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/runner"
	"github.com/shardgen/shardgen/internal/runtoken"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/store"
)

// tellNear begins the turn of a tell outside the shard's lock, and leaves it to a
// runner. It reports false where that cannot be: the entity is elsewhere, or sleeps,
// or has a turn. Then the tell takes the long way, where it may wait; so a sender's
// tells and calls stay in order.
func (p port) tellNear(c *outCall) (near bool, err error) {
	if p.kind.desc.Durable {
		return false, nil // its turn is one that commits
	}
	if e, ok := c.Ref.Near.Load().(*region.Entity); ok && hostedOf(e).tryEnter(e) {
		return true, hostedOf(e).addTold(e, c)
	}
	k := p.kind
	s := k.routeOf(c.Ref.Hash).local()
	if s == nil {
		return false, nil
	}
	e := s.look(c.Ref)
	if e == nil || e == c.Ref.Near.Load() || !s.tryEnter(e) {
		return false, nil
	}
	c.Ref.Near.Store(e)
	return true, s.addTold(e, c)
}

// addTold has the turn of a tell run, which has begun. The error says that there is no
// room for its arguments: then the turn has ended.
func (s *hostedShard) addTold(e *region.Entity, c *outCall) error {
	if s.plane().runner(s.ID.Shard).Offer(runner.Turn{Entity: e, Method: c.Method}, c.Args) {
		return nil
	}
	s.endTurn(e)
	s.plane().counters.add(callRefused)
	return &overload{cause: &noRoom{s, region.NodeBytes, len(c.Args)}}
}

// runTold runs the turn of a tell on its runner's goroutine. It reports whether this
// goroutine still has the run token.
func (s *hostedShard) runTold(e *region.Entity, name string, args []byte, r *turnRunner) bool {
	method := s.host.desc.Dispatch[name]
	if method == nil || e.Value == nil || !s.mayRunInline() {
		return s.runQueued(e, s.toldCall(e, name, args), r)
	}
	return s.tellMethod(method, e, name, args, &r.Token)
}

// tellFar runs the turn of a tell that came straight from another process, outside the
// shard's lock and without a record of the call, if it may run at once. ran is false
// where it may not: nothing has happened. kept reports whether this goroutine still has
// the lane.
func (l *lane) tellFar(s *hostedShard, e *wire.Envelope, seq uint64) (ran, kept bool) {
	if !e.Node.IsZero() || e.Epoch == 0 || l.slow.IsSlow() || s.durable != nil {
		return false, false
	}
	name, id := nocopy.String(e.Method), nocopy.String(e.Entity)
	now, method := l.plane.lease.Now(), s.host.desc.Dispatch[name]
	if method == nil || !s.mayRunAt(now) {
		return false, false
	}
	entity := s.Core.Look(region.Hash(id), id)
	if entity == nil || !s.entered(entity, entity.EnterUnder(placement.Epoch(e.Epoch))) {
		return false, false
	}
	l.from.Handled.Store(seq)
	l.wake() // a turn may take long
	l.plane.watch.Awake()
	if !s.tellMethod(method, entity, name, e.Payload, &l.Token) {
		return true, false
	}
	l.slow.Ran(now)
	return true, true
}

// tellMethod runs a tell's method and ends its turn, which has begun. It reports whether
// this goroutine still has the run token.
func (s *hostedShard) tellMethod(m codegen.Method, e *region.Entity, name string, args []byte, b *runtoken.Token) bool {
	t := &encodedTurn{run: b.Enter()}
	t.turn.parent, t.turn.entity = t, e
	s.invokeTold(m, t, name, args)
	t.finish()
	kept := t.run.Leave()
	s.endTurnOf(&t.turn, t.failed)
	return kept
}

// invokeTold runs the method of a tell. Its results and its error are nobody's but
// the supervisor's.
func (s *hostedShard) invokeTold(m codegen.Method, t *encodedTurn, name string, args []byte) {
	e, returned := t.turn.entity, false
	defer func() {
		if returned {
			return
		}
		if r := recover(); r != nil {
			s.notePanic(e.ID, name, r)
			t.failed = s.panicFailure(e.ID, name, fmt.Sprint(r))
			return
		}
		// runtime.Goexit ends this goroutine: nobody must wait for it.
		t.run.HandOver()
		s.died("runtime.Goexit in " + name)
		t.finish()
		s.endTurnOf(&t.turn, s.panicFailure(e.ID, name, "runtime.Goexit"))
	}()
	if _, err := m(&t.turn, e.Value, args, nil); err != nil {
		t.failed = s.failureOf(e.ID, name, err)
	}
	returned = true
}

// toldCall is the call of a tell whose turn must wait or activate first. Its arguments
// are a copy, for the batch goes on without it.
func (s *hostedShard) toldCall(e *region.Entity, name string, args []byte) *inCall {
	c := &inCall{lane: s.lane}
	c.Method, c.Args, c.Tell = nocopy.Bytes(name), slices.Clone(args), true
	c.Entity, c.Sender, c.Driver = e.ID, s.plane().self, c
	return c
}

// enqueueTold is enqueue for a tell, which has neither a chain nor a deadline.
func (s *hostedShard) enqueueTold(e *wire.Envelope, current func() bool) (settled bool, err error) {
	pl := s.plane()
	r := pl.runner(s.ID.Shard)
	c := r.told.take()
	args, at := append(c.Args, e.Payload...), pl.lately()
	c.fill(pl, pl.self, e, s.lane, at)
	c.Args, c.told = args, true
	entity, v := s.Deliver(&c.Call, at, current)
	switch v {
	case region.Overloaded:
		full := s.noRoom(&c.Call.Call)
		r.told.giveBack(c)
		pl.counters.add(callRefused)
		return true, &overload{cause: full}
	case region.Moved:
		r.told.giveBack(c)
		return false, nil
	}
	return s.Accepted(&c.Call, entity, v), nil
}

// durableTell is a tell of a durable entity's turn, which leaves when the turn is committed.
type durableTell struct {
	port   port
	ref    *codegen.Ref
	method string
	args   []byte
}

// durableTells are the tells of one turn. It is safe for concurrent use.
type durableTells struct {
	mu    sync.Mutex
	all   []durableTell
	taken bool // the turn has ended
}

// add notes a tell of the turn. It reports false for a turn that has ended.
func (d *durableTells) add(c *outCall, p port) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.taken {
		d.all = append(d.all, durableTell{p, c.Ref, c.Method, slices.Clone(c.Args)})
	}
	return !d.taken
}

// take ends the turn and returns its tells.
func (d *durableTells) take() []durableTell {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.all
	d.all, d.taken = nil, true
	return all
}

// logged is a tell as the log has it.
func (t durableTell) logged() durable.Tell {
	k := t.port.kind
	return durable.Tell{
		Target: durable.Target{Log: k.desc.Name, Shard: placement.ShardOf(t.ref.Hash, k.shards)},
		Entity: t.ref.ID, Body: durablehost.Body{Method: t.method, Args: t.args}.Append(nil),
	}
}

// loggedTells are the tells of a commit.
func loggedTells(tells []durableTell) (all []durable.Tell) {
	for _, t := range tells {
		all = append(all, t.logged())
	}
	return all
}

// send sends a tell of a turn that has no commit. It is not kept, and so may be lost.
func (t durableTell) send() {
	pl := t.port.kind.plane
	if err := t.port.tell(&outCall{Context: pl.ctx, Args: t.args, Ref: t.ref, Method: t.method}); err != nil {
		pl.loseTell(NotExecuted)
		pl.seldom.warn(pl.log, "tell of a durable entity could not be sent", t.port.kind.desc.Name, t.method,
			"kind", t.port.kind.desc.Name, "entity", clip(t.ref.ID), "method", t.method, "err", err)
	}
}

// toldContext is the context of the call that brings a tell of a shard's log to its receiver.
type toldContext struct {
	context.Context
	id durablehost.ID
}

// storedTellPatience bounds one try to have a tell of a durable entity committed at its
// receiver. It is the deadline of the turn there.
const storedTellPatience = time.Minute

// outbox sends the tells that the logs of this process's shards have.
type outbox struct{ plane *plane }

// send brings a tell to its receiver. It reports whether the receiver has run it, and has
// committed that if it is durable.
func (o outbox) send(ctx context.Context, from store.Shard, tell durable.Tell) (arrived bool) {
	pl := o.plane
	body, err := durablehost.ReadBody(tell.Body)
	if err == nil {
		arrived, err = o.call(ctx, from, tell, body)
	}
	if !arrived && ctx.Err() == nil {
		pl.counters.add(callRetried)
		pl.seldom.warn(pl.log, "tell of a durable entity waits; it is sent again", tell.Target.Log, body.Method, "from", from.String(),
			"kind", tell.Target.Log, "entity", clip(tell.Entity), "method", body.Method, "err", err)
	}
	return arrived
}

// errNoClient is about a type that this program does not use.
var errNoClient = errors.New("this process has no client of the type (make one before the node starts)")

// call makes the call that a tell is on the way: it is answered, so that the sender knows.
func (o outbox) call(ctx context.Context, from store.Shard, tell durable.Tell, body durablehost.Body) (arrived bool, err error) {
	k := (*o.plane.kinds.Load())[tell.Target.Log]
	if k == nil {
		return false, errNoClient
	}
	within, cancel := context.WithTimeout(ctx, storedTellPatience)
	defer cancel()
	p := port{k}
	ref := codegen.NewRef(p, tell.Entity, nil)
	if err := p.Check(within, ref, body.Method); err != nil {
		return false, err
	}
	as := &toldContext{within, durablehost.TellID(from, tell)}
	_, err = p.Do(as, ref, body.Method, append(codegen.NewArgs(), body.Args...))
	var failed *EntityError
	switch {
	case errors.As(err, &failed) && failed.Panic:
		return !k.desc.Durable, err // nothing of it stands: it runs again
	case err == nil, OutcomeOf(err) == Executed:
		return true, err
	case errors.Is(err, context.Canceled) && within.Err() == nil:
		return true, err // it is below the receiver's floor: it has run before
	}
	return false, err
}

// givenUp says that a tell was not committed in time.
func (o outbox) givenUp(from store.Shard, tell durable.Tell) {
	o.plane.counters.add(tellGivenUp)
	body, err := durablehost.ReadBody(tell.Body)
	o.plane.log.Error("dead letter: a tell of a durable entity was given up, for its receiver has not run it in time", "from", from.String(),
		"kind", tell.Target.Log, "entity", clip(tell.Entity), "method", body.Method, "number", tell.Number, "err", err)
}
