package shard

import (
	"context"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/region"
)

// durableEntity is an active entity. Only the goroutine that has the entity's turn may
// use it.
type durableEntity struct {
	region.Kept
	tenure *durablehost.Tenure // under which it was activated
	state  []byte              // as last committed, or being committed
	last   durable.Ticket      // the ticket of its last commit
	ready  bool                // it has been activated
	woken  bool                // by OnActivate, whose changes no turn has settled yet
	// expires is the Unix time in milliseconds from which it is as if it had ended; 0 means never.
	expires int64
}

// expired reports whether the entity has outlived its ttl.
func (a *durableEntity) expired() bool {
	return a.expires != 0 && time.Now().UnixMilli() >= a.expires
}

// parted are commits of OnPassivate of entities that no other node takes over, because the node ends.
// It is safe for concurrent use.
type parted struct {
	mu  sync.Mutex
	all []parting
}

type parting struct {
	tenure *durablehost.Tenure
	ticket durable.Ticket
	failed func(error)
}

func (p *parted) add(tenure *durablehost.Tenure, ticket durable.Ticket, failed func(error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, parting{tenure, ticket, failed})
}

// confirm waits until the log has the commits, or ctx ends.
func (p *parted) confirm(ctx context.Context) {
	p.mu.Lock()
	all := p.all
	p.all = nil
	p.mu.Unlock()
	for _, one := range all {
		if err := one.tenure.Wait(ctx, one.ticket); err != nil {
			one.failed(err)
		}
	}
}

// heldTasks are the tasks that the present turn of a durable singleton has started. They begin when
// all that the turn has changed and seen is in the log: a task may tell others of it. It is safe for
// concurrent use, because a method may start tasks from its own goroutines.
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

// release begins the tasks of a turn once the log has all up to the ticket. If it never has, the
// instance ends with the tenure.
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

const strayedState = "its state was changed outside a turn, and the change is undone (a task calls a method through the singleton's client, which changes and commits it)"
