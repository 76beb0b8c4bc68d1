package shard_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestCallerOfHomeRemovedBeforeItJoined: a node that calls before it is a member knows homes from
// the table. If a home dies and is removed before the node joins, the membership never names that
// home to the node. The node's calls must find the new home all the same.
func TestCallerOfHomeRemovedBeforeItJoined(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	c.tune = func(cfg *shard.Config) { cfg.Membership.JoinByCommand = true }
	late := c.start("c")
	accounts := fixture.NewAccountClient(late)
	call := func(i int, patience time.Duration) error {
		ctx, cancel := context.WithTimeout(testContext(t), patience)
		defer cancel()
		_, err := accounts.Ref(fmt.Sprint("account-", i)).Add(ctx, 1)
		return err
	}
	const entities = 30
	for i := range entities {
		_, err := fixture.NewAccountClient(c.nodes["a"]).Ref(fmt.Sprint("account-", i)).Add(testContext(t), 1)
		require.NoError(t, err)
	}
	ended := make(chan error, entities)
	for i := range entities { // they wait for the lease of a member, on the way to their homes
		go func() { ended <- call(i, 2*time.Second) }()
	}
	for range entities {
		require.ErrorIs(t, <-ended, context.DeadlineExceeded)
	}
	require.NoError(t, c.nodes["b"].Close())
	require.Eventually(t, func() bool {
		return len(c.nodes["a"].Cluster().Members) == 1
	}, testPatience, testTick)
	require.NoError(t, late.Join(testContext(t)))
	for i := range entities {
		require.NoError(t, call(i, testPatience/4), "account-%d", i)
	}
}
