package shard

import (
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/region"
)

// tellNear begins the turn of a tell outside the shard's lock, and leaves it to a
// runner. It reports false where that cannot be: the entity is elsewhere, or sleeps,
// or has a turn. Then the tell takes the long way, where it may wait; so a sender's
// tells and calls stay in order.
func (p port) tellNear(c *codegen.Call) bool {
	if e, ok := c.Ref.Near.Load().(*region.Entity); ok && hostedOf(e).tryEnter(e) {
		hostedOf(e).runTold(e, c)
		return true
	}
	k := p.kind
	t := k.routeOf(c.Ref.Hash).target.Load()
	if t == nil || t.local == nil {
		return false
	}
	e := t.local.look(c.Ref)
	if e == nil || e == c.Ref.Near.Load() || !t.local.tryEnter(e) {
		return false
	}
	c.Ref.Near.Store(e)
	t.local.runTold(e, c)
	return true
}

// runTold has the turn of a tell run, which has begun.
func (s *hostedShard) runTold(e *region.Entity, c *codegen.Call) {
	r := s.plane().runner(s.id.Shard)
	r.mu.Lock()
	var args []byte
	if last := len(r.spareArgs) - 1; last >= 0 {
		args, r.spareArgs = r.spareArgs[last], r.spareArgs[:last]
	}
	r.addLocked(begun{entity: e, method: c.Method, args: append(args, c.Args...)})
}

// toldCall is the call of a turn that runTold has added: the runner's own record,
// which stays in its processor's cache. It belongs to whoever has the baton.
func (r *runner) toldCall(b *begun) (c *inCall) {
	if c, r.own = r.own, nil; c == nil {
		c = new(inCall)
	}
	c.told, c.tell, c.lane = true, true, hostedOf(b.entity).lane
	c.method, c.args = bytesOf(b.method), b.args
	return c
}

// enqueueTold is enqueue for a tell, which has neither a chain nor a deadline.
func (s *hostedShard) enqueueTold(e *wire.Envelope, by *route, t *target) bool {
	pl := s.plane()
	r := pl.runner(s.id.Shard)
	r.mu.Lock()
	c := r.takeLocked()
	r.mu.Unlock()
	args, at := append(c.args, e.Payload...), pl.lately()
	c.fill(pl, pl.self, e, s.lane, at)
	c.args, c.told = args, true
	return s.accept(c, at, by, t)
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

// maxSpareArgs is the longest buffer for arguments that is kept, and maxSpare how many
// of those, and of calls, a runner keeps.
const (
	maxSpareArgs = 2 << 10
	maxSpare     = 1 << 12
)

// keep is recycle for tells: toldCall or takeLocked is to return the call again, and
// its buffer is used again. It belongs to whoever has the baton.
func (r *runner) keep(c *inCall) {
	args := c.args[:0]
	if cap(args) > maxSpareArgs {
		args = nil
	}
	queued := c.Driver != nil
	*c = inCall{}
	switch {
	case !queued:
		r.own = c
		if len(r.doneArgs) < maxSpare {
			r.doneArgs = append(r.doneArgs, args)
		}
	case len(r.done) < maxSpare:
		c.args = args
		r.done = append(r.done, c)
	}
}

// giveBackLocked hands takeLocked and runTold what keep has kept.
func (r *runner) giveBackLocked() {
	r.spare, r.done = giveBack(r.spare, r.done)
	r.spareArgs, r.doneArgs = giveBack(r.spareArgs, r.doneArgs)
}

// fewSpare is how many of each a runner keeps that has nothing to do.
const fewSpare = 64

// shrinkLocked lets go of half of what is spare, for a burst is over.
func (r *runner) shrinkLocked() {
	r.spare, r.spareArgs = shrink(r.spare), shrink(r.spareArgs)
}

func shrink[T any](spare []T) []T {
	n := min(len(spare), max(len(spare)/2, fewSpare))
	clear(spare[n:])
	return spare[:n]
}

func giveBack[T any](spare, done []T) (newSpare, newDone []T) {
	spare = append(spare, done[:min(len(done), maxSpare-len(spare))]...)
	clear(done)
	return spare, done[:0]
}
