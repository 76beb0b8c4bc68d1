package control

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/coordinator"
	"github.com/shardgen/shardgen/internal/singleton"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// TestDownMemberKeepsItsShards: a member that is Down counts as unreachable, not as gone, while it
// may still run. One that is Up counts as it is.
func TestDownMemberKeepsItsShards(t *testing.T) {
	of := func(name string, s membership.Status, fenced bool) membership.MemberView {
		return membership.MemberView{Reachable: true, Member: membership.Member{
			Address: transport.Address{Name: name, Incarnation: 1}, Status: s, Fenced: fenced,
		}}
	}
	down, left, up := of("a", membership.Down, false), of("b", membership.Down, true), of("c", membership.Up, false)
	got := placementView(&membership.View{Converged: true, ByAge: []membership.MemberView{down, left, up}})
	require.Equal(t, coordinator.View{Converged: true, Members: []coordinator.Member{
		{Address: down.Address, Status: singleton.Up, Unreachable: true},
		{Address: left.Address, Status: singleton.Down},
		{Address: up.Address, Status: singleton.Up},
	}}, got)
}
