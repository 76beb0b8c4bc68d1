package shard_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	shard "github.com/shardgen/shardgen/runtime"
)

// TestEventsOfARestoredStore: if the store was restored to a state before a follower's position,
// the follower gets an error with the remedy, whether the read events are gone or replaced by
// others. It neither waits for ever nor skips events.
func TestEventsOfARestoredStore(t *testing.T) {
	t.Parallel()
	p := newProjection()
	_, c := startSavings(newWallets(t), "a")
	for range 5 {
		_, err := c.Ref("a").Enter(testContext(t), 1, "before")
		require.NoError(t, err)
	}
	p.follow(t, c, 5)
	_, c = startSavings(newWallets(t), "b") // another store
	read := func(from shard.Position, opts ...shard.EventsOption) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for e, err := range c.Events(ctx, from, opts...) {
			require.Error(t, err, "event %d", e.Number)
			return err
		}
		return nil
	}
	for _, tt := range []struct {
		more int
		want string
	}{
		{3, "the journal ends at event 3: the journal ends before the follower's position"},
		{5, "the journal ends at event 8: the journal now has another event with this number"},
	} {
		for range tt.more {
			_, err := c.Ref("a").Enter(testContext(t), 1, "after")
			require.NoError(t, err)
		}
		q := newProjection()
		q.follow(t, c, tt.more) // until all events are in the journal
		err := read(p.at, shard.FollowerName("billing"))
		require.ErrorIs(t, err, shard.ErrPosition)
		require.ErrorContains(t, err, "has read up to event 5")
		require.ErrorContains(t, err, tt.want)
		require.ErrorContains(t, err, "under another name")
		require.ErrorIs(t, read("", shard.FollowerName("billing")), shard.ErrPosition, "its position is in the store")
	}
	newProjection().follow(t, c, 8, shard.FollowerName("another"))
}
