package shard_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/durable"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/store"
)

// damage stores an unreadable record for a wallet that has not been called. No node runs meanwhile.
func (v *wallets) damage(id string) {
	v.t.Helper()
	s, written := v.store.Client().Shards(), 0
	for n := 64; n < 128; n++ { // it is in one of them
		at := store.Shard{Type: "Wallet", Number: n}
		head, err := s.Head(testContext(v.t), at)
		require.NoError(v.t, err)
		if head.Revision != store.None {
			_, err := s.Put(testContext(v.t), at, head.Revision, []store.Change{{ID: durable.EntityKey(id), Value: []byte("garbage")}})
			require.NoError(v.t, err)
			written++
		}
	}
	require.Equal(v.t, 64, written)
}

// TestDeadLetter: a tell that its receiver cannot run is given up after a time. It is counted, and
// logged as an error with its entity and method. It does not delay later tells.
func TestDeadLetter(t *testing.T) {
	t.Parallel()
	book := newLogBook()
	v := newWallets(t)
	v.tune = func(cfg *shard.Config) { cfg.Logger = slog.New(book) }
	v.made = func(n *shard.Node) { n.GiveTellsUp(200 * time.Millisecond) }
	n := v.start("a")
	for i := range 1000 { // until each shard has been opened
		_, err := ref(n, fmt.Sprint(i)).Add(testContext(t), 1)
		require.NoError(t, err)
	}
	require.NoError(t, n.Shutdown(testContext(t)))
	v.damage("broken")

	n = v.start("b")
	last, err := ref(n, "sender").Dictate(testContext(t), "broken", 1, 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, last)
	require.Eventually(t, func() bool { return n.Counters()["tell given up"] == 1 }, testPatience, testTick)
	_, err = ref(n, "sender").Dictate(testContext(t), "whole", 1, 2)
	require.NoError(t, err)
	v.noted(n, "whole", []int64{1, 2})
	require.EqualValues(t, 1, n.Counters()["tell given up"])

	var letters []logLine
	for _, l := range book.take() {
		if l.level == slog.LevelError && l.text == "dead letter: a tell of a durable entity was given up, because its receiver has not run it in time" {
			letters = append(letters, l)
		}
	}
	require.Len(t, letters, 1)
	for _, want := range []slog.Attr{slog.String("kind", "Wallet"), slog.String("entity", "broken"), slog.String("method", "Note")} {
		require.True(t, slices.ContainsFunc(letters[0].attrs, want.Equal), "%v in %v", want, letters[0].attrs)
	}
	require.False(t, slices.ContainsFunc(letters[0].attrs, func(a slog.Attr) bool { return a.Key == "err" }), "an error of nil: %v", letters[0].attrs)
}
