package shard

import (
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/internal/nocopy"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
)

// tellNear begins the turn of a tell outside the shard's lock, and leaves it to a
// runner. It reports false where that cannot be: the entity is elsewhere, or sleeps,
// or has a turn. Then the tell takes the long way, where it may wait; so a sender's
// tells and calls stay in order.
func (p port) tellNear(c *outCall) (near bool, err error) {
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
	r := s.plane().runner(s.ID.Shard)
	r.mu.Lock()
	if r.queue.bytes >= r.most {
		r.mu.Unlock()
		s.endTurn(e)
		s.plane().counters.add(callRefused)
		return &overload{cause: &noRoom{s, region.NodeBytes, len(c.Args)}}
	}
	r.addLocked(queuedTurn{entity: e, method: c.Method}, c.Args)
	return nil
}

// runTold runs the turn of a tell on its runner's goroutine. It reports whether this
// goroutine still has the run token.
func (s *hostedShard) runTold(e *region.Entity, name string, args []byte, r *runner) bool {
	method := s.host.desc.Dispatch[name]
	if method == nil || e.Value == nil || !s.mayRunInline() {
		return s.runQueued(e, s.toldCall(e, name, args), r)
	}
	return s.tellMethod(method, e, name, args, &r.runToken)
}

// tellFar runs the turn of a tell that came straight from another process, outside the
// shard's lock and without a record of the call, if it may run at once. ran is false
// where it may not: nothing has happened. kept reports whether this goroutine still has
// the lane.
func (l *lane) tellFar(s *hostedShard, e *wire.Envelope, seq uint64) (ran, kept bool) {
	if !e.Node.IsZero() || e.Epoch == 0 || l.slow.isSlow() {
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
	l.plane.watch.awake()
	if !s.tellMethod(method, entity, name, e.Payload, &l.runToken) {
		return true, false
	}
	l.slow.ran(now)
	return true, true
}

// tellMethod runs a tell's method and ends its turn, which has begun. It reports whether
// this goroutine still has the run token.
func (s *hostedShard) tellMethod(m codegen.Method, e *region.Entity, name string, args []byte, b *runToken) bool {
	t := &encodedTurn{run: b.enter()}
	t.turn.parent, t.turn.entity = t, e
	s.invokeTold(m, t, name, args)
	t.finish()
	kept := t.run.leave()
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
		t.run.handOver()
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
	r.mu.Lock()
	c := r.takeLocked()
	r.mu.Unlock()
	args, at := append(c.Args, e.Payload...), pl.lately()
	c.fill(pl, pl.self, e, s.lane, at)
	c.Args, c.told = args, true
	entity, v := s.Deliver(&c.Call, at, current)
	switch v {
	case region.Overloaded:
		full := s.noRoom(&c.Call.Call)
		r.giveBack(c)
		pl.counters.add(callRefused)
		return true, &overload{cause: full}
	case region.Moved:
		r.giveBack(c)
		return false, nil
	}
	return s.Accepted(&c.Call, entity, v), nil
}

// giveBack makes a call that was taken and did not become a turn spare again.
func (r *runner) giveBack(c *inCall) {
	c.empty()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spare) < maxSpare {
		r.spare = append(r.spare, c)
	}
}

// empty makes a tell ready to be filled again, with its buffer unless that is large.
func (c *inCall) empty() {
	args := c.Args[:0]
	if cap(args) > maxSpareArgs {
		args = nil
	}
	*c = inCall{}
	c.Args = args
}

// takeLocked is a call to be filled; its args are empty, and may have room.
func (r *runner) takeLocked() (c *inCall) {
	last := len(r.spare) - 1
	if last < 0 {
		return new(inCall)
	}
	c, r.spare = r.spare[last], r.spare[:last]
	return c
}

// maxSpare is how many calls a runner keeps for tells, and maxSpareArgs the longest
// buffer for arguments that it keeps with one.
const (
	maxSpare     = 1 << 12
	maxSpareArgs = 2 << 10
)

// keep is recycle for tells: takeLocked is to return the call again, and its buffer
// is used again. It belongs to whoever has the run token.
func (r *runner) keep(c *inCall) {
	if len(r.done) >= maxSpare {
		return
	}
	c.empty()
	r.done = append(r.done, c)
}

// giveBackLocked hands takeLocked what keep has kept.
func (r *runner) giveBackLocked() {
	r.spare = append(r.spare, r.done[:min(len(r.done), maxSpare-len(r.spare))]...)
	clear(r.done)
	r.done = r.done[:0]
}

// fewSpare is how many calls a runner keeps that has nothing to do.
const fewSpare = 64

// shrinkLocked lets go of half of what is spare, for a burst is over.
func (r *runner) shrinkLocked() {
	n := min(len(r.spare), max(len(r.spare)/2, fewSpare))
	clear(r.spare[n:])
	r.spare = r.spare[:n]
}
