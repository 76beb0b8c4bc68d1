package control

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// TestCoordinatorIsAMember: a process that joins does not follow the coordinator of a cluster
// that it was not let into, nor one before it knows any member.
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
}
