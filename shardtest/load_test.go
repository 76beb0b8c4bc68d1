package shardtest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

// TestLoadWeighted: busy shards of a node move to other nodes, and each move has a reason.
// Operators see until when a shard does not move, and which node has the most load.
func TestLoadWeighted(t *testing.T) {
	const busy, turn = 6, 100 * time.Millisecond
	host := shardtest.Host(func(n *shard.Node) error {
		return fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} }, shard.Allocation(shard.LoadWeighted{}),
			shard.Intercept(func(ctx context.Context, _ shard.Info, next func(context.Context) error) error {
				time.Sleep(turn)
				return next(ctx)
			}))
	})
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		client := fixture.NewAccountClient(c.Client())
		_, err := client.Ref("first").Add(t.Context(), 1)
		require.NoError(t, err)
		var ids []string
		for i := 0; len(ids) < busy; i++ {
			if id := fmt.Sprint("busy", i); c.Home("Account", id) == "n1" {
				ids = append(ids, id)
			}
		}
		used := func(node string) float64 { return c.Node(node).Load().Process.Used }
		round := func() { // a second
			for _, id := range ids {
				go func() { _, _ = client.Ref(id).Add(context.Background(), 1) }()
			}
			c.Advance(time.Second)
		}
		for range 60 {
			round()
		}
		require.InDelta(t, 0.6, used("n1"), 0.06)
		require.Zero(t, used("n2"))
		require.Equal(t, "Account", c.Node("n1").Load().Process.Hottest[0].Kind)
		at, err := c.Node("n2").Locate(t.Context(), "Account", ids[0])
		require.NoError(t, err)
		require.Contains(t, at.Why, "by load it does not move before")
		require.Contains(t, at.Why, "n1 is at 3.00 of mean, but none of its shards may move now")

		for range 600 {
			round()
		}
		moved := 0
		for _, id := range ids {
			at, err := c.Node("n2").Locate(t.Context(), "Account", id)
			require.NoError(t, err)
			if at.Node != "n1" {
				require.Contains(t, at.Why, "it moved there from n1, by load: n1 at ")
				require.Contains(t, at.Why, "of 25 left")
				moved++
			}
		}
		require.Equal(t, 4, moved, "each node should have two of the busy shards")
		for _, node := range []string{"n1", "n2", "n3"} {
			require.InDelta(t, 0.2, used(node), 0.05, node)
		}
		at, err = c.Node("n2").Locate(t.Context(), "Account", ids[0])
		require.NoError(t, err)
		require.True(t, strings.Contains(at.Why, "the highest, is at 1.0") && strings.Contains(at.Why, "it uses 0.09"), at.Why)
	}, host, shardtest.Config(func(cfg *shard.Config) { cfg.Capacity = 1 }))
}
