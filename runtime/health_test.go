package shard_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	memorystore "github.com/shardgen/shardgen/store/memory"
	"github.com/shardgen/shardgen/transport/memory"
)

// becomes waits until the health is as wanted, with a reason that contains the text. An empty text
// means no reason at all.
func becomes(t *testing.T, check func() shard.Health, live, ready bool, reason string) {
	t.Helper()
	var h shard.Health
	require.Eventually(t, func() bool {
		h = check()
		said := reason == "" && len(h.Reasons) == 0
		for _, why := range h.Reasons {
			said = said || reason != "" && strings.Contains(why, reason)
		}
		return h.Live == live && h.Ready == ready && said
	}, testPatience, testTick, "want live %v, ready %v, reason %q", live, ready, reason)
}

// TestHealthOfALife: a node is ready while it is up. Once told to leave it is not ready, but serves
// calls for LeaveDelay.
func TestHealthOfALife(t *testing.T) {
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.Membership.LeaveDelay = time.Hour }
	n := c.add("a")
	becomes(t, n.Health, true, false, "the node is not started")
	require.NoError(t, n.Start(testContext(t)))
	becomes(t, n.Health, true, true, "")

	accounts := fixture.NewAccountClient(n)
	ctx, cancel := context.WithCancel(context.Background())
	down := make(chan error, 1)
	go func() { down <- n.Shutdown(ctx) }()
	becomes(t, n.Health, true, false, "the node drains: it still serves, and leaves the cluster in ")
	require.True(t, n.Health().Ending)
	for range 100 {
		_, err := accounts.Ref("bob").Add(testContext(t), 1)
		require.NoError(t, err, "the node serves during LeaveDelay")
	}
	require.Equal(t, shard.MemberUp, n.Cluster().Status, "it has not begun to leave")
	cancel()
	require.ErrorIs(t, receive(t, down, "Shutdown returns when its context ends"), context.Canceled)
	<-n.Done()
	becomes(t, n.Health, false, false, "the node has stopped: shut down node a: context canceled")
}

// TestLeaveDelayEnds: a node leaves in order after LeaveDelay, which begins with the first call of
// Shutdown.
func TestLeaveDelayEnds(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.Membership.LeaveDelay = 50 * time.Millisecond }
	n := c.start("a")
	began := time.Now()
	down := make(chan error, 2)
	for range 2 {
		go func() { down <- n.Shutdown(testContext(t)) }()
	}
	require.NoError(t, receive(t, down, "Shutdown returns"))
	require.NoError(t, receive(t, down, "Shutdown returns"))
	require.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond)
	h := n.Health()
	require.Equal(t, shard.Health{Ending: true, Reasons: []string{"the node has stopped"}}, h)
}

func TestLeaveDelayIsChecked(t *testing.T) {
	cfg := emptyCluster(t).config("a")
	cfg.Membership.LeaveDelay = -1
	require.ErrorContains(t, shard.New(cfg).Start(testContext(t)), "LeaveDelay is -1ns: want 0 or more")
}

// TestHealthWithoutBroker: a node and a connection that cannot reach the broker are live
// and not ready, and recover.
func TestHealthWithoutBroker(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	conn := c.dial("web")
	becomes(t, c.nodes["a"].Health, true, true, "")
	becomes(t, conn.Health, true, true, "")
	c.broker.Stop()
	becomes(t, c.nodes["a"].Health, true, false, "the broker has not been reached for ")
	becomes(t, conn.Health, true, false, "the broker has not been reached for ")
	becomes(t, conn.Health, true, false, "no member has answered this process for ")
	c.broker.Start()
	becomes(t, c.nodes["a"].Health, true, true, "")
	becomes(t, conn.Health, true, true, "")
	require.NoError(t, conn.Close())
	require.Equal(t, shard.Health{Ending: true, Reasons: []string{"the connection is closed"}}, conn.Health())
}

// TestHealthBeforeUp: the health says why a node is not a member yet.
func TestHealthBeforeUp(t *testing.T) {
	t.Run("MinMembers", func(t *testing.T) {
		c := emptyCluster(t)
		c.tune = func(cfg *shard.Config) { cfg.Membership.MinMembers, cfg.Membership.LeaveDelay = 2, time.Hour }
		n := c.add("a")
		ctx, cancel := context.WithCancel(testContext(t))
		started := make(chan error, 1)
		go func() { started <- n.Start(ctx) }()
		becomes(t, n.Health, true, false, "the node is not up: 1 members have joined, and Config.Membership.MinMembers is 2")
		cancel()
		require.Error(t, receive(t, started, "Start gives up"))
	})
	t.Run("JoinByCommand", func(t *testing.T) {
		c := emptyCluster(t)
		c.tune = func(cfg *shard.Config) { cfg.Membership.JoinByCommand, cfg.Membership.LeaveDelay = true, time.Hour }
		n := c.start("a")
		becomes(t, n.Health, true, false, "it joins by command (shardctl join a)")
		require.NoError(t, n.Shutdown(testContext(t)), "a node that never was up does not wait for LeaveDelay")
	})
	t.Run("no broker", func(t *testing.T) {
		c := emptyCluster(t)
		c.broker.Stop()
		n := c.add("a")
		ctx, cancel := context.WithCancel(testContext(t))
		started := make(chan error, 1)
		go func() { started <- n.Start(ctx) }()
		becomes(t, n.Health, true, false, "the node connects")
		cancel()
		require.Error(t, receive(t, started, "Start gives up"))
	})
}

// TestHealthOfTheOthers: a member that no other member hears is not ready. The others are ready,
// and their health names it.
func TestHealthOfTheOthers(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) {
		cfg.Membership.PauseAllowance = 500 * time.Millisecond
		cfg.Membership.AgreedAfter, cfg.Membership.SilentAfter = time.Hour, time.Hour // nobody is downed
	}
	for _, name := range []string{"a", "b", "c"} {
		becomes(t, c.start(name).Health, true, true, "")
	}
	c.broker.Cut(memory.Path{From: memory.Any, To: "c"})
	becomes(t, c.nodes["a"].Health, true, true, " is not reachable: ")
	becomes(t, c.nodes["c"].Health, true, false, "node c has lost contact with the cluster and runs nothing")
	c.broker.Mend(memory.Path{From: memory.Any, To: "c"})
	for _, n := range c.nodes {
		becomes(t, n.Health, true, true, "")
	}
}

// TestHealthOfCallsThatWait: while calls wait for a type that no member hosts, the caller's health
// says so.
func TestHealthOfCallsThatWait(t *testing.T) {
	c := emptyCluster(t)
	n := shard.New(c.config("a"))
	c.nodes["a"] = n
	require.NoError(t, n.Start(testContext(t)))
	becomes(t, n.Health, true, true, "")
	require.NoError(t, fixture.NewAccountClient(n).Tell("bob").Add(testContext(t), 1))
	becomes(t, n.Health, true, true, "Account: no member hosts it, so calls of it wait: 1")
}

// TestHealthWithoutStore: a node that hosts durable types is not ready while the store takes no
// writes. A node without durable types is ready, and its health names the fault.
func TestHealthWithoutStore(t *testing.T) {
	t.Parallel()
	v := newWallets(t, "a")
	a := v.nodes["a"]
	cfg := v.config("b")
	client := v.store.Client()
	cfg.Store = client
	b := shard.New(cfg)
	v.nodes["b"] = b
	require.NoError(t, b.Start(testContext(t)))
	becomes(t, a.Health, true, true, "")
	becomes(t, b.Health, true, true, "")
	for _, s := range []*memorystore.Client{v.own["a"], client} {
		s.Cut(true)
	}
	becomes(t, a.Health, true, false, "the store has taken no write for ")
	becomes(t, b.Health, true, true, "the store has taken no write for ")
	for _, s := range []*memorystore.Client{v.own["a"], client} {
		s.Cut(false)
	}
	becomes(t, a.Health, true, true, "")
	becomes(t, b.Health, true, true, "")
}

// TestHealthOfALostMember: the health of the others names a member that did not leave in order,
// until it is back. They log it once.
func TestHealthOfALostMember(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	var mu sync.Mutex
	var lines bytes.Buffer
	c.tune = func(cfg *shard.Config) {
		if cfg.Name == "a" {
			cfg.Logger = slog.New(slog.NewTextHandler(lockedWriter{&mu, &lines}, nil))
		}
	}
	logged := func(text string) int {
		mu.Lock()
		defer mu.Unlock()
		return strings.Count(lines.String(), text)
	}
	for _, name := range []string{"a", "b", "c"} {
		becomes(t, c.start(name).Health, true, true, "")
	}
	require.NoError(t, c.nodes["b"].Shutdown(testContext(t)))
	becomes(t, c.nodes["a"].Health, true, true, "")
	require.Zero(t, logged("b is missing"), "it has left in order")
	require.NoError(t, c.nodes["c"].Close())
	becomes(t, c.nodes["a"].Health, true, true, "c is missing: it was lost at ")
	require.Equal(t, 1, logged(`msg="fault found" node=a check=cluster fault="c is missing`))
	becomes(t, c.start("c").Health, true, true, "")
	becomes(t, c.nodes["a"].Health, true, true, "")
	require.Equal(t, 1, logged(`msg="fault has ended" node=a check=cluster fault="c is missing`))
}

type lockedWriter struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (w lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(b)
}

// TestHealthOfAHungTurn: a turn that hangs is a fault while calls wait behind it, with its caller and
// their number.
func TestHealthOfAHungTurn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	conn := c.dial("web")
	accounts := fixture.NewAccountClient(conn)
	held := c.hold(testContext(t), accounts)
	noted := make(chan error, 2)
	for i := range 2 {
		go func() { noted <- accounts.Ref("bob").Note(context.Background(), fmt.Sprint(i)) }()
	}
	becomes(t, c.nodes["a"].Health, true, true, "Account/bob: a turn of Hold, called by client web, has run for at least 5")
	becomes(t, c.nodes["a"].Health, true, true, "and calls wait behind it: 2 (shardctl dump a shows where it hangs)")
	close(c.probe.Release)
	require.NoError(t, receive(t, held, "Hold returns"))
	becomes(t, c.nodes["a"].Health, true, true, "")
	for range 2 {
		require.NoError(t, receive(t, noted, "a note returns"))
	}
}
