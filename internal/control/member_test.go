package control

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/coordinator"
	"github.com/shardgen/shardgen/internal/hostmeta"
	"github.com/shardgen/shardgen/internal/operator"
	"github.com/shardgen/shardgen/internal/singlehost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

var (
	self     = transport.Address{Name: "a", Incarnation: 2}
	operates = transport.Peer{Address: transport.Address{Name: "op", Incarnation: 1}, Client: true}
)

// A fakeEnv is the process of a Member that a test drives. It has what these tests need.
type fakeEnv struct {
	Env
	now     time.Time
	exiting bool
	holds   bool
	sent    [][]byte
}

func (v *fakeEnv) Now() time.Time                  { return v.now }
func (v *fakeEnv) Link() Link                      { return fakeLink{env: v} }
func (v *fakeEnv) Log(Level, string, ...any)       {}
func (v *fakeEnv) Count(Event) (uint64, bool)      { return 1, false }
func (v *fakeEnv) SetExiting(on bool)              { v.exiting = on }
func (v *fakeEnv) HoldsShards() bool               { return v.holds }
func (v *fakeEnv) Post(func())                     {}
func (v *fakeEnv) After(_ time.Duration, f func()) { f() }

type fakeLink struct {
	Link
	env *fakeEnv
}

func (l fakeLink) MaxPayload() int { return 1 << 20 }

func (l fakeLink) Send(_ transport.Channel, _ transport.Peer, _ uint64, payload []byte) error {
	l.env.sent = append(l.env.sent, payload)
	return nil
}

// A fakeMachine is a membership that shows one view and notes what it is given.
type fakeMachine struct {
	view  membership.View
	steps []membership.Input
}

func (m *fakeMachine) Step(_ time.Time, in membership.Input) membership.Output {
	m.steps = append(m.steps, in)
	return membership.Output{}
}

func (m *fakeMachine) View() *membership.View { return &m.view }

func newTestMember(t *testing.T) (*Member, *fakeEnv, *fakeMachine) {
	t.Helper()
	env := &fakeEnv{now: time.Unix(1_000_000, 0)}
	machine := &fakeMachine{view: membership.View{Self: self, SelfStatus: membership.Up}}
	m := New(Config{Cluster: "c", Self: transport.Peer{Address: self}, Lanes: 1}, env)
	require.NoError(t, m.Prepare(Setup{
		Members: func([]string) (Machine, error) { return machine, nil },
		Singletons: func(p singlehost.Process) (*singlehost.Set, error) {
			return singlehost.NewSet(p, "c", transport.Peer{Address: self}, slog.New(slog.DiscardHandler)), nil
		},
	}))
	m.members.view.Store(&machine.view)
	return m, env, machine
}

// TestLeavingMemberTakesNothing: a member that leaves takes no shard from the moment on at which
// the cluster may remove it, also where no other could take its own.
func TestLeavingMemberTakesNothing(t *testing.T) {
	m, env, machine := newTestMember(t)
	machine.view.SelfStatus = membership.Leaving
	m.leaving.check()
	require.True(t, env.exiting)
	require.Contains(t, machine.steps, membership.Input(membership.ExitReady{}))
}

// TestMemberThatHoldsShardsStays: while another member could take the shards of one that
// leaves, it does not exit before it has given them away.
func TestMemberThatHoldsShardsStays(t *testing.T) {
	m, env, machine := newTestMember(t)
	machine.view.SelfStatus = membership.Leaving
	machine.view.ByAge = []membership.MemberView{{Member: membership.Member{
		Address: transport.Address{Name: "b", Incarnation: 1}, Status: membership.Up,
		Meta: []membership.KeyValue{{Key: hostmeta.EntityKey("K"), Value: "2 xxh64 p"}},
	}}}
	require.True(t, m.leaving.otherHosts(&machine.view))
	env.holds = true
	m.leaving.check()
	require.False(t, env.exiting)
	require.NotContains(t, machine.steps, membership.Input(membership.ExitReady{}))
}

// TestBroadcastCommandIsForOneMember: of a broadcast, a member obeys what is for its own address,
// and the command to join under its name, whatever its incarnation; nothing for others.
func TestBroadcastCommandIsForOneMember(t *testing.T) {
	other := transport.Address{Name: "b", Incarnation: 2}
	earlier := transport.Address{Name: self.Name, Incarnation: 1}
	for name, c := range map[string]struct {
		request operator.Request
		answers bool
	}{
		"join of this process":             {operator.Request{Command: operator.Join, Node: self}, true},
		"join of this name":                {operator.Request{Command: operator.Join, Node: earlier}, true},
		"join of another":                  {operator.Request{Command: operator.Join, Node: other}, false},
		"members, of another":              {operator.Request{Command: operator.Members, Node: other}, false},
		"members, of an earlier process":   {operator.Request{Command: operator.Members, Node: earlier}, false},
		"all members are asked for theirs": {operator.Request{Command: operator.RollCall}, true},
	} {
		m, env, _ := newTestMember(t)
		m.members.joining = true
		body, err := operator.Encode(7, &c.request, nil)
		require.NoError(t, err)
		require.NoError(t, m.operators.message(transport.Broadcast, operates, body))
		require.Equal(t, c.answers, len(env.sent) > 0, name)
		if len(env.sent) > 0 {
			_, topic, answer, err := wire.OpenControl("c", env.sent[0])
			require.NoError(t, err)
			require.Equal(t, wire.ControlTopic_CONTROL_TOPIC_ADMIN, topic)
			id, _, a, err := operator.Decode(answer)
			require.NoError(t, err)
			require.Equal(t, uint64(7), id)
			require.Empty(t, a.Refusal, name)
		}
	}
}

// TestSingletonSaysWhyItIsNowhere: calls that wait for a singleton get the reason that its part
// of the control plane gives.
func TestSingletonSaysWhyItIsNowhere(t *testing.T) {
	m, env, _ := newTestMember(t)
	singletons{m}.SetWhy("K", "no member hosts it")
	require.Equal(t, "no member hosts it", m.Reasons().Lately("K", env.now))
}

// TestOpenShardIsReportedUntilTheTableShowsIt: the coordinator hears of a shard that runs here, at
// once and again, until its table has the epoch.
func TestOpenShardIsReportedUntilTheTableShowsIt(t *testing.T) {
	m, env, machine := newTestMember(t)
	at := transport.Address{Name: "b", Incarnation: 1}
	machine.view.ByAddress = []membership.MemberView{{Member: membership.Member{Address: at, Status: membership.Up}}}
	term := placement.Term{Number: 1, Incarnation: 1}
	m.follower.core.Step(env.now, at, coordinator.TableStatus{Version: placement.Version{Term: term}})
	require.Equal(t, at, m.follower.coordinator())
	reported := func() (all []coordinator.Message) {
		for _, b := range env.sent {
			_, topic, body, err := wire.OpenControl("c", b)
			require.NoError(t, err)
			require.Equal(t, wire.ControlTopic_CONTROL_TOPIC_COORDINATOR, topic)
			msg, err := coordinator.Decode(body)
			require.NoError(t, err)
			all = append(all, msg)
		}
		env.sent = nil
		return all
	}
	id, epoch := placement.ShardID{Kind: "K", Shard: 2}, placement.MakeEpoch(1, 3)
	done := []coordinator.Message{coordinator.MoveDone{Term: term, ShardID: id, Epoch: epoch}}
	m.reports.opened(id, epoch)
	require.Equal(t, done, reported())
	m.reports.resend(env.now.Add(ResendEvery - 1))
	require.Empty(t, reported(), "before it is due")
	m.reports.resend(env.now.Add(ResendEvery))
	require.Equal(t, done, reported(), "while the table does not show it")
	var old placement.Table
	shows, err := old.Apply(placement.Diff{
		Full: true, To: placement.Version{Term: term, Seq: 1},
		Entries: []placement.Entry{{ShardID: id, Owner: self, Epoch: epoch}},
	})
	require.NoError(t, err)
	m.reports.tableChanged(shows)
	m.reports.resend(env.now.Add(time.Hour))
	require.Empty(t, reported(), "when the table shows it")
}
