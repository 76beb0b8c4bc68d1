package shardtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/shop"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/shardtest"
)

// TestPassivateWithoutState: an operator can passivate entities of types without state, too.
func TestPassivateWithoutState(t *testing.T) {
	host := shardtest.Host(func(n *shard.Node) error {
		return shop.HostBuyer(n, func() *shop.Buyer { return &shop.Buyer{} })
	})
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ctx := t.Context()
		o, err := admin.Dial(ctx, admin.Options{Cluster: "shardtest", Transport: c.Broker().Transport(), Name: "operator"})
		require.NoError(t, err)
		defer func() { require.NoError(t, o.Close()) }()
		_, err = shop.NewBuyerClient(c.Client()).Ref("a").Who(ctx)
		require.NoError(t, err)
		_, err = o.Passivate(ctx, "Buyer", "a")
		require.NoError(t, err)
		_, err = o.Passivate(ctx, "Buyer", "a")
		require.ErrorContains(t, err, "is not active")
	}, host, shardtest.Nodes(1))
}
