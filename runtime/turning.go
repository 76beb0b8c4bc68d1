package shard

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// errLeaves is the cause of the end of a turn's context when its node leaves and does not wait for
// the turn any longer.
var errLeaves = errors.New("the node leaves")

// turning has the context from which the turns of encoded calls derive theirs. It ends with the
// process, and before that for the turns that a node that leaves does not wait for any longer.
type turning struct {
	process context.Context
	now     atomic.Pointer[turnsContext]

	mu      sync.Mutex
	endedAt time.Time // when end was first called; zero means never
}

// turnsContext is the parent of the contexts of some turns.
type turnsContext struct {
	context.Context
	end context.CancelCauseFunc
}

func (t *turning) init(process context.Context) {
	t.process = process
	t.renew()
}

// renew has later turns derive their contexts from a new one, and returns the former.
func (t *turning) renew() *turnsContext {
	next := new(turnsContext)
	next.Context, next.end = context.WithCancelCause(t.process)
	return t.now.Swap(next)
}

// context returns the parent for a turn that asks now.
func (t *turning) context() context.Context { return t.now.Load().Context }

// end ends the contexts of the turns under way, but not those of turns that begin later.
func (t *turning) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.endedAt.IsZero() {
		t.endedAt = time.Now()
	}
	t.renew().end(errLeaves)
}

// ended returns when end was first called, or now if it was not.
func (t *turning) ended(now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.endedAt.IsZero() {
		return now
	}
	return t.endedAt
}
