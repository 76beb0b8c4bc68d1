package await

import (
	"context"

	"github.com/shardgen/shardgen/internal/pending"
)

// caller is a goroutine that waits at a place of the table of pending calls.
type caller chan struct{}

// NewCaller makes the caller of a new place.
func NewCaller() pending.Caller { return make(caller, 1) }

// Wake lets the goroutine go on.
func (c caller) Wake() { c <- struct{}{} }

// Answer waits for the call's answer, or for its time to be over, and reports whether it
// was answered. Otherwise the call is out of the table; the caller sees to it that the
// table's Coalescer hears of it, when it knows what the call came to.
func Answer(ctx context.Context, t *pending.Table, c *pending.Call, id uint64, limit *Deadline) (answered bool) {
	done := c.Caller.(caller)
	if ctx.Done() == nil && limit.timer == nil {
		<-done // the sweep sees to the end
	} else if !wait(ctx, done, limit) {
		if t.Remove(id) != nil {
			return false
		}
		<-done // the answer came at the same time
	}
	t.Coalescer.Resumed()
	return true
}

// wait is Answer where more than the answer may end it.
//
//go:noinline
func wait(ctx context.Context, done caller, limit *Deadline) (answered bool) {
	select {
	case <-done:
		return true
	case <-limit.over():
	case <-ctx.Done():
	}
	return false
}

// Abandon ends a call that was opened with that hint and never sent.
func Abandon(t *pending.Table, c *pending.Call, id, hint uint64) {
	if t.Remove(id) == nil {
		<-c.Caller.(caller)
		t.Coalescer.Resumed()
	} else {
		t.Coalescer.GaveUp()
	}
	t.Free(c, hint)
}
