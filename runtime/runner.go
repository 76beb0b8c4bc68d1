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
	queue []begun
	busy  bool      // a goroutine is at it
	spare []*inCall // for tells

	// What follows belongs to whoever has the baton.
	batch []begun
	at    int       // index of the next in batch
	done  []*inCall // to become spare
}

// begun is a turn that has begun and waits to be run.
type begun struct {
	shard  *hostedShard
	entity *region.Entity
	call   *inCall
}

func (r *runner) init(pl *plane) {
	r.wg, r.next, r.watch = &pl.wg, r.run, &pl.watch
	pl.watch.mind(&r.baton)
}

// add has a turn run behind those that were added before.
func (r *runner) add(b begun) {
	r.mu.Lock()
	r.addLocked(b)
}

// addLocked is add for who holds mu, which it releases.
func (r *runner) addLocked(b begun) {
	r.queue = append(r.queue, b)
	idle := !r.busy
	r.busy = true
	r.mu.Unlock()
	if idle {
		r.wg.Go(r.run)
	}
}

// keptBatch is the longest batch whose memory is used again.
const keptBatch = 4096

// run runs turns until none is left or the baton is taken away.
func (r *runner) run() {
	r.watch.awake()
	for {
		for r.at < len(r.batch) {
			b := r.batch[r.at]
			r.batch[r.at] = begun{}
			r.at++
			if !b.shard.runBegun(b.entity, b.call, r) {
				return // another goroutine goes on
			}
		}
		r.mu.Lock()
		r.giveBackLocked()
		if len(r.queue) == 0 {
			r.busy = false
			r.mu.Unlock()
			return
		}
		spare := r.batch[:0]
		if cap(spare) > keptBatch {
			spare = nil
		}
		r.batch, r.at, r.queue = r.queue, 0, spare
		r.mu.Unlock()
	}
}
