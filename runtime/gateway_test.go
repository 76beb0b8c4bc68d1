package shard_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/membership"
)

// TestGatewayLeaves: a leaving member tells the client that it serves to find another member. So
// types that the client asks for meanwhile get a home.
func TestGatewayLeaves(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	host := func(name string) *shard.Node {
		n := c.add(name)
		require.NoError(t, fixture.HostCashier(n, func() *fixture.Cashier { return &fixture.Cashier{} }))
		require.NoError(t, n.Start(testContext(t)))
		return n
	}
	a := host("a")
	conn := c.dial("client") // only a can serve the client
	held := c.hold(testContext(t), fixture.NewAccountClient(conn))
	host("b")
	left := make(chan error, 1)
	go func() { left <- a.Shutdown(testContext(t)) }() // waits for the held turn
	require.Eventually(t, func() bool { return a.Cluster().Status == membership.Leaving }, testPatience, testTick)

	// The timeout is longer than a member takes to answer, and shorter than a client waits for a
	// silent member.
	cashier := fixture.NewCashierClient(conn).Ref("front", shard.Timeout(9*time.Second))
	err := cashier.Refuse(testContext(t), "none")
	require.NoError(t, err)
	close(c.probe.Release)
	require.NoError(t, receive(t, held, "Hold returns"))
	require.NoError(t, receive(t, left, "a leaves"))
}
