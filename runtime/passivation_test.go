package shard_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestHangingHooksHoldUpOnlyTheirOwn: stop hooks that never return keep no other entity from being
// passivated, however many such hooks there are.
func TestHangingHooksHoldUpOnlyTheirOwn(t *testing.T) {
	t.Parallel()
	for _, hanging := range []int{1, 100} { // less and more than the number of hooks that run at once
		t.Run(fmt.Sprint(hanging), func(t *testing.T) {
			t.Parallel()
			c := emptyCluster(t)
			c.opts = []shard.HostOption{shard.IdleAfter(time.Second), shard.StopTimeout(10 * time.Minute)}
			accounts := fixture.NewAccountClient(c.start("a"))
			t.Cleanup(func() { close(c.probe.Release) })
			for i := range hanging {
				add(t, accounts, fmt.Sprint("hangs when it stops ", i), 1)
			}
			require.Eventually(t, func() bool { return c.probe.Passivated.Load() == int64(hanging) }, testPatience, testTick)
			for i := range 10 {
				add(t, accounts, fmt.Sprint("bob", i), 1)
			}
			for i := range 10 {
				c.hooks(fmt.Sprint("bob", i), "fresh", "idle")
				add(t, accounts, fmt.Sprint("bob", i), 2)
			}
		})
	}
}

// TestIdleHooksThatDoNotEnd: a stop hook of an idle entity that never returns, ends its
// goroutine or panics costs no entity its state, and keeps none from being passivated.
func TestIdleHooksThatDoNotEnd(t *testing.T) {
	t.Parallel()
	const all = 200
	c := emptyCluster(t)
	c.opts = []shard.HostOption{shard.IdleAfter(time.Hour), shard.StopTimeout(50 * time.Millisecond)}
	n := c.start("a")
	accounts := fixture.NewAccountClient(n)
	t.Cleanup(func() { close(c.probe.Release) })
	ids := []string{"exits when it stops", "panics when it stops"}
	for i := range all {
		ids = append(ids, fmt.Sprint("hangs when it stops ", i), fmt.Sprint("bob", i))
	}
	for _, id := range ids {
		add(t, accounts, id, 1)
	}
	n.PassivateIdle(accountKind)
	require.Eventually(t, func() bool {
		return n.Counters()["hook abandoned"] == all && n.Counters()["entity passivated"] == 2*all
	}, testPatience, testTick)
	for _, id := range ids {
		add(t, accounts, id, 2)
	}
	for i := range all {
		c.hooks(fmt.Sprint("bob", i), "fresh", "idle", "reactivated")
		c.hooks(fmt.Sprint("hangs when it stops ", i), "fresh", "idle", "reactivated")
	}
	c.hooks(ids[0], "fresh", "idle")
	c.hooks(ids[1], "fresh", "idle")
}

// TestQuickHooksAreCheap: an idle entity whose stop hook is quick costs no goroutine, timer or
// channel, so that very many can be passivated while calls go on. Two of the allocations are for
// its encoded state and the part of the entity that holds it.
func TestQuickHooksAreCheap(t *testing.T) { // not parallel: it counts allocations
	const all, most = 2000, 4
	c := emptyCluster(t)
	n := shard.New(c.config("a"))
	c.nodes["a"] = n
	newAccount := func() *fixture.Account { return &fixture.Account{} }
	require.NoError(t, fixture.HostAccount(n, newAccount, shard.IdleAfter(time.Hour)))
	require.NoError(t, n.Start(testContext(t)))
	accounts := fixture.NewAccountClient(n)
	for i := range all {
		add(t, accounts, fmt.Sprint(i), 1)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n.PassivateIdle(accountKind)
	for ctx := testContext(t); n.Passivated() < all && ctx.Err() == nil; {
		runtime.Gosched() // allocates nothing, however long it takes
	}
	runtime.ReadMemStats(&after)
	require.EqualValues(t, all, n.Passivated())
	require.LessOrEqual(t, (after.Mallocs-before.Mallocs)/all, uint64(most), "allocations for each entity")
}

// TestHangingHooksGetNoRoom: entities whose stop hooks hang are already being passivated, so no
// others are passivated to make room.
func TestHangingHooksGetNoRoom(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.opts = []shard.HostOption{shard.IdleAfter(0), shard.MaxActive(10), shard.StopTimeout(10 * time.Minute)}
	n := c.start("a")
	accounts := fixture.NewAccountClient(n)
	t.Cleanup(func() { close(c.probe.Release) })
	for i := range 20 {
		add(t, accounts, fmt.Sprint("hangs when it stops ", i), 1)
	}
	require.Eventually(t, func() bool { return c.probe.Passivated.Load() >= 10 }, testPatience, testTick)
	for range 3 {
		n.MakeRoom(accountKind)
	}
	require.EqualValues(t, 10, c.probe.Passivated.Load())
}

// TestShardsMoveWhileEntitiesArePassivated: every entity keeps its state, whether its shard moves
// before, during or after the entity's passivation.
func TestShardsMoveWhileEntitiesArePassivated(t *testing.T) {
	t.Parallel()
	const all = 3000
	c := emptyCluster(t)
	c.opts = []shard.HostOption{shard.IdleAfter(time.Second)}
	c.start("a")
	accounts := fixture.NewAccountClient(c.dial("client"))
	near := fixture.NewAccountClient(c.nodes["a"])
	for i := range all {
		add(t, near, fmt.Sprint("e", i), 1)
	}
	c.start("b")
	require.Eventually(t, func() bool { return c.probe.Passivated.Load() > 0 }, testPatience, time.Millisecond)
	require.NoError(t, c.nodes["a"].Shutdown(testContext(t)))
	for i := range all {
		add(t, accounts, fmt.Sprint("e", i), 2)
	}
}

// TestPassivatedIsForgotten: remembered entities that were passivated as idle are not activated
// again at the next home of their shard.
func TestPassivatedIsForgotten(t *testing.T) {
	t.Parallel()
	const all = 500
	c := emptyCluster(t)
	c.opts = append(rememberAccounts(shard.RememberOptions{}), shard.IdleAfter(time.Second))
	c.start("a")
	c.start("b")
	accounts := fixture.NewAccountClient(c.nodes["a"])
	for i := range all {
		add(t, accounts, fmt.Sprint("e", i), 1)
	}
	require.Eventually(t, func() bool { return lives(c.nodes["a"], c.nodes["b"]) == 0 }, testPatience, testTick)
	require.NoError(t, c.nodes["b"].Shutdown(testContext(t)))
	require.Zero(t, lives(c.nodes["a"]))
	for i := range all {
		add(t, accounts, fmt.Sprint("e", i), 2)
	}
}

// TestNobodyIsPassivatedWithoutALease: without a lease a node runs no stop hooks, because another
// node may have the entity.
func TestNobodyIsPassivatedWithoutALease(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.opts = []shard.HostOption{shard.IdleAfter(time.Hour)}
	n := c.start("a")
	accounts := fixture.NewAccountClient(n)
	add(t, accounts, "bob", 1)
	n.PassivateIdle(accountKind)
	c.hooks("bob", "fresh", "idle")
	add(t, accounts, "alice", 1)
	n.LoseLease()
	n.PassivateIdle(accountKind)
	c.hooks("alice", "fresh")
}
