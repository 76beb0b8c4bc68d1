package shard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	shard "github.com/shardgen/shardgen/runtime"
)

// TestStopHosting moves all shards of a type away from a node, under load. The node stays a member
// and can call the type.
func TestStopHosting(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	a, conn := c.nodes["a"], c.dial("client")
	l := startLoad(t, conn, a)
	l.waitFor(500)
	require.NoError(t, a.StopHosting(testContext(t), accountKind))
	require.Empty(t, activeShards(a.LocalShards(accountKind)))
	l.waitFor(500)
	c.start("c") // no shard comes back to the node
	l.waitFor(500)
	require.NoError(t, c.nodes["b"].Shutdown(testContext(t)))
	l.waitFor(500)
	require.Empty(t, activeShards(a.LocalShards(accountKind)))
	require.NoError(t, a.StopHosting(testContext(t), accountKind), "again")
	l.end(conn)
}

func activeShards(all []shard.ShardState) (active []shard.ShardState) {
	for _, s := range all {
		if s.State == "active" {
			active = append(active, s)
		}
	}
	return active
}

func TestStopHostingRefused(t *testing.T) {
	c := newCluster(t, "a")
	require.ErrorContains(t, c.nodes["a"].StopHosting(testContext(t), accountKind), "no other Up member hosts the type")
	require.ErrorContains(t, c.nodes["a"].StopHosting(testContext(t), "Nothing"), "hosts no such entity type")
	n := shard.New(c.config("z"))
	require.ErrorContains(t, n.StopHosting(testContext(t), accountKind), "has not joined")
	require.NoError(t, n.Close())
}
