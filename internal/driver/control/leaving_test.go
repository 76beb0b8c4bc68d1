package control

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// host returns a member that has the given status and hosts a type.
func host(name string, s membership.Status) membership.MemberView {
	return membership.MemberView{Member: membership.Member{
		Address: transport.Address{Name: name, Incarnation: 1}, Status: s, UpNumber: 2,
		Meta: []membership.KeyValue{{Key: hostmeta.EntityKey("K"), Value: "2 xxh64 p"}},
	}, Reachable: true}
}

// TestLeavingMemberWaitsForHosts: a leaving member waits for hosts that are Up or soon will be,
// because they can take its shards.
func TestLeavingMemberWaitsForHosts(t *testing.T) {
	for s, waits := range map[membership.Status]bool{
		membership.Joining: true, membership.WeaklyUp: true, membership.Up: true,
		membership.Leaving: false, membership.Exiting: false, membership.Down: false,
	} {
		m, env, machine := newTestMember(t)
		env.holds = true
		machine.view.SelfStatus = membership.Leaving
		machine.view.ByAge = []membership.MemberView{host("b", s)}
		m.checkLeaving()
		require.Equal(t, !waits, env.exiting, "the other is %v", s)
	}
}

// TestOrdersAreHandedDown: a member that runs the coordinator leaves only when the remaining
// members know the operator's orders, here a pause of rebalancing.
func TestOrdersAreHandedDown(t *testing.T) {
	m, env, machine := newTestMember(t)
	b := host("b", membership.Up)
	machine.view.ByAge = []membership.MemberView{{Member: membership.Member{Address: self, Status: membership.Up, UpNumber: 1}, Reachable: true}, b}
	machine.view.ByAddress, machine.view.Converged = machine.view.ByAge, true
	term := placement.Term{Number: 1, Incarnation: self.Incarnation}
	core, err := coordinator.New(coordinator.Config{Self: self, Term: term})
	require.NoError(t, err)
	m.seat.core = core
	from := func(msg coordinator.Message) { m.seat.step(coordinator.Receive{From: b.Address, Message: msg}) }
	m.seat.step(placementView(&machine.view))
	from(coordinator.Register{Term: term, Node: b.Address, Seq: 1})
	require.True(t, core.HandedDown())
	from(coordinator.Balance{ID: 1, Want: coordinator.WantPause, By: "ann"})

	machine.view.SelfStatus, machine.view.ByAge[0].Status = membership.Leaving, membership.Leaving
	m.checkLeaving()
	require.False(t, env.exiting, "b does not keep the pause")
	from(coordinator.PauseKept{Term: term, Seq: core.Pause().Seq})
	require.True(t, env.exiting)
}
