package shard

import (
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
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
	t := k.routes[placement.ShardOf(c.Ref.Hash, k.shards)-k.shards].target.Load()
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
	in := r.takeLocked()
	in.told, in.tell, in.lane = true, true, s.lane
	in.method, in.args = bytesOf(c.Method), append(in.args, c.Args...)
	r.addLocked(begun{shard: s, entity: e, call: in})
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

// maxSpareArgs is the longest buffer for arguments that a spare call keeps, and
// maxSpare how many of those a runner keeps.
const (
	maxSpareArgs = 2 << 10
	maxSpare     = 1 << 12
)

// keep is recycle for calls that takeLocked is to return again, with their buffers. It
// belongs to whoever has the baton.
func (r *runner) keep(c *inCall) {
	args := c.args[:0]
	if cap(args) > maxSpareArgs {
		args = nil
	}
	*c = inCall{args: args}
	if len(r.done) < maxSpare {
		r.done = append(r.done, c)
	}
}

// giveBackLocked hands takeLocked what keep has kept.
func (r *runner) giveBackLocked() {
	n := min(len(r.done), maxSpare-len(r.spare))
	r.spare = append(r.spare, r.done[:n]...)
	clear(r.done)
	r.done = r.done[:0]
}
