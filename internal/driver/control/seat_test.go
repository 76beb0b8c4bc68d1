package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// TestDownMemberKeepsItsShards: to the coordinator, a Down member counts as unreachable, not as
// gone, while it may still run. An Up member counts as Up.
func TestDownMemberKeepsItsShards(t *testing.T) {
	of := func(name string, s membership.Status, fenced bool) membership.MemberView {
		return membership.MemberView{Reachable: true, Member: membership.Member{
			Address: transport.Address{Name: name, Incarnation: 1}, Status: s, Fenced: fenced,
		}}
	}
	down, left, up := of("a", membership.Down, false), of("b", membership.Down, true), of("c", membership.Up, false)
	got := placementView(&membership.View{Converged: true, ByAge: []membership.MemberView{down, left, up}})
	require.Equal(t, coordinator.View{Converged: true, Members: []coordinator.Member{
		{Address: down.Address, Status: membership.Up, Unreachable: true},
		{Address: left.Address, Status: membership.Down},
		{Address: up.Address, Status: membership.Up},
	}}, got)
}

// runsCoordinator returns a cluster's only member, which runs the coordinator under term 1, and the
// member's process.
func runsCoordinator(t *testing.T) (*Member, *fakeEnv) {
	t.Helper()
	m, env, machine := newTestMember(t)
	machine.view.ByAge = []membership.MemberView{{Member: membership.Member{Address: self, Status: membership.Up, UpNumber: 1}, Reachable: true}}
	machine.view.ByAddress = machine.view.ByAge
	m.viewChanged()
	require.NotNil(t, m.Coordinator())
	require.EqualValues(t, 1, env.term)
	return m, env
}

// TestCoordinatorIsSteppedWhenItIsDue: the coordinator is stepped only when it is due itself,
// however often other parts of the member are due, because each step looks at all moves. The store
// is read every termEvery.
func TestCoordinatorIsSteppedWhenItIsDue(t *testing.T) {
	m, env := runsCoordinator(t)
	env.steps = 0
	for range 1000 {
		env.now = env.now.Add(10 * time.Millisecond)
		due := !env.now.Before(m.seat.coreAt)
		before := env.steps
		m.seat.tick(env.now)
		require.Equal(t, due, env.steps > before)
	}
	require.Equal(t, 10, env.steps, "a status each second")
	require.Equal(t, int(10*time.Second/termEvery), env.reads)
}

// TestCoordinatorBehindTheStoreBeginsAnew: a coordinator begins again under a term above the
// store's if the store's last term was above its own in termTries checks in a row. Otherwise it
// goes on.
func TestCoordinatorBehindTheStoreBeginsAnew(t *testing.T) {
	m, env := runsCoordinator(t)
	first := m.Coordinator()
	pass := func(d time.Duration) {
		for end := env.now.Add(d); env.now.Before(end); {
			env.now = env.now.Add(100 * time.Millisecond)
			m.seat.tick(env.now)
		}
	}
	pass(time.Minute)
	env.stored = 9
	pass((termTries - 1) * termEvery)
	env.stored = 1
	pass(termEvery)
	env.stored = 9
	pass(termTries*termEvery - 100*time.Millisecond)
	require.Same(t, first, m.Coordinator())
	pass(100 * time.Millisecond)
	require.NotSame(t, first, m.Coordinator())
	require.EqualValues(t, 10, env.term)
	pass(time.Minute)
	require.EqualValues(t, 10, env.term)
}

// TestShardsOfAnotherClusterAreClaimedAgain: a coordinator that begins above terms that this
// process has not heard of gives the shards new epochs at their homes. A coordinator that succeeds
// the last one keeps the shards' epochs.
func TestShardsOfAnotherClusterAreClaimedAgain(t *testing.T) {
	id := placement.ShardID{Kind: "Cart", Shard: 1}
	for _, foreign := range []bool{false, true} {
		m, env := runsCoordinator(t)
		home := func(epoch placement.Epoch) placement.Epoch {
			term := placement.Term{Number: m.seat.term, Incarnation: self.Incarnation}
			m.seat.step(coordinator.Receive{From: self, Message: coordinator.Register{
				Term: term, Node: self, Seq: 1, Types: []coordinator.TypeInfo{{Name: "Cart", Shards: 1, Hosts: true}},
				Shards: []coordinator.HeldShard{{ShardID: id, State: coordinator.Active, Epoch: epoch}},
			}})
			m.follower.step(self, coordinator.TableStatus{Version: placement.Version{Term: term}})
			e, _ := m.Coordinator().Table().Lookup(id)
			return e.Epoch
		}
		first := placement.MakeEpoch(1, 1)
		require.Equal(t, first, home(first))
		if foreign {
			env.stored = 2
		}
		m.seat.stop()
		m.seat.start()
		if got := home(first); foreign {
			require.Greater(t, got, placement.MakeEpoch(3, 0))
		} else {
			require.Equal(t, first, got)
		}
	}
}

// TestCoordinatorIsAskedForUntilItIsHandedOver: a member that has become the oldest repeatedly asks
// the leaving member for the coordinator, and starts the coordinator when the leaving member has
// stopped it.
func TestCoordinatorIsAskedForUntilItIsHandedOver(t *testing.T) {
	m, env, machine := newTestMember(t)
	machine.view.ByAge = []membership.MemberView{
		{Member: membership.Member{Address: other, Status: membership.Exiting, UpNumber: 1}, Reachable: true},
		{Member: membership.Member{Address: self, Status: membership.Up, UpNumber: 2}, Reachable: true},
	}
	machine.view.ByAddress = []membership.MemberView{machine.view.ByAge[1], machine.view.ByAge[0]}
	asked := func() (n int) {
		for _, b := range env.sent {
			_, topic, body, err := wire.OpenControl("c", b)
			require.NoError(t, err)
			require.Equal(t, wire.ControlTopic_CONTROL_TOPIC_SINGLETON, topic)
			msg, err := singleton.Decode(body)
			require.NoError(t, err)
			require.Equal(t, singleton.Message{Name: coordinatorSingleton, Type: singleton.HandOverToMe}, msg)
			n++
		}
		env.sent = nil
		return n
	}
	m.viewChanged()
	require.Equal(t, 1, asked())
	for range 3 {
		env.now = m.seat.managerAt
		m.seat.tick(env.now)
		require.Equal(t, 1, asked(), "it has not answered")
	}
	m.seat.stepManager(singleton.Receive{From: other, Message: singleton.Message{Name: coordinatorSingleton, Type: singleton.HandOverDone}})
	require.NotNil(t, m.Coordinator())
}
