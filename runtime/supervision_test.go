package shard_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// add adds 1 to an account and requires the balance then.
func add(t *testing.T, accounts *fixture.AccountClient, id string, want int64) {
	t.Helper()
	got, err := accounts.Ref(id).Add(testContext(t), 1)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestPassivateAndForget(t *testing.T) {
	t.Parallel()
	eachWay(t, nil, func(t *testing.T, c *cluster, accounts *fixture.AccountClient) {
		add(t, accounts, "bob", 1)
		require.NoError(t, accounts.Ref("bob").Rest(testContext(t)))
		c.hooks("bob", "fresh", "idle")
		add(t, accounts, "bob", 2) // the state was kept
		require.NoError(t, accounts.Ref("bob").End(testContext(t)))
		c.hooks("bob", "fresh", "idle", "reactivated", "forgotten")
		add(t, accounts, "bob", 1) // the state is gone now
		counters := c.nodes["a"].Counters()
		require.EqualValues(t, 1, counters["entity forgotten"])
		require.EqualValues(t, 1, counters["entity passivated"])
	})
	for what, f := range map[string]func(context.Context) error{"passivate": shard.Passivate, "forget": shard.Forget} {
		require.ErrorContains(t, f(context.Background()), what+": ctx is not the context of an entity's method")
	}
}

// TestCallsWaitForTheNextActivation: a call that arrives while an entity ends runs at the entity's
// next activation.
func TestCallsWaitForTheNextActivation(t *testing.T) {
	c := newCluster(t, "a")
	accounts := fixture.NewAccountClient(c.nodes["a"])
	const id = "hangs when it stops"
	settle(t, accounts, id)
	require.NoError(t, accounts.Ref(id).End(testContext(t)))
	done := make(chan error, 1)
	go func() {
		got, err := accounts.Ref(id).Add(context.Background(), 1)
		if err == nil && got != 1 {
			err = fmt.Errorf("balance %d, want 1", got)
		}
		done <- err
	}()
	require.Eventually(t, func() bool { return c.nodes["a"].Waiting(accountKind, id) == 1 }, testPatience, testTick)
	close(c.probe.Release)
	require.NoError(t, receive(t, done, "the call ends"))
	c.hooks(id, "fresh", "forgotten", "fresh")
}

func TestSupervision(t *testing.T) {
	t.Parallel()
	decide := func(err error) shard.SupervisorAction {
		switch {
		case errors.Is(err, fixture.ErrPoor):
			return shard.ActionStop
		case errors.Is(err, shard.ErrActivation), errors.Is(err, shard.ErrPanic):
			return shard.ActionRestart
		case err.Error() == "no line 7 among 0":
			panic("undecided")
		}
		return shard.ActionResume
	}
	eachWay(t, nil, func(t *testing.T, c *cluster, accounts *fixture.AccountClient) {
		add(t, accounts, "bob", 1)
		_, err := accounts.Ref("bob").Line(testContext(t), 0)
		require.Error(t, err)
		_, err = accounts.Ref("bob").Line(testContext(t), 7)
		require.Error(t, err)
		add(t, accounts, "bob", 2) // resumed
		require.Error(t, accounts.Ref("bob").Fail(testContext(t)))
		c.hooks("bob", "fresh", "forgotten")
		add(t, accounts, "bob", 1) // stopped
		for round := range 2 {
			require.ErrorIs(t, accounts.Ref("x").Panic(testContext(t), "boom"), shard.ErrPanic)
			begin := time.Now()
			add(t, accounts, "x", 1) // restarted, after the back-off
			require.GreaterOrEqual(t, time.Since(begin)+10*time.Millisecond, 40*time.Millisecond<<round)
		}
		add(t, accounts, "y", 1)
	}, shard.Supervise(decide), shard.RestartBackoff(40*time.Millisecond, time.Second))
}

// TestGivingUpInABackoff: a call reaches its deadline while its entity waits for a restart. Its
// outcome is NotExecuted if the caller is at the entity's node, and no call is left waiting.
func TestGivingUpInABackoff(t *testing.T) {
	t.Parallel()
	for _, far := range []bool{false, true} {
		c := emptyCluster(t)
		c.opts = []shard.HostOption{
			shard.Inline(false), shard.RestartBackoff(time.Hour, time.Hour),
			shard.Supervise(func(error) shard.SupervisorAction { return shard.ActionRestart }),
		}
		n := c.start("a")
		accounts := fixture.NewAccountClient(n)
		if far {
			accounts = fixture.NewAccountClient(c.dial("client"))
		}
		for i := range 20 {
			id := strconv.Itoa(i)
			require.Error(t, accounts.Ref(id).Panic(testContext(t), "boom"))
			ctx, cancel := context.WithTimeout(testContext(t), 10*time.Millisecond)
			_, err := accounts.Ref(id).Add(ctx, 1)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			if !far {
				require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
			}
			require.Eventually(t, func() bool { return n.Waiting(accountKind, id) == 0 }, testPatience, testTick)
		}
	}
}

// TestMovesDoNotWaitForBackoffs moves an entity that its supervisor would restart only in an hour.
func TestMovesDoNotWaitForBackoffs(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.opts = []shard.HostOption{
		shard.Supervise(func(error) shard.SupervisorAction { return shard.ActionRestart }),
		shard.RestartBackoff(time.Hour, time.Hour),
	}
	c.start("a")
	accounts := fixture.NewAccountClient(c.dial("client"))
	settle(t, accounts, "bob")
	require.Error(t, accounts.Ref("bob").Panic(testContext(t), "boom"))
	c.start("b")
	require.NoError(t, c.nodes["a"].Shutdown(testContext(t)))
	add(t, accounts, "bob", 1)
}

func TestEscalation(t *testing.T) {
	c := emptyCluster(t)
	c.opts = []shard.HostOption{shard.Supervise(func(error) shard.SupervisorAction { return shard.ActionEscalate })}
	n := c.start("a")
	accounts := fixture.NewAccountClient(n)
	settle(t, accounts, "bob")
	require.ErrorIs(t, accounts.Ref("bob").Panic(testContext(t), "boom"), shard.ErrPanic)
	receive(t, n.Done(), "the node ends")
	require.ErrorIs(t, n.Err(), shard.ErrEscalated)
	require.ErrorIs(t, n.Err(), shard.ErrPanic)
	require.ErrorContains(t, n.Err(), "Account/bob.Panic: ")
}

// TestHooksThatDoNotEnd: a hook that never returns, ends its goroutine or panics delays no other
// entity, and loses at most its own changes.
func TestHooksThatDoNotEnd(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.opts = []shard.HostOption{shard.StopTimeout(50 * time.Millisecond)}
	c.start("a")
	accounts := fixture.NewAccountClient(c.dial("client"))
	ids := []string{"hangs when it stops", "exits when it stops", "panics when it stops", "bob"}
	for _, id := range ids {
		add(t, accounts, id, 1)
	}
	require.NoError(t, accounts.Ref(ids[0]).Rest(testContext(t)))
	add(t, accounts, ids[0], 2)
	require.EqualValues(t, 1, c.nodes["a"].Counters()["hook abandoned"])
	c.start("b")
	require.NoError(t, c.nodes["a"].Shutdown(testContext(t)))
	add(t, accounts, ids[0], 3)
	for _, id := range ids[1:] {
		add(t, accounts, id, 2)
	}
	close(c.probe.Release)
}

// TestStartHookEndsGoroutine: if OnActivate ends its goroutine, the entity can still be called, and
// the lane goes on.
func TestStartHookEndsGoroutine(t *testing.T) {
	c := newCluster(t, "a")
	for _, caller := range []shard.Caller{c.nodes["a"], c.dial("client")} {
		accounts := fixture.NewAccountClient(caller)
		settle(t, accounts, "bob")
		for range 3 {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = accounts.Ref("exits when it starts").Get(testContext(t))
			}()
			receive(t, ended, "the caller ends, too, or has its answer")
		}
		settle(t, accounts, "bob")
	}
	require.Zero(t, c.nodes["a"].Waiting(accountKind, "exits when it starts"))
}

func TestMaxActive(t *testing.T) {
	c := emptyCluster(t)
	const most, all = 20, 100
	c.opts = []shard.HostOption{shard.MaxActive(most)}
	n := c.start("a")
	accounts := fixture.NewAccountClient(n)
	active := func() (active, entities int) {
		for _, s := range n.LocalShards(accountKind) {
			active, entities = active+s.Active, entities+s.Entities
		}
		return active, entities
	}
	for i := range all {
		add(t, accounts, fmt.Sprint("e", i), 1)
	}
	require.Eventually(t, func() bool { active, _ := active(); return active <= most }, testPatience, testTick)
	_, entities := active()
	require.Equal(t, all, entities)
	require.GreaterOrEqual(t, n.Counters()["entity passivated for room"], uint64(all-most))
	for i := range all {
		add(t, accounts, fmt.Sprint("e", i), 2)
	}
}
