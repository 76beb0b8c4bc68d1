// Package runner runs begun turns on few goroutines: turns of calls that had to wait, and turns of
// this process's tells. The goroutines live only while there are such turns. The arguments of tells
// are copied one after another into reused buffers.
//
// One slow turn must not delay the turns behind it. So turns of a series run one after another on the
// goroutine that has the series's [Token]. A [Watchdog] takes the Token from a long turn and gives it
// to another goroutine, and a [SlowTurnDetector] finds series whose turns should run on their own
// goroutines. A [Lease] says until when the process may run turns at all.
package runner

import (
	"sync"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/util/tasks"
)

// An Env is the process that a Runner is in.
type Env interface {
	// Run runs a turn on the goroutine that has the run token, and reports whether the goroutine
	// still has the token. args are valid until Run returns.
	Run(t *Turn, args []byte) (kept bool)
	// Emptied is called by the goroutine that has the run token when a batch of turns has run. idle
	// means that no other turn waits. Emptied must not block or add turns.
	Emptied(idle bool)
	// RunAside runs a tell that was set aside, in the turn of e that it joined. It runs without the
	// run token.
	RunAside(e *region.Entity, tell Aside)
}

// A Runner runs turns one after another. A turn that takes long loses the run token: another
// goroutine then runs the later turns. A Runner is safe for concurrent use.
type Runner struct {
	Token
	asides
	env   Env
	group *tasks.Group

	mu    sync.Mutex
	most  int // number of waiting bytes of tells at which Offer begins to refuse tells
	queue batch
	busy  bool // a goroutine runs turns, or is about to start

	// batch, at, args and lent belong to the goroutine that has the run token.
	batch batch
	at    int        // index of the next turn in batch
	args  argsReader // position in the batch's arguments
	lent  bool       // a turn that lost the run token may still read the batch's arguments
}

// Init sets the Runner's group of goroutines, its Watchdog and its Env. It is called once, before
// any other method and before the Watchdog runs.
func (r *Runner) Init(group *tasks.Group, watch *Watchdog, env Env) {
	r.env, r.group = env, group
	r.Token.Init(group, r.resume)
	watch.Mind(&r.Token)
}

// SetMost sets the number of waiting bytes of tells at which Offer begins to refuse tells.
func (r *Runner) SetMost(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = bytes
}

type batch struct {
	turns []Turn
	args  argsBuffer
	bytes int // the tells' arguments, plus turnBytes for each
}

// A Turn is a turn that has begun and waits until the Runner runs it. It runs Call or, if Call is
// nil, a tell of this process that shares the turn with other tells. A Turn is kept small, because
// it passes from one processor to another.
type Turn struct {
	Entity *region.Entity
	Call   *shardhost.Call
	Method string  // method of a tell
	args   argsEnd // where the turn's arguments end in the batch's args
}

// turnBytes is about the size of a Turn. Each waiting tell counts for so many bytes in addition to
// its arguments.
const turnBytes = 40

// Add queues a turn.
func (r *Runner) Add(t Turn) {
	r.mu.Lock()
	r.addLocked(t, nil)
}

// Offer queues a turn with a copy of args. It does nothing and reports false if too many bytes
// wait.
func (r *Runner) Offer(t Turn, args []byte) bool {
	r.mu.Lock()
	if r.queue.bytes+int(r.asides.bytes.Load()) >= r.most {
		r.mu.Unlock()
		return false
	}
	r.addLocked(t, args)
	return true
}

// addLocked queues a turn. It releases mu, which the caller holds.
func (r *Runner) addLocked(t Turn, args []byte) {
	t.args = r.queue.args.add(args)
	if t.Call == nil {
		r.queue.bytes += len(args) + turnBytes
	}
	r.queue.turns = append(r.queue.turns, t)
	idle := !r.busy
	r.busy = true
	r.mu.Unlock()
	if idle {
		r.group.Go(r.run)
	}
}

func (r *Runner) run() {
	for {
		for r.at < len(r.batch.turns) {
			t := &r.batch.turns[r.at]
			args := r.args.next(r.batch.args, t.args)
			r.at++
			if t.Call == nil && r.some() && r.add(t, args) {
				continue
			}
			if !r.env.Run(t, args) {
				return // another goroutine goes on
			}
		}
		if !r.nextBatch() {
			return
		}
	}
}

// resume runs the queued turns on this new goroutine, after a turn has lost the run token.
func (r *Runner) resume() {
	r.lent = true
	if lost := &r.batch.turns[r.at-1]; lost.Call == nil {
		r.resumed(lost.Entity)
	}
	r.run()
}

// Leave ends a tell of the entity's turn while tells are set aside. If a tell of the entity is set
// aside, Leave runs that tell on a goroutine of its own. Leave reports false if the turn must end
// under the shard's lock.
func (r *Runner) Leave(e *region.Entity, now uint32) (left bool) {
	next, goesOn, left := r.leave(e, now)
	if goesOn {
		r.group.Go(func() { r.env.RunAside(e, next) })
	}
	return left
}

// HasAside reports whether tells of any entity are set aside. If so, turns of tells must end by
// Leave. The caller has the turn of an entity, and for this entity the result is certain.
func (r *Runner) HasAside() bool { return r.some() }

// A batch of at most keptTurns turns leaves its memory to the next batch. An idle Runner keeps the
// memory of at most idleTurns turns in each of its two batches.
const (
	keptTurns = 4 << 10
	idleTurns = 1 << 10
)

// nextBatch takes the queued turns. It reports false if there are none. The Runner's goroutine then
// ends.
func (r *Runner) nextBatch() bool {
	if r.lent {
		r.batch.args = nil
	}
	r.batch = r.batch.emptied(keptTurns)
	r.at, r.args, r.lent = 0, argsReader{}, false
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue.turns) == 0 {
		r.env.Emptied(true)
		r.busy = false
		r.batch = r.batch.emptied(idleTurns)
		r.queue = r.queue.emptied(idleTurns)
		return false
	}
	r.env.Emptied(false)
	r.batch, r.queue = r.queue, r.batch
	return true
}

// emptied returns an empty batch that reuses memory for at most the given number of turns.
func (b batch) emptied(turns int) batch {
	e := batch{args: b.args.emptied()}
	if cap(b.turns) <= turns {
		clear(b.turns)
		e.turns = b.turns[:0]
	}
	return e
}
