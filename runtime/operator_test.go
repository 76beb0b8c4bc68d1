package shard_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/transport"
)

// operator connects to the cluster as shardctl does.
func (c *cluster) operator() *admin.Client {
	c.t.Helper()
	o, err := admin.Dial(testContext(c.t), admin.Options{Cluster: "test", Transport: c.broker.Transport(), Name: "operator"})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { require.NoError(c.t, o.Close()) })
	return o
}

func names(v admin.View) (list []string) {
	for _, m := range v.Members {
		list = append(list, m.Name+" "+m.Status.String())
	}
	return list
}

func TestOperatorLeave(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	o := c.operator()
	v, err := o.Members(testContext(t))
	require.NoError(t, err)
	require.Equal(t, []string{"a up", "b up", "c up"}, names(v), "the oldest first")
	require.Equal(t, []string{"Account"}, v.Members[1].Hosts)
	require.True(t, v.Members[1].Reachable)
	require.Equal(t, "a", v.Leader.Name)

	account := fixture.NewAccountClient(c.nodes["c"]).Ref("alice")
	_, err = account.Add(testContext(t), 5)
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		node, err := o.Leave(testContext(t), name)
		require.NoError(t, err)
		require.Equal(t, c.nodes[name].Peer().Address, node)
		receive(t, c.nodes[name].Done(), name+" stops")
		require.NoError(t, c.nodes[name].Err())
	}
	left, err := account.Get(testContext(t))
	require.NoError(t, err)
	require.EqualValues(t, 5, left, "its shards went in order")
	_, err = o.Leave(testContext(t), c.nodes["a"].Peer().Address.String())
	require.ErrorIs(t, err, admin.ErrUnknownNode)
	require.ErrorContains(t, err, "c sees [c]")
	_, err = o.Leave(testContext(t), "c")
	require.NoError(t, err, "the last one, too")
}

func TestOperatorDown(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	o := c.operator()
	_, err := o.Down(testContext(t), "b", false)
	require.ErrorIs(t, err, admin.ErrRefused)
	require.ErrorContains(t, err, "is up and reachable")
	_, err = o.Down(testContext(t), "nobody", true)
	require.ErrorIs(t, err, admin.ErrUnknownNode)
	b := c.nodes["b"]
	node, err := o.Down(testContext(t), b.Peer().Address.String(), true)
	require.NoError(t, err)
	require.Equal(t, b.Peer().Address, node)
	receive(t, b.Done(), "a downed node stops")
	require.ErrorIs(t, b.Err(), shard.ErrDowned)

	_, err = o.Down(testContext(t), "c", true)
	require.NoError(t, err)
	receive(t, c.nodes["c"].Done(), "a downed node stops")
	require.Eventually(t, func() bool { return len(c.nodes["a"].Cluster().Members) == 1 }, testPatience, testTick)

	_, err = o.Down(testContext(t), "a", true)
	require.NoError(t, err, "the only one downs itself")
	receive(t, c.nodes["a"].Done(), "a downed node stops")
	require.ErrorIs(t, c.nodes["a"].Err(), shard.ErrDowned)
}

func TestJoinByCommand(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.Membership.JoinByCommand = true }
	o := c.operator()
	begin := time.Now()
	_, err := o.Members(testContext(t))
	require.ErrorIs(t, err, admin.ErrNoCluster)
	require.Less(t, time.Since(begin), 3*time.Second, "an answer that cannot come is not waited for")

	a, b, d := c.start("a"), c.start("b"), c.start("d") // start returns, although the nodes have not joined
	_, err = o.Members(testContext(t))
	require.ErrorIs(t, err, admin.ErrNoMember)
	require.ErrorContains(t, err, "waiting to be told to join: a, b, d (shardctl join a)")
	require.Zero(t, a.Cluster().Status)

	require.NoError(t, a.Join(testContext(t), "a"), "it is its own first seed")
	require.NoError(t, a.Join(testContext(t)), "told again it is up")
	node, err := o.Join(testContext(t), "b", "a")
	require.NoError(t, err)
	require.Equal(t, b.Peer().Address, node)
	require.Len(t, b.Cluster().Members, 2)
	_, err = o.Join(testContext(t), "b")
	require.NoError(t, err)
	_, err = fixture.NewAccountClient(d).Ref("alice", shard.Timeout(50*time.Millisecond)).Add(testContext(t), 1)
	requireCall(t, err, context.DeadlineExceeded, shard.NotExecuted)
	require.NoError(t, d.Shutdown(testContext(t)), "who was never told need not leave")

	_, err = o.Join(testContext(t), "d")
	require.ErrorContains(t, err, "join d: no process of that name answers")
	_, err = o.Join(testContext(t), "b", "not a name")
	require.NoError(t, err, "it has joined already")
}

func TestJoinWithoutCommand(t *testing.T) {
	c := emptyCluster(t)
	n := c.add("a")
	require.ErrorContains(t, n.Join(testContext(t)), "set Config.Membership.JoinByCommand")
	c.tune = func(cfg *shard.Config) { cfg.Membership.JoinByCommand = true }
	w := c.start("w")
	require.ErrorContains(t, w.Join(testContext(t), "not a name"), "seed name")
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	require.ErrorIs(t, w.Join(ctx, "first-seed-that-is-away"), context.DeadlineExceeded)
	require.NoError(t, w.Close())
	require.ErrorIs(t, w.Join(testContext(t)), shard.ErrClosed)
}

func TestFindMember(t *testing.T) {
	old := transport.Address{Name: "web-1", Incarnation: 1}
	v := admin.View{Members: []admin.Member{
		{Address: old},
		{Address: transport.Address{Name: "web-1", Incarnation: 2}},
		{Address: transport.Address{Name: "web-2", Incarnation: 3}},
	}}
	_, err := v.Find("web-1")
	require.ErrorIs(t, err, admin.ErrAmbiguous)
	require.ErrorContains(t, err, "say which of web-1#0000000000000001 (none), web-1#0000000000000002")
	m, err := v.Find(old.String())
	require.NoError(t, err)
	require.Equal(t, old, m.Address)
	m, err = v.Find("web-2")
	require.NoError(t, err)
	require.EqualValues(t, 3, m.Incarnation)
}
