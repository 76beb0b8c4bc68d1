package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/transport"
)

type singletonHome HostedShard

var _ singlehost.Home = (*singletonHome)(nil)

func (v *singletonHome) shard() *HostedShard { return (*HostedShard)(v) }

func (v *singletonHome) Log(l slog.Level, text string, args ...any) {
	v.Host.driver.Logger.Log(context.Background(), l, text, args...)
}

func (v *singletonHome) Count(c shardhost.Counter) { v.Host.driver.Counts.Add(reasonOf[c]) }

// Context ends when the node stops.
func (v *singletonHome) Context() context.Context { return v.Host.driver.Context }

// Go runs f on a goroutine that the node waits for.
func (v *singletonHome) Go(f func()) { v.Host.driver.Group.Go(f) }

func (v *singletonHome) After(d time.Duration, f func()) { (*shardEnv)(v).After(d, f) }

func (v *singletonHome) Now() time.Time { return time.Now() }

// Ticks returns the time of the coarse clock, which also decides which entities are idle.
func (v *singletonHome) Ticks() uint32 { return v.Host.driver.Clock.Load() }

// RunTask runs a task of the instance on a new goroutine. ended gets the task's error.
func (v *singletonHome) RunTask(life context.Context, task singlehost.Task, ended func(error)) {
	r := &taskRun{home: v.shard(), kind: v.ID.Kind, log: v.Host.driver.Logger, life: life, task: task}
	v.Go(func() { r.run(ended) })
}

// Activate waits until turns may run, and then runs the factory and OnActivate. The entity's turn
// has begun.
func (v *singletonHome) Activate(ctx context.Context, e *region.Entity) error {
	ctx, cancel := context.WithTimeout(ctx, v.Host.driver.Config.HandoffTimeout)
	defer cancel()
	t := &turn{parent: ctx, entity: e}
	defer t.end()
	if err := v.shard().waitLease(ctx); err != nil {
		return err
	}
	if v.Durable != nil {
		return v.Durable.activateInstance(t, e)
	}
	return v.shard().activateNow(t, e)
}

// Lost records that an instance is about to lose its value.
func (v *singletonHome) Lost(e *region.Entity) { v.Host.lost(e) }

// EndTurn ends the turn of an entity and begins the next one.
func (v *singletonHome) EndTurn(e *region.Entity) { v.shard().FinishTurn(e) }

// Passivate runs the stop hooks of the entities whose turns Core.Stop has begun. Afterwards the
// next home finds a durable singleton's state in the store.
func (v *singletonHome) Passivate(entities []*region.Entity, why codegen.Passivation) {
	if v.Durable != nil {
		for _, e := range entities {
			v.Durable.undoStray(e)
		}
		defer v.Durable.leave()
	}
	_ = v.shard().passivateAll(entities, why, true) // its node leaves, or it dies
}

func (v *singletonHome) Session(to transport.Peer) (shardhost.Session, bool) {
	p := v.Host.driver.Sessions.Session(to, v.lane)
	return p, p != nil
}

// HasDeparted reports whether a process is one of the lane's departed peers.
func (v *singletonHome) HasDeparted(a transport.Address) bool {
	return v.Host.driver.Sessions.HasDeparted(a, v.lane)
}

// Progress wakes the control loop after a change of the shard.
func (v *singletonHome) Progress() { v.Host.driver.Control.Progress(v.ID) }

// LeaseRequests implements the interface of package singlehost for the store of leases. Each
// request runs on its own goroutine.
type LeaseRequests struct {
	Store  store.Lease
	Driver *Driver
	Post   func(func()) // runs a function on the control loop
}

var _ singlehost.Leases = LeaseRequests{}

// Acquire requests a lease. done gets the answer on the control loop.
func (q LeaseRequests) Acquire(c store.Claim, within time.Duration, done func(store.Held, error)) {
	q.request(within, func(ctx context.Context) func() {
		h, err := q.Store.Acquire(ctx, c)
		return func() { done(h, err) }
	})
}

// Renew requests that a lease be extended. done gets the answer on the control loop.
func (q LeaseRequests) Renew(h store.Held, within time.Duration, done func(store.Held, error)) (cancel func()) {
	return q.request(within, func(ctx context.Context) func() {
		next, err := q.Store.Renew(ctx, h)
		return func() { done(next, err) }
	})
}

func (q LeaseRequests) Release(h store.Held, within time.Duration, done func(error)) {
	q.request(within, func(ctx context.Context) func() {
		err := q.Store.Release(ctx, h)
		return func() { done(err) }
	})
}

// request runs ask on a new goroutine, and the function that ask returns on the control loop.
func (q LeaseRequests) request(within time.Duration, ask func(context.Context) (answer func())) (cancel func()) {
	ctx, cancel := context.WithTimeout(q.Driver.Context, within)
	q.Driver.Group.Go(func() {
		defer cancel()
		q.Post(ask(ctx))
	})
	return cancel
}

// heldTasks are the tasks that a turn of a durable singleton has started. They begin only when the
// log has everything that the turn saw, because a task may show that to others. heldTasks are safe
// for concurrent use.
type heldTasks struct {
	mu    sync.Mutex
	start []func()
}

func (h *heldTasks) add(start func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.start = append(h.start, start)
}

func (h *heldTasks) take() (start []func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	start, h.start = h.start, nil
	return start
}

// release begins the tasks when the log has every append up to ticket. They never begin if the
// tenure ends first.
func (h *heldTasks) release(tenure *durablehost.Tenure, ticket durable.Ticket) {
	if tasks := h.take(); len(tasks) > 0 {
		tenure.Then(ticket, func(err error) {
			for _, start := range tasks {
				if err == nil {
					start()
				}
			}
		})
	}
}
