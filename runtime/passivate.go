package shard

import (
	"context"
	"errors"
	"fmt"
)

var errReadForgets = errors.New("the method is marked //shard:read, and changes nothing (remove the mark)")

var errNoTurn = errors.New("ctx is not the context of an entity's method (pass the method's own, before it returns)")

// Passivate passivates the entity at the end of the turn to which ctx belongs: its stop
// hook runs with [Idle], its state is kept and its value dropped. If calls wait, the
// entity is activated again at once. Until then the entity is not remembered (see
// [Remember]). Passivate fails if ctx belongs to no turn, or to a turn of a singleton,
// which is never passivated.
func Passivate(ctx context.Context) error { return endWith(ctx, "passivate", passivateAfter) }

// Forget deletes the entity at the end of the turn to which ctx belongs: its stop hook
// runs with [Forgotten], its state is dropped, and it is no longer remembered. A later
// call begins a new entity. Forget fails if ctx belongs to no turn, to a turn of a
// singleton, which is never forgotten, or to a turn of a method marked //shard:read.
func Forget(ctx context.Context) error { return endWith(ctx, "forget", forgetAfter) }

func endWith(ctx context.Context, what string, after uint32) error {
	t := turnOf(ctx)
	if t == nil {
		return fmt.Errorf("%s: %w", what, errNoTurn)
	}
	if t.shard().host.instance != nil {
		return fmt.Errorf("%s %s: %w", what, t.shard().ID.Kind, errSingletonStays)
	}
	if after == forgetAfter && t.shard().durable != nil {
		if d := durableOf(t); d == nil || d.read {
			return fmt.Errorf("%s %s/%s: %w", what, t.shard().ID.Kind, clip(t.entity.ID), errReadForgets)
		}
	}
	t.flags.Or(after)
	return nil
}
