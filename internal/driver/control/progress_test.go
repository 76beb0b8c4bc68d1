package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// TestProgressIsRegistered: while a new coordinator knows only what members register, a member
// registers again whenever one of its shards has made progress in a move. It does not register
// again before it has heard of a coordinator, nor when the coordinator has a table.
func TestProgressIsRegistered(t *testing.T) {
	m, env, machine := newTestMember(t)
	m.follower.core = coordinator.NewFollower(true)
	b := transport.Peer{Address: transport.Address{Name: "b", Incarnation: 1}}
	machine.view.ByAddress = []membership.MemberView{{Member: membership.Member{Address: b.Address, Status: membership.Up}}}
	registered := func() (seqs []uint64) {
		for _, msg := range env.placements(t) {
			if r, ok := msg.(coordinator.Register); ok {
				seqs = append(seqs, r.Seq)
			}
		}
		return seqs
	}
	m.follower.progressed()
	require.Empty(t, registered(), "no coordinator is known")
	term := placement.Term{Number: 1, Incarnation: 1}
	m.follower.message(b, coordinator.TableStatus{Version: placement.Version{Term: term}})
	require.Equal(t, []uint64{1}, registered())
	m.follower.progressed()
	require.Equal(t, []uint64{2}, registered(), "a shard got further")
	m.follower.message(b, coordinator.Registered{Term: term, Seq: 2})
	m.follower.message(b, coordinator.Table{Diff: placement.Diff{Full: true, To: placement.Version{Term: term, Seq: 1}}, Parts: 1})
	require.False(t, m.follower.core.Unsettled())
	m.follower.progressed()
	require.Empty(t, registered(), "the coordinator has a table")
}

// A fakeShard gives the same answer to every order.
type fakeShard struct {
	Shard
	answer  coordinator.Message
	cancels bool // it cancels moves
}

func (s fakeShard) CancelMove(placement.Epoch) bool { return s.cancels }

func (s fakeShard) Obey(coordinator.Message, placement.Term) coordinator.Message { return s.answer }

// TestCancelIsAnswered: a member without the shard answers that the move is cancelled. A member
// with the shard lets the shard answer that the move is done, or not answer yet.
func TestCancelIsAnswered(t *testing.T) {
	term, b := placement.Term{Number: 1, Incarnation: 1}, transport.Address{Name: "b", Incarnation: 1}
	id, epoch := placement.ShardID{Kind: "K", Shard: 2}, placement.MakeEpoch(1, 3)
	done := coordinator.MoveDone{Term: term, ShardID: id, Epoch: epoch}
	for name, c := range map[string]struct {
		shard Shard
		want  []coordinator.Message
	}{
		"no such shard":           {nil, []coordinator.Message{coordinator.MoveCancelled{Term: term, ShardID: id, Epoch: epoch}}},
		"the shard has an answer": {fakeShard{answer: done}, []coordinator.Message{done}},
		"the shard has none":      {fakeShard{}, nil},
	} {
		m, env, machine := newTestMember(t)
		machine.view.ByAddress = []membership.MemberView{{Member: membership.Member{Address: b, Status: membership.Up}}}
		env.shard = c.shard
		m.follower.message(transport.Peer{Address: b}, coordinator.MoveCancel{Term: term, ShardID: id, Epoch: epoch})
		require.Equal(t, c.want, env.placements(t), name)
	}
}

// TestAllReportsAreSentAgain: all reports of a member are sent again until the table shows their
// effect: open shards, given-up moves, and types that calls wait for.
func TestAllReportsAreSentAgain(t *testing.T) {
	b, term := transport.Address{Name: "b", Incarnation: 1}, placement.Term{Number: 1, Incarnation: 1}
	one, two, epoch := placement.ShardID{Kind: "K", Shard: 1}, placement.ShardID{Kind: "K", Shard: 2}, placement.MakeEpoch(1, 3)
	opened := coordinator.MoveDone{Term: term, ShardID: one, Epoch: epoch}
	aborted := coordinator.MoveAborted{Term: term, ShardID: two, Epoch: epoch, Reason: "a turn"}
	ask := coordinator.Ask{Type: "L"}
	for _, want := range [][]coordinator.Message{
		{opened}, {aborted}, {ask}, {opened, aborted}, {opened, ask}, {aborted, ask}, {opened, aborted, ask},
	} {
		m, env, machine := newTestMember(t)
		machine.view.ByAddress = []membership.MemberView{{Member: membership.Member{Address: b, Status: membership.Up}}}
		m.follower.core.Step(env.now, b, coordinator.TableStatus{Version: placement.Version{Term: term}})
		env.shard, env.waiting = fakeShard{cancels: true}, 1
		for _, msg := range want {
			switch msg := msg.(type) {
			case coordinator.MoveDone:
				m.reports.opened(msg.ShardID, msg.Epoch)
			case coordinator.MoveAborted:
				m.reports.abort(msg.ShardID, msg.Epoch, msg.Reason)
			case coordinator.Ask:
				m.reports.ask(msg.Type)
			}
		}
		require.Equal(t, want, env.placements(t))
		for range 2 {
			env.now = env.now.Add(ResendEvery)
			m.reports.resend(env.now)
			require.Equal(t, want, env.placements(t), "sent again")
		}
	}
}

// TestHomesAreAskedForUntilNobodyWaits: a member repeats its question for homes of a type while
// calls wait for them, even if a table shows no homes. It stops at the first table after which no
// call waits.
func TestHomesAreAskedForUntilNobodyWaits(t *testing.T) {
	m, env, machine := newTestMember(t)
	b, term := transport.Address{Name: "b", Incarnation: 1}, placement.Term{Number: 1, Incarnation: 1}
	machine.view.ByAddress = []membership.MemberView{{Member: membership.Member{Address: b, Status: membership.Up}}}
	m.follower.core.Step(env.now, b, coordinator.TableStatus{Version: placement.Version{Term: term}})
	ask := []coordinator.Message{coordinator.Ask{Type: "K"}}
	env.waiting = 1
	m.reports.ask("K")
	require.Equal(t, ask, env.placements(t))
	for range 2 {
		m.reports.tableChanged(nil)
		env.now = env.now.Add(ResendEvery)
		m.reports.resend(env.now)
		require.Equal(t, ask, env.placements(t), "calls wait")
	}
	env.waiting = 0
	m.reports.tableChanged(nil)
	require.Zero(t, m.reports.wakeAt(), "nothing is to be sent")
	m.reports.resend(env.now.Add(time.Hour))
	require.Empty(t, env.placements(t), "no call waits")
}

// TestNewCoordinatorIsToldAtOnce: a member sends its reports to a new coordinator at once, because
// the former one may have lost them. Further messages of the same coordinator do not make the
// member send reports more often.
func TestNewCoordinatorIsToldAtOnce(t *testing.T) {
	m, env, machine := newTestMember(t)
	b, d := transport.Address{Name: "b", Incarnation: 1}, transport.Address{Name: "d", Incarnation: 1}
	for _, a := range []transport.Address{b, d} {
		machine.view.ByAddress = append(machine.view.ByAddress, membership.MemberView{Member: membership.Member{Address: a, Status: membership.Up}})
	}
	hear := func(a transport.Address, term uint32) {
		m.follower.message(transport.Peer{Address: a}, coordinator.TableStatus{
			Version: placement.Version{Term: placement.Term{Number: term, Incarnation: 1}},
		})
	}
	hear(b, 1)
	m.reports.resend(env.now)
	m.reports.opened(placement.ShardID{Kind: "K", Shard: 2}, placement.MakeEpoch(1, 3))
	due := env.now.Add(ResendEvery)
	env.now = env.now.Add(time.Millisecond)
	hear(b, 1)
	require.Equal(t, due, m.reports.wakeAt())
	hear(d, 2)
	require.Equal(t, env.now, m.reports.wakeAt())
}
