package shard_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	shard "github.com/shardgen/shardgen/runtime"
)

// TestMisspeltSeed: a node joins through other nodes although one of its seeds does not exist, and
// logs that seed once. It does not log a seed that is or was a member.
func TestMisspeltSeed(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	log := make(lines, 100)
	c.tune = func(cfg *shard.Config) {
		cfg.Seeds = []string{"a", "b"}
		cfg.Membership.SeedTimeout = 50 * time.Millisecond
		if cfg.Name == "b" {
			cfg.Seeds = []string{"a", "b", "mispelt", "b0rken"}
			cfg.Logger = log.logger()
		}
	}
	c.start("a")
	c.start("b")
	require.Contains(t, log.await(t, "no member has the name of a seed"), `seeds="mispelt b0rken" after=500ms`)
}

// TestGivingUpIsTold: a node that waits for more members leaves at once when its context ends. It
// tells the others, so they need not detect its end.
func TestGivingUpIsTold(t *testing.T) {
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.Membership.MinMembers = 3 }
	a, b := c.add("a"), c.add("b")
	ctxA, endA := context.WithCancel(context.Background())
	defer endA()
	ctxB, endB := context.WithCancel(context.Background())
	defer endB()
	ranA, ranB := make(chan error, 1), make(chan error, 1)
	go func() { ranA <- a.Run(ctxA) }()
	go func() { ranB <- b.Run(ctxB) }()
	members := func(n int) func() bool { return func() bool { return len(a.Cluster().Members) == n } }
	require.Eventually(t, members(2), testPatience, testTick)

	events := make(chan shard.ClusterEvent, 100)
	go func() {
		for e := range a.Events(t.Context()) {
			events <- e
		}
	}()
	e := receive(t, events, "the present state")
	require.Equal(t, shard.EventView, e.Kind)
	endB()
	begin := time.Now()
	require.NoError(t, receive(t, ranB, "Run returns"))
	require.Less(t, time.Since(begin), 10*time.Second, "it does not wait for LeaveTimeout")
	for e.Kind != shard.EventRemoved {
		e = receive(t, events, "b is removed")
	}
	if time.Since(begin) < time.Second { // on a machine that was stopped for longer, b may be detected as gone
		require.Contains(t, []shard.MemberStatus{shard.MemberLeaving, shard.MemberExiting}, e.Member.Status, "it was not found to be gone")
	}
	require.Len(t, a.Cluster().Members, 1)
	endA()
	begin = time.Now()
	require.NoError(t, receive(t, ranA, "Run returns"))
	require.Less(t, time.Since(begin), 10*time.Second, "also the founder")
}
