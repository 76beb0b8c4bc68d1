package durable

import (
	"errors"
	"fmt"
	"testing"

	"github.com/shardgen/shardgen/store"
)

// TestOutcomeOf: only a request that certainly changed nothing counts as not applied.
func TestOutcomeOf(t *testing.T) {
	for _, c := range []struct {
		op   Op
		err  error
		want Outcome
	}{
		{OpAppend, nil, OK},
		{OpAppend, store.ErrConflict, Conflict},
		{OpAppend, store.ErrUncertain, Uncertain},
		{OpAppend, store.ErrUnavailable, NotApplied},
		{OpAppend, store.ErrBusy, NotApplied},
		{OpAppend, &store.TooLargeError{Size: 2, Limit: 1}, TooLarge},
		{OpAppend, errors.New("other"), Uncertain},
		{OpPut, store.ErrUnavailable, Uncertain}, // a part may have been applied
		{OpPut, store.ErrBusy, NotApplied},
		{OpRead, store.ErrGone, Gone},
		{OpRead, store.ErrUncertain, NotApplied},
		{OpGet, errors.New("other"), NotApplied},
		{OpHead, store.ErrUnavailable, NotApplied},
	} {
		err := c.err
		if err != nil {
			err = &store.Error{Op: "op", Key: "key", Err: fmt.Errorf("wrapped: %w", err)}
		}
		if got := OutcomeOf(c.op, err); got != c.want {
			t.Errorf("op %d, %v: got %d, want %d", c.op, err, got, c.want)
		}
	}
}
