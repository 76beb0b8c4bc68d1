package shardtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/guest"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/shardtest"
)

// TestPassivateWithoutState: an operator also passivates entities of types without state.
func TestPassivateWithoutState(t *testing.T) {
	host := shardtest.Host(func(n *shard.Node) error {
		return guest.HostGuest(n, func() *guest.Guest { return &guest.Guest{} })
	})
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ctx := t.Context()
		o, err := admin.Dial(ctx, admin.Options{Cluster: "shardtest", Transport: c.Broker().Transport(), Name: "operator"})
		require.NoError(t, err)
		defer func() { require.NoError(t, o.Close()) }()
		_, err = guest.NewGuestClient(c.Client()).Ref("a").Who(ctx)
		require.NoError(t, err)
		_, err = o.Passivate(ctx, "Guest", "a")
		require.NoError(t, err)
		_, err = o.Passivate(ctx, "Guest", "a")
		require.ErrorContains(t, err, "is not active")
	}, host, shardtest.Nodes(1))
}
