package durablehost

import (
	"context"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
)

// Admit decides on a command that came.
func (t *Tenure) Admit(c durable.Command) (a durable.Admission) {
	a.Verdict = durable.Closed
	t.do(func(now time.Time) { a = t.core.Admit(now, c) })
	return a
}

// Discard ends a command whose turn committed nothing.
func (t *Tenure) Discard(c durable.Command) {
	t.do(func(time.Time) { t.core.Discard(c) })
}

// Commit ends a turn that changed something. It fails with durable.ErrTooLarge, and then
// the entity must be loaded again, or with durable.ErrNotOpen.
func (t *Tenure) Commit(turn durable.Turn) (ticket durable.Ticket, err error) {
	err = fmt.Errorf("commit: entity %q: %w", turn.Entity, durable.ErrNotOpen)
	t.do(func(now time.Time) {
		t.changed = now
		ticket, err = t.core.Commit(now, turn)
	})
	return ticket, err
}

// Observe ends a turn that changed nothing: see durable.Shard.Observe.
func (t *Tenure) Observe(entity string, leased bool) (ticket durable.Ticket) {
	t.do(func(now time.Time) { ticket = t.core.Observe(now, entity, leased) })
	return ticket
}

// Seen returns the ticket of the entity's last commit.
func (t *Tenure) Seen(entity string) (ticket durable.Ticket) {
	t.do(func(time.Time) { ticket = t.core.Seen(entity) })
	return ticket
}

// Then calls do once the log has all up to the ticket, with nil, or when the tenure ends
// before that, with ErrInDoubt. It may be called before Then returns. Ticket 0 is in the log
// of a tenure that has not ended.
func (t *Tenure) Then(ticket durable.Ticket, do func(error)) {
	t.mu.Lock()
	switch {
	case t.over:
		t.mu.Unlock()
		do(t.inDoubt(durable.Event{}))
	case ticket <= t.durable:
		t.mu.Unlock()
		do(nil)
	default:
		t.waits = append(t.waits, wait{ticket, do})
		t.mu.Unlock()
	}
}

// Wait is Then for a caller that waits.
func (t *Tenure) Wait(ctx context.Context, ticket durable.Ticket) error {
	done := make(chan error, 1)
	t.Then(ticket, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("shard %v: %w: its log has not confirmed the commit%s", t.shard.cfg.Shard, ctx.Err(), t.trouble())
	}
}

// Load activates an entity. It waits for the store if the entity is not at hand.
func (t *Tenure) Load(ctx context.Context, entity string) (durable.Loaded, error) {
	var l durable.Loaded
	var there bool
	got := make(chan durable.Loaded, 1)
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return l, fmt.Errorf("shard %v: %w", t.shard.cfg.Shard, ErrNotHere)
	}
	if l, there = t.core.Load(time.Now(), entity); !there {
		t.loads.wait(entity, got)
	}
	after := t.takeLocked()
	t.mu.Unlock()
	for _, f := range after {
		f()
	}
	if there {
		return l, nil
	}
	select {
	case l, ok := <-got:
		if !ok {
			return l, fmt.Errorf("shard %v: %w", t.shard.cfg.Shard, ErrNotHere)
		}
		return l, l.Err
	case <-ctx.Done():
		t.do(func(time.Time) {
			t.loads.forget(entity, got)
			t.core.Rest(entity)
		})
		return l, fmt.Errorf("shard %v: read entity %q: %w%s", t.shard.cfg.Shard, entity, ctx.Err(), t.trouble())
	}
}

// Rest ends what Load began: the entity is not active any more.
func (t *Tenure) Rest(entity string) {
	t.do(func(time.Time) { t.core.Rest(entity) })
}
