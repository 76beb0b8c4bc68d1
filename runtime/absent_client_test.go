package shard_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport/memory"
)

// TestAbsentClientRunsNothingTwice: a node runs a client's call, but the client is cut off before
// it hears of that, for so long that the node drops its session. When the client is back, it sends
// the frame again. The call does not run again, and its outcome is unknown.
func TestAbsentClientRunsNothingTwice(t *testing.T) {
	t.Setenv(testDirect, "") // direct lanes would deliver what the broker loses
	c := emptyCluster(t)
	n := c.add("a")
	n.SetClientPatience(300 * time.Millisecond)
	require.NoError(t, n.Start(testContext(t)))
	near := fixture.NewAccountClient(n)
	settle(t, near, "bob")
	conn := c.dial("client")
	far := fixture.NewAccountClient(conn)
	require.Eventually(t, conn.KnowsTable, testPatience, testTick)
	lost := memory.Path{From: "a", To: "client"}
	require.NoError(t, far.Tell("bob").Add(context.Background(), 0)) // it learns the session's number
	require.Eventually(t, func() bool { return conn.Begun("Account", "bob") }, testPatience, testTick)
	c.broker.Cut(lost)
	require.NoError(t, far.Tell("bob").Add(context.Background(), 1))
	answered := make(chan error, 1)
	go func() {
		_, err := far.Ref("bob").Add(testContext(t), 2)
		answered <- err
	}()
	require.Eventually(t, func() bool {
		got, err := near.Ref("bob").Get(testContext(t))
		return err == nil && got == 3
	}, testPatience, testTick)
	c.broker.Disconnect("client")
	c.broker.Mend(lost)
	require.Eventually(t, func() bool { return !n.KnowsPeer(conn.Peer().Address) }, testPatience, testTick,
		"the home drops what it knows of the client")
	c.broker.Reconnect("client")
	err := <-answered
	require.ErrorIs(t, err, shard.ErrLost)
	require.Equal(t, shard.Unknown, shard.OutcomeOf(err))
	require.ErrorContains(t, err, "away for too long")
	got, err := far.Ref("bob").Add(testContext(t), 10) // behind the frame that is sent again
	require.NoError(t, err)
	require.EqualValues(t, 13, got)
	require.EqualValues(t, 1, conn.Counters()["tell lost"], "of unknown outcome")
}

// TestAbsentClientThatHeardNothing: as in TestAbsentClientRunsNothingTwice, the call does not run
// again, although the client was cut off before it had heard anything of the home.
func TestAbsentClientThatHeardNothing(t *testing.T) {
	c := emptyCluster(t)
	n := c.add("a")
	n.SetClientPatience(300 * time.Millisecond)
	require.NoError(t, n.Start(testContext(t)))
	near := fixture.NewAccountClient(n)
	settle(t, near, "bob")
	conn := c.dial("client")
	far := fixture.NewAccountClient(conn)
	require.Eventually(t, conn.KnowsTable, testPatience, testTick)
	lost := memory.Path{From: "a", To: "client"}
	c.broker.Cut(lost)
	require.NoError(t, far.Tell("bob").Add(context.Background(), 1))
	require.Eventually(t, func() bool { return n.KnowsPeer(conn.Peer().Address) }, testPatience, testTick)
	c.broker.Disconnect("client")
	c.broker.Mend(lost)
	c.broker.Reconnect("client")
	got, err := far.Ref("bob").Add(testContext(t), 10)
	require.NoError(t, err)
	require.EqualValues(t, 11, got, "nothing is lost that was not sent")
}
