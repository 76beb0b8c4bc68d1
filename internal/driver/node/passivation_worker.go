package node

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/runtime/codegen"
)

const (
	// maxHooks bounds a type's running stop hooks of idle entities. Hooks slower than slowHook do
	// not count.
	maxHooks = 64
	slowHook = time.Second
	// workersLook is the interval at which a batch may get one more worker. It gets one if fewer than
	// quickHooks entities were taken meanwhile, because hooks then mostly wait.
	workersLook = time.Millisecond
	quickHooks  = 10
)

// passivationWorkers run the stop hooks of a type's idle entities. Usually one worker takes the
// whole batch.
type passivationWorkers struct {
	host  *Host
	wake  Signal // to an idle worker: look at the batch
	taken Signal // to passivate: all of the batch has been taken

	mu     sync.Mutex    // guards the fields below
	batch  []idleEntity  // the entities of the batch that no worker has taken yet
	places int           // number of workers whose hook is not slow
	idle   int           // number of workers that wait for a batch
	over   chan struct{} // closed when the round is over: idle workers then end
}

func newPassivationWorkers(h *Host) *passivationWorkers {
	return &passivationWorkers{host: h, wake: newSignal(), taken: newSignal()}
}

// begin begins a round of batches, and returns the function that ends the round. Hooks may run
// longer.
func (w *passivationWorkers) begin() (end func()) {
	over := make(chan struct{})
	w.mu.Lock()
	w.over = over
	w.mu.Unlock()
	return func() { close(over) }
}

// passivate returns when workers have taken all entities of the batch, which must not be empty, or
// when the node has ended. The last hooks may still run.
func (w *passivationWorkers) passivate(batch []idleEntity) {
	w.mu.Lock()
	w.batch = batch
	w.mu.Unlock()
	w.more()
	look := time.NewTicker(workersLook)
	defer look.Stop()
	for left := len(batch); ; {
		select {
		case <-w.taken:
			return
		case <-w.host.driver.Stop:
			w.mu.Lock()
			w.batch = nil
			w.mu.Unlock()
			return
		case <-look.C:
			w.mu.Lock()
			few := left-len(w.batch) < quickHooks
			left = len(w.batch)
			w.mu.Unlock()
			if few && left > 0 {
				w.more()
			}
		}
	}
}

func (w *passivationWorkers) more() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.idle > 0 {
		w.wake.Notify()
	} else if w.places < maxHooks {
		w.places++
		r := &passivationWorker{workers: w}
		w.host.driver.Group.Go(r.run)
	}
}

func (w *passivationWorkers) next() (r idleEntity, ok bool) {
	for {
		w.mu.Lock()
		if len(w.batch) > 0 {
			r, w.batch = w.batch[0], w.batch[1:]
			if len(w.batch) == 0 {
				w.taken.Notify()
			}
			w.mu.Unlock()
			return r, true
		}
		w.idle++
		over := w.over
		w.mu.Unlock()
		select {
		case <-w.wake:
			ok = true
		case <-over:
			ok = false
		}
		w.mu.Lock()
		w.idle--
		w.mu.Unlock()
		if !ok {
			return idleEntity{}, false
		}
	}
}

func (w *passivationWorkers) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.places--
}

// passivationWorker runs stop hooks on its own goroutine. Its watchdog frees the place of a worker
// with a slow hook, and abandons a hook that does not return in time.
type passivationWorker struct {
	workers *passivationWorkers
	since   int    // number of entities passivated since the last yield
	state   []byte // the entity's state before its hook; reused

	mu      sync.Mutex   // guards the fields below
	hook    idleHook     // the running hook; zero means none
	context *hookContext // context of the running hook, or of the one before
	timer   *time.Timer  // timer of the watchdog; made with the first hook
	armed   bool         // the watchdog's timer is running
	left    bool         // the worker's place was freed
	lost    bool         // the watchdog has taken over an entity, so the worker must end
}

type idleHook struct {
	shard  *HostedShard
	entity *region.Entity
	began  time.Time
}

func (r *passivationWorker) run() {
	defer r.end() // also when a hook ends this goroutine
	for {
		next, ok := r.workers.next()
		if !ok || !r.passivate(next) {
			return
		}
		if r.since++; r.since >= passivatedAtOnce {
			r.since = 0
			runtime.Gosched()
		}
	}
}

func (r *passivationWorker) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
	}
	if r.context != nil {
		r.context.end()
	}
	r.leaveLocked()
}

func (r *passivationWorker) leaveLocked() {
	if !r.left {
		r.left = true
		r.workers.leave()
	}
}

func (r *passivationWorker) passivate(next idleEntity) bool {
	if !next.begin() {
		return true
	}
	s, e := next.shard, next.entity
	s.Host.passivating.Add(1)
	var state []byte
	err := errHookExited
	defer func() { // also when the encoder or the hook ends this goroutine
		if r.ended() {
			s.passivated(e, state, err)
		}
	}()
	if r.state, err = s.Host.appendState(r.state[:0], e); err != nil {
		return true
	}
	s.stray(e, r.state, nil)
	value := e.Value
	ctx := r.watch(s, e)
	err = errHookExited // should the hook end this goroutine
	err = s.Host.callStopHook(ctx, e.ID, value, codegen.Idle)
	if !r.ended() {
		return false
	}
	if err == nil {
		state, err = s.Host.encodeState(e)
	}
	return r.hasPlace()
}

// watch makes the watchdog watch a hook, and returns the hook's context. The worker has the
// entity's turn until ended reports false. Reusing a context shortens a hook's time by at most a
// hundredth.
func (r *passivationWorker) watch(s *HostedShard, e *region.Entity) context.Context {
	now, limit := time.Now(), s.Host.Settings.StopTimeout
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hook = idleHook{s, e, now}
	if c := r.context; c == nil || c.over.Load() || c.deadline.Sub(now) < limit-limit/100 {
		if c != nil {
			c.end()
		}
		r.context = newHookContext(s.driver().Context, now.Add(limit))
	}
	if !r.armed {
		r.armed = true
		r.armLocked(min(slowHook, limit))
	}
	return r.context
}

func (r *passivationWorker) armLocked(d time.Duration) {
	if r.timer == nil {
		r.timer = time.AfterFunc(d, r.look)
	} else {
		r.timer.Reset(d)
	}
}

// ended records that the hook has returned, and reports whether the worker still has the entity's
// turn.
func (r *passivationWorker) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hook = idleHook{}
	if r.context != nil && r.context.made.Load() != nil {
		r.context.end()
	}
	return !r.lost
}

func (r *passivationWorker) hasPlace() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.left
}

// look is the watchdog: a timer calls it to check how long the worker's hook has run. The timer
// stays set for up to slowHook after a hook has returned, so that few quick hooks need to set it.
func (r *passivationWorker) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.hook
	if h.entity == nil {
		r.armed = false
		return
	}
	limit := h.shard.Host.Settings.StopTimeout
	took := time.Since(h.began)
	switch {
	case took >= limit:
		r.leaveLocked()
		r.hook, r.lost = idleHook{}, true
		r.context.end()
		h.shard.driver().Group.Go(func() { r.abandon(h) }) // the worker, which has not ended, is counted
	case took >= slowHook:
		r.leaveLocked()
		r.armLocked(limit - took)
	default:
		r.armLocked(min(slowHook, limit) - took)
	}
}

// abandon passivates the entity of a hanging hook, with the state from before the hook. The worker
// no longer touches the entity.
func (r *passivationWorker) abandon(h idleHook) {
	h.shard.passivated(h.entity, bytes.Clone(r.state), h.shard.Host.hookAbandoned())
}
