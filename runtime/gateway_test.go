package shard_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/membership"
)

// A process outside whose gateway is on its way out is told to look for another
// one, so that the types that it asks for meanwhile find a home.
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
	conn := c.dial("client") // nobody but a can serve it
	held := c.hold(testContext(t), fixture.NewAccountClient(conn))
	host("b")
	left := make(chan error, 1)
	go func() { left <- a.Shutdown(testContext(t)) }() // waits for the turn that is held
	require.Eventually(t, func() bool { return a.Cluster().Status == membership.Leaving }, testPatience, testTick)

	// Longer than a gateway takes to answer, and shorter than a silent one is trusted.
	cashier := fixture.NewCashierClient(conn).Ref("front", shard.Timeout(9*time.Second))
	err := cashier.Refuse(testContext(t), "none")
	require.NoError(t, err)
	close(c.probe.Release)
	require.NoError(t, receive(t, held, "Hold returns"))
	require.NoError(t, receive(t, left, "a leaves"))
}
