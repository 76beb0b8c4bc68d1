package shard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/store"
	storememory "github.com/shardgen/shardgen/store/memory"
)

const remembered = 60

// lives counts the active accounts at the nodes.
func lives(nodes ...*shard.Node) (n int) {
	for _, node := range nodes {
		for _, s := range node.LocalShards(accountKind) {
			n += s.Active
		}
	}
	return n
}

func (c *cluster) awaitLives(want int, nodes ...string) {
	c.t.Helper()
	var at []*shard.Node
	for _, n := range nodes {
		at = append(at, c.nodes[n])
	}
	require.Eventually(c.t, func() bool { return lives(at...) == want }, testPatience, testTick, "%d accounts live", want)
}

// awaitEven waits until the shards are spread evenly over that many nodes and none moves.
func (c *cluster) awaitEven(nodes int) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		even := 0
		for _, n := range c.nodes {
			moving := slices.ContainsFunc(n.LocalShards(accountKind), func(s shard.ShardState) bool {
				return s.State != "active" && s.State != "forwarding"
			})
			held := slices.DeleteFunc(n.LocalShards(accountKind), func(s shard.ShardState) bool { return s.State != "active" })
			if !moving && len(held) >= 256/nodes && len(held) <= 256/nodes+1 {
				even++
			}
		}
		return even == nodes
	}, testPatience, testTick)
}

// fresh returns how many activations of the remembered accounts began without a state.
func (c *cluster) fresh() (n int) {
	for i := range remembered {
		for _, h := range c.probe.Hooks(fmt.Sprint("e", i)) {
			if h == "fresh" {
				n++
			}
		}
	}
	return n
}

// storeAt gives the store to all nodes that are started later.
func (c *cluster) storeAt(backend store.Backend) {
	c.tune = func(cfg *shard.Config) { cfg.Store = backend }
}

func rememberAccounts(r shard.RememberOptions) []shard.HostOption {
	return []shard.HostOption{shard.Remember(r)}
}

// enliven activates n accounts by calls.
func enliven(t *testing.T, accounts *fixture.AccountClient, n int) {
	t.Helper()
	for i := range n {
		add(t, accounts, fmt.Sprint("e", i), 1)
	}
}

// TestRememberedAfterCrash: the entities of a node that dies are activated at the other nodes, each
// once, without a call. So are those of a second node.
func TestRememberedAfterCrash(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.opts = rememberAccounts(shard.RememberOptions{})
	for _, n := range []string{"a", "b", "c", "d"} {
		c.start(n)
	}
	conn := c.dial("client")
	enliven(t, fixture.NewAccountClient(conn), remembered)
	require.NoError(t, conn.Close()) // no process calls any more
	c.awaitEven(4)
	c.awaitLives(remembered, "a", "b", "c", "d")
	lost := lives(c.nodes["a"])
	require.NotZero(t, lost)
	require.NoError(t, c.nodes["a"].Close()) // the coordinator ends too
	delete(c.nodes, "a")
	c.awaitLives(remembered, "b", "c", "d")
	require.Eventually(t, func() bool { return c.fresh() == remembered+lost }, testPatience, testTick)
	c.awaitEven(3)
	c.awaitLives(remembered, "b", "c", "d")
	second := lives(c.nodes["b"])
	require.NoError(t, c.nodes["b"].Close())
	c.awaitLives(remembered, "c", "d")
	require.Eventually(t, func() bool { return c.fresh() == remembered+lost+second }, testPatience, testTick)
}

// TestRememberedAfterMove: after a move of their shards, remembered entities are activated at the
// new home with their state. So are those that waited for a call at the old home.
func TestRememberedAfterMove(t *testing.T) {
	t.Parallel()
	for _, mode := range []shard.HandoffMode{shard.HandoffOrdered, shard.HandoffDropState} {
		t.Run(mode.String(), func(t *testing.T) {
			c := emptyCluster(t)
			c.opts = rememberAccounts(shard.RememberOptions{})
			want := "moved"
			if mode == shard.HandoffDropState {
				c.opts, want = append(c.opts, shard.Handoff(shard.HandoffDropState)), "fresh"
			}
			c.start("a")
			enliven(t, fixture.NewAccountClient(c.nodes["a"]), remembered)
			c.start("b")
			require.NoError(t, c.nodes["a"].Shutdown(testContext(t)))
			c.awaitLives(remembered, "b")
			require.Equal(t, []string{"fresh", "moving", want}, c.probe.Hooks("e7"))
		})
	}
}

// TestRememberedUntil: an entity that calls Passivate or Forget is no longer remembered. One that
// its supervisor stops or restarts stays remembered. One whose first activation failed never was.
func TestRememberedUntil(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.opts = append(rememberAccounts(shard.RememberOptions{Backoff: 30 * time.Millisecond}), shard.Supervise(func(err error) shard.SupervisorAction {
		if err.Error() == "fail stopped: too poor" {
			return shard.ActionStop
		}
		return shard.ActionRestart
	}), shard.RestartBackoff(10*time.Millisecond, 10*time.Millisecond))
	c.start("a")
	accounts := fixture.NewAccountClient(c.nodes["a"])
	for _, id := range []string{"rested", "ended", "stopped", "restarted", "idle"} {
		add(t, accounts, id, 1)
	}
	require.ErrorIs(t, accounts.Ref("refuses").Fail(testContext(t)), shard.ErrActivation)
	require.NoError(t, accounts.Ref("rested").Rest(testContext(t)))
	require.NoError(t, accounts.Ref("ended").End(testContext(t)))
	require.Error(t, accounts.Ref("stopped").Fail(testContext(t)))
	require.Error(t, accounts.Ref("restarted").Panic(testContext(t), "boom"))
	c.hooks("stopped", "fresh", "forgotten", "fresh")
	c.hooks("restarted", "fresh", "fresh")
	c.start("b")
	require.Eventually(t, func() bool { return len(c.nodes["b"].LocalShards(accountKind)) == 128 }, testPatience, testTick)
	require.Eventually(t, func() bool { return c.nodes["a"].Kept()+c.nodes["b"].Kept() == 3 }, testPatience, testTick)
	c.awaitLives(3, "a", "b")
	require.NoError(t, c.nodes["a"].Close())
	c.awaitLives(3, "b")
	c.hooks("rested", "fresh", "idle")
	c.hooks("ended", "fresh", "forgotten")
	c.hooks("refuses", "fresh")
	require.Eventually(t, func() bool { return len(c.nodes["b"].LocalShards(accountKind)) == 256 }, testPatience, testTick)
	add(t, fixture.NewAccountClient(c.nodes["b"]), "rested", 1)
}

// TestRememberedInStore stops all members and starts new ones, which activate the remembered
// entities.
func TestRememberedInStore(t *testing.T) {
	t.Parallel()
	server := storememory.New()
	start := func() *cluster {
		c := emptyCluster(t)
		c.storeAt(server.Client())
		c.opts = rememberAccounts(shard.RememberOptions{})
		c.start("a")
		c.start("b")
		return c
	}
	c := start()
	accounts := fixture.NewAccountClient(c.nodes["b"])
	enliven(t, accounts, remembered)
	require.NoError(t, accounts.Ref("e0").End(testContext(t)))
	require.NoError(t, accounts.Ref("e1").Rest(testContext(t)))
	require.Eventually(t, func() bool { return lives(c.nodes["a"], c.nodes["b"]) == remembered-2 }, testPatience, testTick)
	require.NoError(t, c.nodes["a"].Shutdown(testContext(t)))
	c.awaitLives(remembered-2, "b")
	require.NoError(t, c.nodes["b"].Shutdown(testContext(t)))

	c = start()
	c.awaitLives(remembered-2, "a", "b")
	require.NoError(t, c.nodes["a"].Close())
	c.awaitLives(remembered-2, "b")
	records, err := server.Client().List(testContext(t), "remembered/test/Account/")
	require.NoError(t, err)
	require.NotEmpty(t, records)
}

// TestRememberedMoveNeedsNoRead: ids move with their shard, so its entities are activated at the
// new home even while that home cannot read the store.
func TestRememberedMoveNeedsNoRead(t *testing.T) {
	t.Parallel()
	server := storememory.New()
	c := emptyCluster(t)
	c.opts = rememberAccounts(shard.RememberOptions{})
	c.storeAt(server.Client())
	enliven(t, fixture.NewAccountClient(c.start("a")), remembered)
	blind := server.Client()
	blind.Fault(func(op storememory.Op) (f storememory.Fault) {
		if !op.Write && strings.HasPrefix(op.Key, "remembered/") {
			f.Loss = storememory.LoseConnection
		}
		return f
	})
	c.storeAt(blind)
	c.start("b")
	require.NoError(t, c.nodes["a"].Shutdown(testContext(t)))
	c.awaitLives(remembered, "b")
}

// TestRememberingFails: while the store fails, no entity can be activated for the first time.
// Active entities go on.
func TestRememberingFails(t *testing.T) {
	server := storememory.New()
	client := server.Client()
	c := emptyCluster(t)
	c.storeAt(client)
	c.opts = rememberAccounts(shard.RememberOptions{})
	accounts := fixture.NewAccountClient(c.start("a"))
	add(t, accounts, "bob", 1)
	client.Cut(true)
	_, err := accounts.Ref("eve").Get(testContext(t))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
	require.ErrorContains(t, err, "remember Account/eve (shard Account/")
	add(t, accounts, "bob", 2)
	client.Cut(false)
	add(t, accounts, "eve", 1)
	require.NotZero(t, c.nodes["a"].Counters()["remember failed"])
}

func TestRememberTooMany(t *testing.T) {
	c := emptyCluster(t)
	c.opts = rememberAccounts(shard.RememberOptions{MaxPerShard: 1})
	accounts := fixture.NewAccountClient(c.start("a"))
	kind := 0
	for i := range 1000 {
		_, err := accounts.Ref(fmt.Sprint("e", i)).Add(testContext(t), 1)
		if err != nil {
			require.ErrorIs(t, err, shard.ErrOverloaded)
			require.ErrorContains(t, err, "remembers the maximum number of entities: 1 (raise RememberOptions.MaxPerShard, or use more shards)")
			kind++
		}
	}
	require.NotZero(t, kind)
	require.Equal(t, 1000-kind, lives(c.nodes["a"]))
}

// TestRememberedAtOnce: without ConstantRate, the options Entities and Every have no effect: all
// entities are activated at once.
func TestRememberedAtOnce(t *testing.T) {
	t.Parallel()
	server := storememory.New()
	c := emptyCluster(t)
	c.storeAt(server.Client())
	c.opts = rememberAccounts(shard.RememberOptions{})
	enliven(t, fixture.NewAccountClient(c.start("a")), 10)
	require.NoError(t, c.nodes["a"].Shutdown(testContext(t)))
	c = emptyCluster(t)
	c.storeAt(server.Client())
	c.opts = rememberAccounts(shard.RememberOptions{Entities: 1, Every: time.Hour})
	c.start("b")
	c.awaitLives(10, "b")
}

// TestConstantRate: two entities are activated every 40ms, not more.
func TestConstantRate(t *testing.T) {
	t.Parallel()
	server := storememory.New()
	c := emptyCluster(t)
	c.storeAt(server.Client())
	c.opts = rememberAccounts(shard.RememberOptions{})
	enliven(t, fixture.NewAccountClient(c.start("a")), 10)
	require.NoError(t, c.nodes["a"].Shutdown(testContext(t)))
	c = emptyCluster(t)
	c.storeAt(server.Client())
	c.opts = rememberAccounts(shard.RememberOptions{ConstantRate: true, Entities: 2, Every: 40 * time.Millisecond})
	c.start("b")
	require.Eventually(t, func() bool { return lives(c.nodes["b"]) > 0 }, testPatience, time.Millisecond)
	begin := time.Now()
	c.awaitLives(10, "b")
	require.Greater(t, time.Since(begin), 100*time.Millisecond) // four times 40ms, less the part of the first that was missed
}

func TestRememberOptions(t *testing.T) {
	for _, tt := range []struct {
		r    shard.RememberOptions
		want string
	}{
		{shard.RememberOptions{Replicas: 6}, "host Account: RememberOptions.Replicas is 6: want 1 to 5"},
		{shard.RememberOptions{Entities: -1}, "host Account: RememberOptions.Entities is -1: want at least 1"},
		{shard.RememberOptions{Every: 1}, "host Account: RememberOptions.Every is 1ns: want at least 1ms"},
		{shard.RememberOptions{Backoff: 2 * time.Hour}, "host Account: RememberOptions.Backoff is 2h0m0s: want 10ms to 1h"},
		{shard.RememberOptions{MaxPerShard: -1}, "host Account: RememberOptions.MaxPerShard is -1: want 1 to 1000000"},
	} {
		n := shard.New(emptyCluster(t).config("a"))
		require.EqualError(t, fixture.HostAccount(n, func() *fixture.Account { return nil }, shard.Remember(tt.r)), tt.want)
	}
}

// TestStoreKeepsTheIDs: with a store, no replicas keep the ids, so Replicas is refused.
func TestStoreKeepsTheIDs(t *testing.T) {
	c := emptyCluster(t)
	c.storeAt(storememory.New().Client())
	err := fixture.HostAccount(shard.New(c.config("a")), func() *fixture.Account { return nil }, shard.Remember(shard.RememberOptions{Replicas: 1}))
	require.EqualError(t, err, "host Account: RememberOptions.Replicas is 1: want 0, because Config.Store keeps the ids")
}

// TestRememberMustAgree: a node that does not remember the type's entities is refused if the
// members do.
func TestRememberMustAgree(t *testing.T) {
	c := emptyCluster(t)
	c.opts = rememberAccounts(shard.RememberOptions{})
	c.start("a")
	c.opts = nil
	err := c.add("b").Start(testContext(t))
	for _, what := range []string{`type Account: Remember is "false" at b and "true" at a`} {
		require.ErrorContains(t, err, what)
	}
}
