package shard_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport"
)

// follow reads a node's events in a goroutine of its own until ctx ends or the node stops. Then it
// closes the channel.
func follow(ctx context.Context, n *shard.Node) <-chan shard.ClusterEvent {
	events := make(chan shard.ClusterEvent, 1024)
	go func() {
		defer close(events)
		for e := range n.Events(ctx) {
			events <- e
		}
	}()
	return events
}

// await reads events until one of the kind about the named member comes, and returns all events
// that it has read.
func await(t *testing.T, events <-chan shard.ClusterEvent, kind shard.EventKind, name string) (seen []shard.ClusterEvent) {
	t.Helper()
	for {
		e := receive(t, events, kind.String()+" "+name)
		seen = append(seen, e)
		if e.Kind == kind && e.Member.Name == name {
			return seen
		}
	}
}

// TestEvents follows a cluster through a member's life. A reader that applies the events to the
// first view gets the same state as Cluster returns.
func TestEvents(t *testing.T) {
	c := emptyCluster(t)
	a := c.add("a")
	ctx, cancel := context.WithCancel(testContext(t))
	events := follow(ctx, a)
	first := receive(t, events, "the view")
	require.Equal(t, shard.EventView, first.Kind)
	require.Empty(t, first.View.Members, "before Start there are none")
	require.Equal(t, "a", first.View.Self.Name)

	require.NoError(t, a.Start(testContext(t)))
	b := c.start("b")
	seen := await(t, events, shard.EventUp, "b")
	late := follow(ctx, a)
	view := receive(t, late, "the view")
	require.Equal(t, shard.EventView, view.Kind)
	require.Len(t, view.View.Members, 2, "who comes late begins with what there is")

	require.NoError(t, b.Shutdown(testContext(t)))
	seen = append(seen, await(t, events, shard.EventRemoved, "b")...)
	var about []string
	members := map[transport.Address]shard.MemberStatus{}
	for _, e := range seen {
		require.NotZero(t, e.Time)
		if e.Member.Name == "b" && e.Kind != shard.EventExiting { // a member may pass through this status unseen
			about = append(about, e.Kind.String())
		}
		switch e.Kind {
		case shard.EventJoined, shard.EventUp, shard.EventLeaving, shard.EventExiting:
			members[e.Member.Address] = e.Member.Status
		case shard.EventRemoved:
			delete(members, e.Member.Address)
		}
	}
	require.Equal(t, []string{"joined", "up", "leaving", "removed"}, about)
	now := a.Cluster()
	require.Equal(t, shard.MemberUp, now.Status)
	require.Len(t, now.Members, len(members))
	for _, m := range now.Members {
		require.Equal(t, m.Status, members[m.Address])
	}
	me, ok := now.Member(a.Peer().Address)
	require.True(t, ok)
	require.Equal(t, []string{"Account"}, me.Hosts)
	require.Equal(t, a.Peer().Address, now.Leader)

	cancel()
	for range events { // until it is closed
	}
	again := follow(context.Background(), a)
	require.Equal(t, shard.EventView, receive(t, again, "the view").Kind)
	require.NoError(t, a.Close())
	for range again { // a node that has stopped ends it
	}
	require.Equal(t, shard.MemberUp, a.Cluster().Status, "what it saw last")
}

// TestRolesBeforeUp: the first members become Up only when there are enough members with a required
// role.
func TestRolesBeforeUp(t *testing.T) {
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.Membership.MinRoleMembers = map[string]int{"gpu": 1} }
	a, b := c.add("a"), c.add("b")
	started := make(chan error, 2)
	for _, n := range []*shard.Node{a, b} {
		go func() { started <- n.Start(testContext(t)) }()
	}
	events := follow(testContext(t), a)
	await(t, events, shard.EventJoined, "b")
	c.tune = func(cfg *shard.Config) { cfg.Roles = []string{"gpu"} }
	c.start("g")
	for range 2 {
		require.NoError(t, receive(t, started, "a and b are up"))
	}
	seen := await(t, events, shard.EventUp, "g")
	joined := slices.IndexFunc(seen, func(e shard.ClusterEvent) bool { return e.Kind == shard.EventJoined && e.Member.Name == "g" })
	for _, e := range seen { // events of one step have one time
		require.False(t, e.Kind == shard.EventUp && e.Time.Before(seen[joined].Time), "%v before g was there", e)
	}
	g, ok := a.Cluster().Member(c.nodes["g"].Peer().Address)
	require.True(t, ok)
	require.Equal(t, []string{"gpu"}, g.Roles)
}
