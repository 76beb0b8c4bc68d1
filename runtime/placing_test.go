package shard_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// homes returns how many shards of Account each node holds, by the table of n.
func homes(t *testing.T, n *shard.Node) map[string]int {
	t.Helper()
	stats, err := n.Shards(testContext(t), "Account")
	require.NoError(t, err)
	count := map[string]int{}
	for node, shards := range stats.Nodes {
		count[node] = 0
		for _, s := range shards {
			if s.State == "active" {
				count[node]++
			}
		}
	}
	return count
}

func (c *cluster) awaitHomes(n *shard.Node, want map[string]int) {
	c.t.Helper()
	var got map[string]int
	require.Eventually(c.t, func() bool {
		got = homes(c.t, n)
		return fmt.Sprint(got) == fmt.Sprint(want)
	}, testPatience, testTick, "want %v", want)
}

// startWith starts a node with other options than the cluster's.
func (c *cluster) startWith(name string, roles []string, opts ...shard.HostOption) *shard.Node {
	c.t.Helper()
	before, tune := c.opts, c.tune
	defer func() { c.opts, c.tune = before, tune }()
	c.opts = opts
	c.tune = func(cfg *shard.Config) {
		if tune != nil {
			tune(cfg)
		}
		cfg.Roles = roles
	}
	return c.start(name)
}

// TestProxies: a node that does not host a type can call it, whether it has the option Proxy, lacks
// the role, or never called HostX.
func TestProxies(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	back := shard.HostRole("back")
	c.startWith("p", nil, shard.Proxy(), back) // the oldest node, so it runs the coordinator
	front := c.startWith("f", []string{"front"}, back)
	c.startWith("a", []string{"back"}, back)
	b := c.startWith("b", []string{"back", "other"}, back)
	plain := shard.New(c.config("x"))
	c.nodes["x"] = plain
	require.NoError(t, plain.Start(testContext(t)))
	for _, n := range c.nodes {
		_, err := fixture.NewAccountClient(n).Ref("bob").Add(testContext(t), 1)
		require.NoError(t, err)
	}
	c.awaitHomes(front, map[string]int{"a": 128, "b": 128})
	require.Equal(t, []string{"Account"}, plain.TypeNames())
	require.Empty(t, front.LocalShards(""))
	require.Len(t, b.LocalShards("Account"), 128)
	require.NoError(t, b.Shutdown(testContext(t)))
	c.awaitHomes(front, map[string]int{"a": 256})
}

// TestNewTypeRollsOut restarts a cluster node by node with one more type. Early calls of the new
// type wait for its first host, and no state of the old types is lost.
func TestNewTypeRollsOut(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	without := func(name string) *shard.Node {
		n := shard.New(c.config(name))
		require.NoError(t, fixture.HostCashier(n, func() *fixture.Cashier { return &fixture.Cashier{} }))
		require.NoError(t, n.Start(testContext(t)))
		c.nodes[name] = n
		return n
	}
	a, b := without("a"), without("b")
	early := make(chan error, 1)
	go func() {
		_, err := fixture.NewAccountClient(b).Ref("bob").Add(testContext(t), 1)
		early <- err
	}()
	require.Eventually(t, func() bool { return b.Counters()["buffered"] > 0 }, testPatience, testTick)
	require.Equal(t, []string{"Cashier"}, b.TypeNames())
	c.start("c") // the first host of the new type
	require.NoError(t, receive(t, early, "the early call is answered"))
	for i, old := range []*shard.Node{a, b} {
		require.NoError(t, old.Shutdown(testContext(t)))
		c.start(old.Name())
		add(t, fixture.NewAccountClient(c.nodes["c"]), "bob", int64(i+2))
	}
	require.Eventually(t, func() bool {
		at := homes(t, c.nodes["a"])
		return at["a"] >= 85 && at["b"] >= 85 && at["c"] >= 85
	}, testPatience, testTick)
}

// TestRoleMustMatch: a node with another HostRole for a type is refused, also by a member that
// knows nothing of the type.
func TestRoleMustMatch(t *testing.T) {
	c := emptyCluster(t)
	plain := shard.New(c.config("x"))
	c.nodes["x"] = plain
	require.NoError(t, plain.Start(testContext(t)))
	c.startWith("a", []string{"back"}, shard.HostRole("back"))
	for _, seeds := range [][]string{{"x"}, {"a"}} {
		cfg := c.config("b")
		cfg.Seeds = seeds
		n := shard.New(cfg)
		require.NoError(t, fixture.HostAccount(n, newAccount))
		err := n.Start(testContext(t))
		for _, want := range []string{`type Account: HostRole is "" at b and "back" at a`, "make them equal"} {
			require.ErrorContains(t, err, want)
		}
		require.NoError(t, n.Close())
	}
}

func TestPlaceShards(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	a := c.nodes["a"]
	accounts := fixture.NewAccountClient(a)
	_, err := accounts.Ref("bob").Add(testContext(t), 5)
	require.NoError(t, err)
	c.awaitHomes(a, map[string]int{"a": 128, "b": 128})
	pins := map[uint32]string{}
	for n := range uint32(256) {
		pins[256+n] = "b"
	}
	require.NoError(t, a.PinShards(testContext(t), "Account", pins))
	c.awaitHomes(a, map[string]int{"a": 0, "b": 256})
	at, err := a.Locate(testContext(t), "Account", "bob")
	require.NoError(t, err)
	require.Equal(t, "b", at.Node)
	require.Contains(t, at.Why, "lives at b under epoch "+at.Epoch)

	// The coordinator's node leaves, and node c joins. The pins hold, and shards pinned to c move
	// there.
	require.NoError(t, c.nodes["b"].PinShards(testContext(t), "Account", map[uint32]string{at.Shard: "c"}))
	require.NoError(t, a.Shutdown(testContext(t)))
	d := c.start("d")
	_, err = fixture.NewAccountClient(d).Ref("bob").Get(testContext(t))
	require.NoError(t, err)
	c.awaitHomes(d, map[string]int{"b": 255, "d": 1})
	c.start("c")
	require.Eventually(t, func() bool {
		at, err := d.Locate(testContext(t), "Account", "bob")
		return err == nil && at.Node == "c"
	}, testPatience, testTick)
	got, err := fixture.NewAccountClient(d).Ref("bob").Get(testContext(t))
	require.NoError(t, err)
	require.EqualValues(t, 5, got)
}

func TestPlaceShardsRefused(t *testing.T) {
	n := newCluster(t, "a").nodes["a"]
	for _, tt := range []struct {
		kind  string
		homes map[uint32]string
		want  string
	}{
		{"Account", map[uint32]string{1: "a"}, "Account has no shard 1, only 256 to 511"},
		{"Account", map[uint32]string{256: "not a name"}, "shard 256: node name"},
		{"Account", map[uint32]string{0: "a"}, "shard number 0"},
		{"Nothing", map[uint32]string{1: "a"}, "no member hosts Nothing"},
		{"", nil, "type name of 0 bytes"},
	} {
		require.ErrorContains(t, n.PinShards(testContext(t), tt.kind, tt.homes), tt.want)
	}
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	require.ErrorContains(t, shard.New(emptyCluster(t).config("z")).PinShards(ctx, "Account", nil), "has not joined")
}

// TestConsistentHash: nodes of the same names get the same shards, in whatever order they joined.
func TestConsistentHash(t *testing.T) {
	t.Parallel()
	var before map[string]int
	for _, order := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}} {
		c := emptyCluster(t)
		c.opts = []shard.HostOption{shard.Allocation(shard.ConsistentHash{}), shard.MinHosts(3)}
		for _, name := range order {
			c.start(name)
		}
		_, err := fixture.NewAccountClient(c.nodes["a"]).Ref("bob").Add(testContext(t), 1)
		require.NoError(t, err)
		got := homes(t, c.nodes["b"])
		require.Equal(t, 256, got["a"]+got["b"]+got["c"], "%v", got)
		if before != nil {
			require.Equal(t, before, got)
		}
		before = got
	}
}

// TestMinHosts: calls wait until enough members host the type, and their errors say so.
func TestMinHosts(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.opts = []shard.HostOption{shard.MinHosts(2)}
	a := c.start("a")
	_, err := fixture.NewAccountClient(a).Ref("bob", shard.Timeout(time.Second)).Add(testContext(t), 1)
	require.ErrorContains(t, err, "1 of at least 2 members that host this type are up (MinHosts)")
	require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
	c.start("b")
	_, err = fixture.NewAccountClient(a).Ref("bob").Add(testContext(t), 1)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"a": 128, "b": 128}, homes(t, a))
}

// TestForwardingEnds: when shards have moved and their callers know the new homes, each shard is
// listed once, at its home.
func TestForwardingEnds(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	a, b := c.nodes["a"], c.nodes["b"]
	front := c.startWith("f", nil, shard.Proxy())
	add(t, fixture.NewAccountClient(front), "caller 0", 1)
	c.awaitHomes(a, map[string]int{"a": 128, "b": 128})
	var calls sync.WaitGroup
	stop := make(chan struct{})
	for i, n := range []*shard.Node{a, b, front} {
		calls.Go(func() { callMany(t, n, fmt.Sprint("caller ", i+1), stop) })
	}
	for _, home := range []string{"b", "a", "b"} {
		pins := map[uint32]string{}
		for n := range uint32(256) {
			pins[256+n] = home
		}
		require.NoError(t, a.PinShards(testContext(t), "Account", pins))
		c.awaitHomes(a, map[string]int{"a": 0, "b": 0, home: 256})
	}
	close(stop)
	calls.Wait()
	var stats shard.Shards
	require.Eventually(t, func() bool {
		var err error
		stats, err = front.Shards(testContext(t), "Account")
		return err == nil && len(stats.Nodes["a"])+len(stats.Nodes["b"]) == 256
	}, testPatience, testTick, "every shard is counted once")
	require.Len(t, stats.Nodes["b"], 256)
	require.Len(t, b.LocalShards("Account"), 256)
	require.Empty(t, a.LocalShards("Account"))
	add(t, fixture.NewAccountClient(a), "caller 0", 2)
}

// callMany calls entities one after the other until stop is closed. It fails if an earlier call was
// lost.
func callMany(t *testing.T, n *shard.Node, name string, stop <-chan struct{}) {
	accounts := fixture.NewAccountClient(n)
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		got, err := accounts.Ref(fmt.Sprint(name, "/", i%64)).Add(t.Context(), 1)
		if want := int64(i/64 + 1); err != nil || got != want {
			t.Errorf("call %d of %s: got %d, %v, want %d", i, name, got, err, want)
			return
		}
	}
}
