package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/transport/memory"
)

// TestPauseOutlivesTheCoordinator: while rebalancing is paused no shard moves to a new member, also
// when the coordinator's member has left and its shards were given away. After the end of the pause
// shards move there.
func TestPauseOutlivesTheCoordinator(t *testing.T) {
	broker := memory.NewBroker(memory.Options{})
	start := func(name string) *shard.Node {
		n := shard.New(shard.Config{Cluster: "shop", Name: name, Transport: broker.Transport(), Logger: slog.New(slog.DiscardHandler)})
		t.Cleanup(func() { _ = n.Close() })
		require.NoError(t, fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} }))
		require.NoError(t, n.Start(t.Context()))
		return n
	}
	var nodes []*shard.Node
	for i := range 3 {
		nodes = append(nodes, start(fmt.Sprint("n", i)))
	}
	operate := func(name string) *admin.Client {
		c, err := admin.Dial(t.Context(), admin.Options{Cluster: "shop", Transport: broker.Transport(), Name: name})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ann := operate("ann")
	_, err := fixture.NewAccountClient(nodes[2]).Ref("ann", shard.Timeout(time.Minute)).Add(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, ann.PauseRebalancing(t.Context()))
	require.NoError(t, ann.PauseRebalancing(t.Context()), "again")

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, nodes[0].Shutdown(ctx), "a pause does not hold up a member that leaves")
	late := start("n3")
	require.Eventually(t, func() bool {
		v, err := ann.Members(t.Context())
		if err != nil || v.Coordinator.Name != "n1" || v.Pause.By != "ann" || !v.Converged || len(v.Members) != 3 {
			return false
		}
		_, err = ann.Rebalance(t.Context()) // the new coordinator refuses this
		return errors.Is(err, admin.ErrRefused) && strings.Contains(err.Error(), "paused by ann")
	}, time.Minute, 20*time.Millisecond)
	require.Empty(t, late.LocalShards("Account"), "shards moved")

	require.NoError(t, ann.ResumeRebalancing(t.Context()))
	require.Eventually(t, func() bool { return len(late.LocalShards("Account")) > 0 }, time.Minute, 20*time.Millisecond)
	v, err := ann.Members(t.Context())
	require.NoError(t, err)
	require.True(t, v.Pause.IsZero())
}
