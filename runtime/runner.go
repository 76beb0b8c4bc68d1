package shard

import (
	"sync"

	"github.com/shardgen/shardgen/internal/region"
)

// A runner runs turns that have begun and whose calls came from this process or
// had to wait, one after another on one goroutine, which lives only as long as
// there are any. It is safe for concurrent use.
type runner struct {
	runToken
	watch *watchdog
	most  int // bytes of arguments from which on tells are refused

	mu    sync.Mutex
	queue batch
	busy  bool      // a goroutine is at it
	spare []*inCall // for tells that wait

	// What follows belongs to whoever has the run token.
	batch      batch
	at         int        // index of the next turn in batch
	args       argsReader // of batch
	lent       bool       // a turn that lost the run token may still read the batch's arguments
	done       []*inCall  // to become spare
	prefetched byte       // what prefetch returned, so that it is not left out
}

// A batch is turns to be run, first to last, with the arguments of the tells among
// them.
type batch struct {
	turns []queuedTurn
	args  argsBuffer
	bytes int // of the arguments
}

// queuedTurn is a turn that has begun and waits to be run: for call, or if that is nil, for
// a tell of this process. It is as short as it can be, for it goes from processor to
// processor.
type queuedTurn struct {
	entity *region.Entity
	call   *inCall
	method string
	args   argsEnd // where the turn's arguments end in the batch's
}

func (r *runner) init(pl *plane) {
	r.wg, r.next, r.watch = &pl.wg, r.resume, &pl.watch
	pl.watch.mind(&r.runToken)
}

// add has a turn run behind those that were added before.
func (r *runner) add(e *region.Entity, c *inCall) {
	r.mu.Lock()
	r.addLocked(queuedTurn{entity: e, call: c}, nil)
}

// addLocked is add for who holds mu, which it releases.
func (r *runner) addLocked(b queuedTurn, args []byte) {
	b.args = r.queue.args.add(args)
	r.queue.bytes += len(args)
	r.queue.turns = append(r.queue.turns, b)
	idle := !r.busy
	r.busy = true
	r.mu.Unlock()
	if idle {
		r.wg.Go(r.run)
	}
}

// run runs turns until none is left or the run token is taken away.
func (r *runner) run() {
	for {
		r.watch.awake()
		for r.at < len(r.batch.turns) {
			if r.at%prefetchTurns == 0 {
				r.prefetched = prefetch(r.batch.turns[r.at:min(r.at+prefetchTurns, len(r.batch.turns))])
			}
			b := &r.batch.turns[r.at]
			args := r.args.next(r.batch.args, b.args)
			r.at++
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
// run token.
func (r *runner) runTurn(b *queuedTurn, args []byte) bool {
	s := hostedOf(b.entity)
	if b.call == nil {
		return s.runTold(b.entity, b.method, args, r)
	}
	return s.runQueued(b.entity, b.call, r)
}

// keptTurns is of how many turns a batch is at most whose memory is used again, and
// idleTurns that which a runner keeps that has nothing to do.
const (
	keptTurns = 4 << 10
	idleTurns = 1 << 10
)

// nextBatch takes what was added since the batch began. It reports false when that is
// nothing, and so the runner ends.
func (r *runner) nextBatch() bool {
	if r.lent {
		r.batch.args = nil
	}
	r.batch = r.batch.emptied(keptTurns)
	r.at, r.args, r.lent = 0, argsReader{}, false
	r.mu.Lock()
	defer r.mu.Unlock()
	r.giveBackLocked()
	if len(r.queue.turns) == 0 {
		r.busy = false
		r.shrinkLocked()
		r.batch = r.batch.emptied(idleTurns)
		r.queue = r.queue.emptied(idleTurns)
		return false
	}
	r.batch, r.queue = r.queue, r.batch
	return true
}

// emptied is a batch without anything, in the same memory as far as that is for no more
// turns.
func (b batch) emptied(turns int) batch {
	e := batch{args: b.args.emptied()}
	if cap(b.turns) <= turns {
		clear(b.turns)
		e.turns = b.turns[:0]
	}
	return e
}
