package control

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// TestCoordinatorIsAMember: a joining process does not follow the coordinator of a cluster that has
// not admitted it, nor any coordinator before it knows members. A member ignores a downed one.
func TestCoordinatorIsAMember(t *testing.T) {
	self, member := transport.Address{Name: "a", Incarnation: 1}, transport.Address{Name: "b", Incarnation: 1}
	before := transport.Address{Name: "b", Incarnation: 2}
	m := &Member{}
	m.follower.m = m
	require.False(t, m.follower.heeds(transport.Peer{Address: member}))
	view := &membership.View{Self: self}
	for _, a := range []transport.Address{self, member} {
		view.ByAddress = append(view.ByAddress, membership.MemberView{Member: membership.Member{Address: a}})
	}
	m.members.view.Store(view)
	require.True(t, m.follower.heeds(transport.Peer{Address: self}))
	require.True(t, m.follower.heeds(transport.Peer{Address: member}))
	require.False(t, m.follower.heeds(transport.Peer{Address: before}))
	require.False(t, m.follower.heeds(transport.Peer{Address: member, Client: true}))
	view.ByAddress[1].Status = membership.Down
	require.False(t, m.follower.heeds(transport.Peer{Address: member}), "a downed coordinator may go on after a pause")
}

// TestHomesAreAskedOfTheCoordinator: a process sends its questions to the member that it last heard
// as coordinator, while that is a member and may still run the coordinator. Otherwise it asks the
// oldest member, which runs the coordinator or soon will.
func TestHomesAreAskedOfTheCoordinator(t *testing.T) {
	oldest, heard := transport.Address{Name: "b", Incarnation: 1}, transport.Address{Name: "d", Incarnation: 1}
	for name, c := range map[string]struct {
		hears  bool
		status membership.Status // of the coordinator; none: it is no member
		want   transport.Address
	}{
		"none was heard":  {false, membership.Up, oldest},
		"it is up":        {true, membership.Up, heard},
		"it leaves":       {true, membership.Leaving, heard},
		"it exits":        {true, membership.Exiting, oldest},
		"it is down":      {true, membership.Down, oldest},
		"it is no member": {true, membership.NoStatus, oldest},
	} {
		m, env, machine := newTestMember(t)
		for i, a := range []membership.Member{
			{Address: self, Status: membership.Up}, {Address: oldest, Status: membership.Up}, {Address: heard, Status: c.status},
		} {
			if a.Status != membership.NoStatus {
				a.UpNumber = []uint32{2, 1, 3}[i]
				machine.view.ByAddress = append(machine.view.ByAddress, membership.MemberView{Member: a})
			}
		}
		machine.view.ByAge = machine.view.ByAddress
		m.seat.managed(&machine.view)
		env.sent = nil
		if c.hears {
			m.follower.core.Step(env.now, heard, coordinator.TableStatus{Version: placement.Version{Term: placement.Term{Number: 1, Incarnation: 1}}})
		}
		require.Equal(t, c.want, m.follower.coordinator(), name)
	}
	m, _, _ := newTestMember(t)
	m.members.view.Store(nil)
	require.Zero(t, m.follower.coordinator(), "before any member is known")
}

// TestShardsAreDescribed: a member that is asked for its shards, of one type or of all types,
// answers the asking process even without a coordinator. It also answers if it has no shards,
// because an operator's question waits for every member.
func TestShardsAreDescribed(t *testing.T) {
	k := coordinator.InspectedShard{ShardID: placement.ShardID{Kind: "K", Shard: 1}, State: coordinator.Active, Entities: 7, Active: 5, Waiting: 2}
	l := coordinator.InspectedShard{ShardID: placement.ShardID{Kind: "L", Shard: 2}, State: coordinator.Prepared}
	asker := transport.Peer{Address: transport.Address{Name: "b", Incarnation: 1}}
	for kind, want := range map[string][]coordinator.InspectedShard{"K": {k}, "": {k, l}, "M": nil} {
		m, env, _ := newTestMember(t)
		env.hosted = []coordinator.InspectedShard{k, l}
		m.follower.message(asker, coordinator.Inspect{ID: 19, Type: kind})
		require.Equal(t, []transport.Peer{asker}, env.sentTo, kind)
		require.Equal(t, []coordinator.Message{coordinator.Inspected{ID: 19, Shards: want}}, env.placements(t), kind)
	}
}
