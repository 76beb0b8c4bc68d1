package node

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

// Turning has the context from which the turns of encoded calls derive theirs. It is cancelled when
// the process ends, or when a leaving node stops waiting for running turns (LeaveTimeout).
type Turning struct {
	process context.Context
	now     atomic.Pointer[turnsContext]

	mu      sync.Mutex
	endedAt time.Time // when end was first called; zero means never
}

// turnsContext is the parent of the contexts of the turns that began in one era. Each call of end
// begins another era.
type turnsContext struct {
	context.Context
	end    context.CancelCauseFunc
	era    uint32
	former context.Context // of the turns of earlier eras: it has ended
}

func (t *Turning) init(process context.Context) {
	t.process = process
	t.now.Store(t.next())
}

func (t *Turning) next() *turnsContext {
	next := new(turnsContext)
	next.Context, next.end = context.WithCancelCause(t.process)
	return next
}

// context returns the parent for a turn of that era. The turn notes its era when it begins, because its
// context is made when its method first asks for it, which may be after the end of the era.
func (t *Turning) context(era uint32) context.Context {
	now := t.now.Load()
	if era != now.era {
		return now.former
	}
	return now.Context
}

// End ends the contexts of the turns under way, but not those of turns that begin later.
func (t *Turning) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.endedAt.IsZero() {
		t.endedAt = time.Now()
	}
	now, next := t.now.Load(), t.next()
	next.era, next.former = now.era+1, now.Context
	t.now.Store(next)
	now.end(errLeaves)
}

// Ended returns when end was first called, or now if it was not.
func (t *Turning) Ended(now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.endedAt.IsZero() {
		return now
	}
	return t.endedAt
}
