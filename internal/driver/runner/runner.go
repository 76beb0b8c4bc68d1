// Package runner runs begun turns on few goroutines: turns of calls that had to wait, and of tells
// of this process. The goroutines live only while there are such turns. The arguments of tells are
// copied behind each other into buffers that are used again.
package runner

import (
	"sync"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/runtoken"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/util/tasks"
)

// An Env is the process that a Runner is in.
type Env interface {
	// Run runs a turn on the goroutine with the run token, and reports whether that goroutine still
	// has it. args are valid until Run returns.
	Run(t *Turn, args []byte) (kept bool)
	// Emptied is called by the holder of the run token when a batch of turns has run. idle
	// is true if no other turn waits. Emptied must not block, or add turns.
	Emptied(idle bool)
	// RunAside runs a tell without the run token, in the turn of an entity that it has joined.
	RunAside(e *region.Entity, tell Aside)
}

// A Runner runs turns one after another, those that take long excepted. It is safe for
// concurrent use.
type Runner struct {
	runtoken.Token
	asides
	env   Env
	group *tasks.Group

	mu    sync.Mutex
	most  int // bytes of tells from which on turns are refused
	queue batch
	busy  bool // a goroutine runs turns, or is about to

	// The fields below belong to the holder of the run token.
	batch batch
	at    int        // index of the next turn in batch
	args  argsReader // of batch
	lent  bool       // a turn that lost the run token may still read the batch's arguments
}

// Init sets where the Runner's goroutines are counted, and which Watchdog looks after it.
// It is called once, before anything else and before the Watchdog runs.
func (r *Runner) Init(group *tasks.Group, watch *runtoken.Watchdog, env Env) {
	r.env, r.group = env, group
	r.Token.Init(group, r.resume)
	watch.Mind(&r.Token)
}

// SetMost sets from how many bytes of waiting tells on Offer refuses.
func (r *Runner) SetMost(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = bytes
}

// A batch is turns to be run, first to last, with the arguments of the tells among
// them.
type batch struct {
	turns []Turn
	args  argsBuffer
	bytes int // of the tells among them
}

// A Turn has begun and waits to be run: for Call, or if that is nil, for a tell of this process in
// a turn of tells. It is kept small, because it goes from processor to processor.
type Turn struct {
	Entity *region.Entity
	Call   *shardhost.Call
	Method string  // of a tell
	args   argsEnd // where the turn's arguments end in the batch's
}

// turnBytes is what each waiting tell counts beside its arguments: about the size of a Turn.
const turnBytes = 40

// Add has a turn run behind those that were added before.
func (r *Runner) Add(t Turn) {
	r.mu.Lock()
	r.addLocked(t, nil)
}

// Offer is Add for a turn with arguments, of which it keeps a copy. It reports false when too
// many bytes wait: nothing has happened then.
func (r *Runner) Offer(t Turn, args []byte) bool {
	r.mu.Lock()
	if r.queue.bytes+int(r.asides.bytes.Load()) >= r.most {
		r.mu.Unlock()
		return false
	}
	r.addLocked(t, args)
	return true
}

// addLocked adds a turn and releases mu, which the caller holds.
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

// run runs turns until none is left or the run token is taken away.
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

// resume continues on a new goroutine behind a long turn.
func (r *Runner) resume() {
	r.lent = true
	if lost := &r.batch.turns[r.at-1]; lost.Call == nil {
		r.resumed(lost.Entity)
	}
	r.run()
}

// Leave ends the turn of an entity's tell, as region.Entity.Leave does, where tells are put aside. If
// its next tell is one of them, that runs on a goroutine of its own. It reports false if the turn must
// end under the shard's lock.
func (r *Runner) Leave(e *region.Entity, now uint32) (left bool) {
	next, goesOn, left := r.leave(e, now)
	if goesOn {
		r.group.Go(func() { r.env.RunAside(e, next) })
	}
	return left
}

// HasAside reports whether tells of any entity are put aside: then the turns of tells end by Leave.
// The result is certain for an entity whose turn the caller holds.
func (r *Runner) HasAside() bool { return r.some() }

// keptTurns is the largest batch, in turns, whose memory is used again. idleTurns is the largest one
// whose memory a runner keeps while it has nothing to do.
const (
	keptTurns = 4 << 10
	idleTurns = 1 << 10
)

// nextBatch takes the turns that were added since the batch began. It reports false when
// there are none, and the runner ends.
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

// emptied returns an empty batch. It has the memory of b, unless that is for more than so many turns.
func (b batch) emptied(turns int) batch {
	e := batch{args: b.args.emptied()}
	if cap(b.turns) <= turns {
		clear(b.turns)
		e.turns = b.turns[:0]
	}
	return e
}
