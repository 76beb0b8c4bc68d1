package shard

import (
	"context"
	"errors"
	"fmt"
)

// ErrNoEpoch means that [Epoch] was called outside a turn of a durable type.
var ErrNoEpoch = errors.New("ctx is not that of a turn of a durable type, whose epochs grow over full restarts")

// Epoch returns the epoch of the turn to which ctx belongs, for conditional writes to a
// database of your own. It is a number that only grows for the entity, over moves, crashes
// and full restarts. A write under an epoch lower than one that the database has seen comes
// from a former home and must be refused. It fails with ErrNoEpoch if ctx belongs to no turn
// of a durable type.
func Epoch(ctx context.Context) (uint64, error) {
	t := turnOf(ctx)
	if t == nil || t.shard().durable == nil {
		return 0, ErrNoEpoch
	}
	if d := durableOf(t); d != nil {
		if d.tenure == nil {
			return 0, fmt.Errorf("%w: an interceptor asks, before its turn has begun", ErrNoEpoch)
		}
		return d.tenure.Epoch(), nil
	}
	a := t.shard().durable.entity(t.entity) // of a turn that only reads
	if a == nil {
		return 0, fmt.Errorf("%w: its shard was lost meanwhile", ErrNoEpoch)
	}
	return a.tenure.Epoch(), nil
}
