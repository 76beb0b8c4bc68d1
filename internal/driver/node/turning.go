package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// errLeaves is the cause with which turns end when a leaving node stops waiting.
var errLeaves = errors.New("the node is leaving and no longer waits for the turn")

// Turning holds the parent of the contexts of all turns whose calls arrived encoded. This parent is
// cancelled when the process ends, or when a leaving node stops waiting for running turns
// (LeaveTimeout).
type Turning struct {
	process context.Context
	now     atomic.Pointer[turnsContext]

	mu      sync.Mutex
	endedAt time.Time // when End was first called; zero means never
}

// turnsContext is the parent of the contexts of one era's turns. Turning.End begins the next era.
type turnsContext struct {
	context.Context
	end    context.CancelCauseFunc
	era    uint32
	former context.Context // the context of earlier eras' turns, which has ended
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

func (t *Turning) context(era uint32) context.Context {
	now := t.now.Load()
	if era != now.era {
		return now.former
	}
	return now.Context
}

// End cancels the contexts of running turns, but not those of turns that begin later.
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

// Ended returns when End was first called; if never, it returns now.
func (t *Turning) Ended(now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.endedAt.IsZero() {
		return now
	}
	return t.endedAt
}
