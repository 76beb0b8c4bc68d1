package shard_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// sameShard are n account ids of the shard that id is in.
func sameShard(id string, n int) (ids []string) {
	shardOf := func(id string) uint64 { return xxhash.Sum64String(id) >> 56 } // of 256 shards
	for i := 0; len(ids) < n; i++ {
		if other := fmt.Sprint("z", i); shardOf(other) == shardOf(id) {
			ids = append(ids, other)
		}
	}
	return ids
}

// TestMoveGivenUpStopsNoEntityThatHasATurn gives a move up while a stop hook hangs: the
// other entities of the shard can be called at once, and none is stopped while it has a
// turn.
func TestMoveGivenUpStopsNoEntityThatHasATurn(t *testing.T) {
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.HandoffTimeout = time.Second }
	c.opts = []shard.HostOption{shard.StopTimeout(time.Minute)}
	a := c.start("a")
	accounts := fixture.NewAccountClient(c.dial("client"))
	ctx := testContext(t)
	const slow = "hangs when it stops"
	others := sameShard(slow, 2)
	passive, active := others[0], others[1]
	for _, id := range []string{slow, passive, active} {
		_, err := accounts.Ref(id).Add(ctx, 5)
		require.NoError(t, err)
	}
	require.NoError(t, accounts.Ref(passive).Rest(ctx))
	c.hooks(passive, "fresh", "idle")

	c.start("b")
	down := make(chan error, 1)
	go func() { down <- a.Shutdown(context.Background()) }()
	require.Eventually(t, func() bool { return len(c.gate.Hooks(slow)) == 2 }, testPatience, testTick, "the hook hangs")
	decoding, goOn := make(chan struct{}, 16), make(chan struct{})
	wait := func() { decoding <- struct{}{}; <-goOn }
	fixture.SlowLetter.Store(&wait)
	defer fixture.SlowLetter.Store(nil)
	read := make(chan error, 2)
	for _, id := range others {
		go func() { read <- accounts.Ref(id).Read(ctx, "slow letter") }()
		receive(t, decoding, id+" has a turn while the hook hangs")
	}
	c.gate.Release <- struct{}{}
	_, err := accounts.Ref(slow).Get(ctx) // begins when the hooks of the move have ended
	require.NoError(t, err)
	require.Equal(t, []string{"fresh", "idle", "resumed"}, c.gate.Hooks(passive))
	require.Equal(t, []string{"fresh"}, c.gate.Hooks(active))
	close(goOn)
	for range others {
		require.NoError(t, receive(t, read, "Read is acknowledged"))
	}
	close(c.gate.Release)
	require.NoError(t, receive(t, down, "shut down"))
	for _, id := range others {
		lines, err := accounts.Ref(id).Lines(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"slow letter"}, lines, id)
	}
}
