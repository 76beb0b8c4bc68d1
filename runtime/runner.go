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

	mu        sync.Mutex
	queue     []begun
	busy      bool      // a goroutine is at it
	spare     []*inCall // for tells
	spareArgs [][]byte

	// What follows belongs to whoever has the baton.
	batch    []begun
	at       int       // index of the next in batch
	done     []*inCall // to become spare
	doneArgs [][]byte
	own      *inCall // for toldCall; nil: in use
}

// begun is a turn that has begun and waits to be run: for call, or if that is nil, for
// a tell of this process. It is as short as it can be, for it goes from processor to
// processor.
type begun struct {
	entity *region.Entity
	call   *inCall
	method string
	args   []byte // one of spareArgs
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
	for {
		r.watch.awake()
		for r.at < len(r.batch) {
			b := r.batch[r.at]
			r.batch[r.at] = begun{}
			r.at++
			c := b.call
			if c == nil {
				c = r.toldCall(&b)
			}
			if !hostedOf(b.entity).runBegun(b.entity, c, r) {
				return // another goroutine goes on
			}
		}
		r.mu.Lock()
		r.giveBackLocked()
		if len(r.queue) == 0 {
			r.busy = false
			r.shrinkLocked()
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
