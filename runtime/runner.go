package shard

import (
	"sync"

	"github.com/shardgen/shardgen/runtime/region"
)

// A runner runs turns that have begun and whose calls came from this process or
// had to wait, one after another on one goroutine, which lives only as long as
// there are any. It is safe for concurrent use.
type runner struct {
	baton
	watch *watchdog

	mu    sync.Mutex
	queue batch
	busy  bool      // a goroutine is at it
	spare []*inCall // for tells that wait

	// What follows belongs to whoever has the baton.
	batch  batch
	at     int       // index of the next turn in batch
	argsAt int       // where its arguments begin
	lent   bool      // a turn that lost the baton may still read the batch's arguments
	done   []*inCall // to become spare
	warmth byte      // what warm returned, so that it is not left out
}

// A batch is turns to be run, first to last, with the arguments of the tells among
// them one after another.
type batch struct {
	turns []begun
	args  []byte
}

// begun is a turn that has begun and waits to be run: for call, or if that is nil, for
// a tell of this process. It is as short as it can be, for it goes from processor to
// processor.
type begun struct {
	entity *region.Entity
	call   *inCall
	method string
	args   int // where the turn's arguments end in the batch's
}

func (r *runner) init(pl *plane) {
	r.wg, r.next, r.watch = &pl.wg, r.resume, &pl.watch
	pl.watch.mind(&r.baton)
}

// add has a turn run behind those that were added before.
func (r *runner) add(e *region.Entity, c *inCall) {
	r.mu.Lock()
	r.addLocked(begun{entity: e, call: c}, nil)
}

// addLocked is add for who holds mu, which it releases.
func (r *runner) addLocked(b begun, args []byte) {
	r.queue.args = append(r.queue.args, args...)
	b.args = len(r.queue.args)
	r.queue.turns = append(r.queue.turns, b)
	idle := !r.busy
	r.busy = true
	r.mu.Unlock()
	if idle {
		r.wg.Go(r.run)
	}
}

// run runs turns until none is left or the baton is taken away.
func (r *runner) run() {
	for {
		r.watch.awake()
		for r.at < len(r.batch.turns) {
			if r.at%warmTurns == 0 {
				r.warmth = warm(r.batch.turns[r.at:min(r.at+warmTurns, len(r.batch.turns))])
			}
			b := &r.batch.turns[r.at]
			args := r.batch.args[r.argsAt:b.args:b.args]
			r.at, r.argsAt = r.at+1, b.args
			if !r.runTurn(b, args) {
				return // another goroutine goes on
			}
		}
		if !r.nextBatch() {
			return
		}
	}
}

// resume is run for a goroutine that goes on behind a turn that takes long.
func (r *runner) resume() {
	r.lent = true
	r.run()
}

// runTurn runs one turn of the batch. It reports whether this goroutine still has the
// baton.
func (r *runner) runTurn(b *begun, args []byte) bool {
	s := hostedOf(b.entity)
	if b.call == nil {
		return s.runTold(b.entity, b.method, args, r)
	}
	return s.runBegun(b.entity, b.call, r)
}

// The largest batch whose memory is used again, in turns and in bytes of arguments, and
// the largest that a runner keeps which has nothing to do.
const (
	keptTurns, keptArgBytes = 4 << 10, 256 << 10
	idleTurns, idleArgBytes = 1 << 10, 64 << 10
)

// nextBatch takes what was added since the batch began. It reports false when that is
// nothing, and so the runner ends.
func (r *runner) nextBatch() bool {
	if r.lent {
		r.batch.args = nil
	}
	r.batch = r.batch.emptied(keptTurns, keptArgBytes)
	r.at, r.argsAt, r.lent = 0, 0, false
	r.mu.Lock()
	defer r.mu.Unlock()
	r.giveBackLocked()
	if len(r.queue.turns) == 0 {
		r.busy = false
		r.shrinkLocked()
		r.batch = r.batch.emptied(idleTurns, idleArgBytes)
		r.queue = r.queue.emptied(idleTurns, idleArgBytes)
		return false
	}
	r.batch, r.queue = r.queue, r.batch
	return true
}

// emptied is a batch without anything, in the same memory as far as it is no larger.
func (b batch) emptied(turns, argBytes int) (e batch) {
	if cap(b.turns) <= turns {
		clear(b.turns)
		e.turns = b.turns[:0]
	}
	if cap(b.args) <= argBytes {
		e.args = b.args[:0]
	}
	return e
}
