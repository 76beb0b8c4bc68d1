package shard

import (
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/internal/nocopy"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/runner"
	"github.com/shardgen/shardgen/internal/runtoken"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
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
