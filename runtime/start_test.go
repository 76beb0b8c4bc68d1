package shard_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// lines is a channel of log lines.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default: // drop lines that no test reads
	}
	return len(p), nil
}

func (l lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// await reads lines until one holds text.
func (l lines) await(t *testing.T, text string) string {
	t.Helper()
	for {
		if line := receive(t, l, text); strings.Contains(line, text) {
			return line
		}
	}
}

// TestEndWhileConnecting: Close and Shutdown do not wait for a broker that does not answer.
func TestEndWhileConnecting(t *testing.T) {
	for name, end := range map[string]func(*shard.Node) error{
		"Shutdown": func(n *shard.Node) error { return n.Shutdown(context.Background()) },
		"Close":    (*shard.Node).Close,
	} {
		t.Run(name, func(t *testing.T) {
			c := emptyCluster(t)
			c.broker.Stop()
			n := c.add("a")
			started := make(chan error, 1)
			go func() { started <- n.Start(context.Background()) }()
			require.Eventually(t, n.Opening, testPatience, testTick)
			require.ErrorIs(t, n.Start(context.Background()), shard.ErrStarted)
			require.ErrorIs(t, fixture.HostAccount(n, newAccount), shard.ErrStarted)
			require.NoError(t, end(n))
			requireEnd(t, n)
			require.ErrorIs(t, receive(t, started, "Start returns"), shard.ErrClosed)
		})
	}
}

// TestWaitingIsTold: a node that joins, or a client that dials, logs what it waits for if it waits
// for long.
func TestWaitingIsTold(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	log := make(lines, 100)
	c.tune = func(cfg *shard.Config) { cfg.Logger, cfg.Membership.MinMembers = log.logger(), 2 }
	ctx, cancel := context.WithCancel(context.Background())
	dialed := make(chan error, 1)
	go func() {
		_, err := shard.Dial(ctx, c.config("client"))
		dialed <- err
	}()
	require.Contains(t, log.await(t, "still dialing"), "no member answered")
	cancel()
	require.ErrorIs(t, receive(t, dialed, "Dial returns"), context.Canceled)

	n := c.add("a")
	ctx, cancel = context.WithCancel(context.Background())
	started := make(chan error, 1)
	go func() { started <- n.Start(ctx) }()
	require.Contains(t, log.await(t, "still joining"), "1 members have joined, and Config.Membership.MinMembers is 2")
	cancel()
	require.ErrorIs(t, receive(t, started, "Start returns"), context.Canceled)
}

// TestDialRefused: if a member refuses a client, Dial fails at once.
func TestDialRefused(t *testing.T) {
	c := newCluster(t, "a")
	cfg := c.config("client")
	cfg.Lanes = 7
	_, err := shard.Dial(context.Background(), cfg)
	require.ErrorContains(t, err, "dial cluster test: a refuses this process: Config.Lanes is 4 in the cluster and 7 in this process")
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}

// TestForwardedOutlivesLeaving: a call that a node forwarded before it left is not lost, however
// long it runs at its new home.
func TestForwardedOutlivesLeaving(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.CallTimeout = testPatience }
	c.start("a")
	accounts := fixture.NewAccountClient(c.dial("client"))
	first := c.hold(context.Background(), accounts)
	c.start("b")
	left := make(chan error, 1)
	go func() { left <- c.nodes["a"].Shutdown(testContext(t)) }()
	draining := func(waiting int) func() bool {
		return func() bool {
			return slices.ContainsFunc(c.nodes["a"].LocalShards("Account"), func(s shard.ShardState) bool {
				return s.State == "draining" && s.Waiting == waiting
			})
		}
	}
	require.Eventually(t, draining(0), testPatience, testTick, "the busy shard is about to move")
	second := make(chan error, 1)
	go func() { second <- accounts.Ref("bob").Hold(context.Background()) }()
	require.Eventually(t, draining(1), testPatience, testTick, "what comes now waits for the move")
	c.probe.Release <- struct{}{}
	require.NoError(t, receive(t, first, "the first turn ends"))
	receive(t, c.probe.Entered, "the second turn begins at its new home")
	require.NoError(t, receive(t, left, "a has left"))
	select {
	case err := <-second:
		require.NoError(t, err)
		t.Fatal("the second turn ended although nobody released it")
	case <-time.After(4 * time.Second): // longer than a client waits after a node has left
	}
	c.probe.Release <- struct{}{}
	require.NoError(t, receive(t, second, "the second turn ends"))
}
