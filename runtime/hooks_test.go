package shard_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport/memory"
)

// hooks waits until exactly these hooks have run for the account.
func (c *cluster) hooks(id string, want ...string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return len(c.probe.Hooks(id)) >= len(want) }, testPatience, testTick, "hooks %v", want)
	require.Equal(c.t, want, c.probe.Hooks(id))
}

func TestPassivationKeepsState(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.opts = []shard.HostOption{shard.IdleAfter(time.Second)}
	accounts := fixture.NewAccountClient(c.start("a"))
	_, err := accounts.Ref("bob").Add(testContext(t), 5)
	require.NoError(t, err)
	require.NoError(t, accounts.Ref("bob").Note(testContext(t), "line"))
	held := make(chan error, 1)
	go func() { held <- accounts.Ref("busy").Hold(context.Background()) }()
	receive(t, c.probe.Entered, "Hold begins")
	c.hooks("bob", "fresh", "idle")
	got, err := accounts.Ref("bob").Add(testContext(t), 1)
	require.NoError(t, err)
	require.EqualValues(t, 6, got)
	lines, err := accounts.Ref("bob").Lines(testContext(t))
	require.NoError(t, err)
	require.Equal(t, []string{"line"}, lines)
	c.hooks("bob", "fresh", "idle", "reactivated", "idle")
	c.hooks("busy", "fresh") // an entity with a turn is not idle
	close(c.probe.Release)
	require.NoError(t, receive(t, held, "Hold returns"))
}

func TestActivationRefused(t *testing.T) {
	t.Parallel()
	eachWay(t, nil, func(t *testing.T, c *cluster, accounts *fixture.AccountClient) {
		for range 2 {
			_, err := accounts.Ref("refuses").Add(testContext(t), 1)
			requireCall(t, err, shard.ErrActivation, shard.NotExecuted)
			require.ErrorContains(t, err, "activation failed: the account refuses the activation: fresh")
		}
		c.hooks("refuses", "fresh", "fresh")
	})
}

// TestMovedActivation moves passivated and active accounts to another node.
func TestMovedActivation(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.opts = []shard.HostOption{shard.IdleAfter(time.Second)}
	c.start("a")
	conn := c.dial("client")
	accounts := fixture.NewAccountClient(conn)
	add := func(id string, want int64) {
		t.Helper()
		got, err := accounts.Ref(id).Add(testContext(t), 1)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	add("rests", 1)
	c.hooks("rests", "fresh", "idle")
	add("active", 1)
	c.opts = nil // no entity is passivated at the new home
	c.start("b")
	require.NoError(t, c.nodes["a"].Shutdown(testContext(t)))
	add("rests", 2)
	c.hooks("rests", "fresh", "idle", "moved")
	add("active", 2)
	require.Contains(t, [][]string{{"fresh", "moving", "moved"}, {"fresh", "idle", "moved"}}, c.probe.Hooks("active"))
}

// TestLargeStateMoves moves more state than fits into one message of the broker, of one account and
// of many small ones.
func TestLargeStateMoves(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.broker = memory.NewBroker(memory.Options{MaxPayload: 32 << 10})
	c.start("a")
	conn := c.dial("client")
	accounts := fixture.NewAccountClient(conn)
	line := func(id string, i int) string { return fmt.Sprintf("%s %020000d", id, i) }
	const lines, small = 25, 300
	for i := range lines {
		require.NoError(t, accounts.Ref("large").Note(testContext(t), line("large", i)))
	}
	for i := range small {
		id := fmt.Sprint("small-", i)
		require.NoError(t, accounts.Ref(id).Note(testContext(t), line(id, 0)))
	}
	c.start("b")
	require.NoError(t, c.nodes["a"].Shutdown(testContext(t)))
	for i := range lines {
		got, err := accounts.Ref("large").Line(testContext(t), i)
		require.NoError(t, err)
		require.Equal(t, line("large", i), got)
	}
	for i := range small {
		id := fmt.Sprint("small-", i)
		got, err := accounts.Ref(id).Line(testContext(t), 0)
		require.NoError(t, err)
		require.Equal(t, line(id, 0), got)
	}
	c.hooks("large", "fresh", "moving", "moved")
}

func TestShutdownRunsStopHooks(t *testing.T) {
	c := newCluster(t, "a")
	accounts := fixture.NewAccountClient(c.nodes["a"])
	const entities = 50
	for i := range entities {
		_, err := accounts.Ref(fmt.Sprint("e", i)).Add(testContext(t), 1)
		require.NoError(t, err)
	}
	require.NoError(t, c.nodes["a"].Shutdown(testContext(t)))
	for i := range entities {
		require.Equal(t, []string{"fresh", "stopping"}, c.probe.Hooks(fmt.Sprint("e", i)))
	}
}

// TestShutdownWaitsForTurns: Shutdown lets a running turn end, and runs the stop hook after it.
func TestShutdownWaitsForTurns(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	accounts := fixture.NewAccountClient(c.nodes["a"])
	settle(t, accounts, "bob") // later calls run on the caller's goroutine
	held := c.hold(testContext(t), accounts)
	down := make(chan error, 1)
	go func() { down <- c.nodes["a"].Shutdown(testContext(t)) }()
	select {
	case err := <-down:
		t.Fatalf("shut down while a turn ran: %v", err)
	case <-time.After(2 * soon):
	}
	require.Equal(t, []string{"fresh"}, c.probe.Hooks("bob"))
	close(c.probe.Release)
	require.NoError(t, receive(t, held, "Hold returns"))
	require.NoError(t, receive(t, down, "Shutdown returns"))
	require.Equal(t, []string{"fresh", "stopping"}, c.probe.Hooks("bob"))
}
