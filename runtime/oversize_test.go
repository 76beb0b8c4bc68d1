package shard_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

func wantTooLarge(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, shard.ErrTooLarge)
	require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
	require.Regexp(t, `\d{6} bytes, at most 65\d{3} `, err.Error(), "both sizes")
}

// TestLimitShrinksUnderPaths: the broker lowers its payload limit. Only a call that is now too
// large fails; later calls go on. Calls that fit again later are sent again.
func TestLimitShrinksUnderPaths(t *testing.T) {
	c := newCluster(t, "a")
	conn := c.dial("client")
	far := fixture.NewAccountClient(conn).Ref("bob")
	large := bytes.Repeat([]byte{'x'}, 200_000)
	_, err := far.Echo(testContext(t), large)
	require.NoError(t, err)
	c.broker.SetMaxPayload(64 << 10)
	for range 3 {
		_, err = far.Echo(testContext(t), large)
		wantTooLarge(t, err)
		_, err = far.Add(testContext(t), 1)
		require.NoError(t, err)
	}
	require.NoError(t, fixture.NewAccountClient(conn).Tell("bob").Note(testContext(t), "small"))
	got, err := far.Line(testContext(t), 0)
	require.NoError(t, err)
	require.Equal(t, "small", got)
	c.broker.SetMaxPayload(1 << 20)
	_, err = far.Echo(testContext(t), large)
	require.NoError(t, err)
}

// TestReconnectToSmallerServer: a lost connection comes back to a server with a smaller payload
// limit. Of the waiting messages, only a tell and a call are too large. Only these two are lost,
// and errors and counters say so.
func TestReconnectToSmallerServer(t *testing.T) {
	c := newCluster(t, "a")
	conn := c.dial("client")
	bob := fixture.NewAccountClient(conn)
	_, err := bob.Ref("bob").Add(testContext(t), 1)
	require.NoError(t, err)
	c.broker.Disconnect("client")
	const lines = 40
	line := func(i int) string { return fmt.Sprintf("%d %s", i, strings.Repeat("x", 5_000)) }
	for i := range lines {
		require.NoError(t, bob.Tell("bob").Note(context.Background(), line(i)))
		if i == lines/2 {
			require.NoError(t, bob.Tell("bob").Note(context.Background(), strings.Repeat("x", 200_000)))
		}
	}
	answered := make(chan error, 1)
	go func() {
		_, err := bob.Ref("bob").Echo(testContext(t), make([]byte, 200_000))
		answered <- err
	}()
	require.Eventually(t, func() bool { return conn.Appended("Account", "bob") >= lines+3 }, testPatience, testTick)
	c.broker.SetMaxPayload(64 << 10)
	c.broker.Reconnect("client")
	wantTooLarge(t, <-answered)
	for i := range lines {
		got, err := bob.Ref("bob").Line(testContext(t), i)
		require.NoError(t, err)
		require.Equal(t, line(i), got)
	}
	require.EqualValues(t, 1, conn.Counters()["tell lost"])
}
