package control

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

var (
	self     = transport.Address{Name: "a", Incarnation: 2}
	operates = transport.Peer{Address: transport.Address{Name: "op", Incarnation: identity.Mark(identity.Operator, 1)}, Client: true}
	looks    = transport.Peer{Address: transport.Address{Name: "op", Incarnation: identity.Mark(identity.Reader, 1)}, Client: true}
)

// A fakeEnv is an Env with what these tests need.
type fakeEnv struct {
	Env
	now     time.Time
	exiting bool
	holds   bool
	sent    [][]byte
	sentTo  []transport.Peer
	counted []Counter
	logged  []string // levels and texts of log lines
	lines   []string // log lines at Info and above: texts with all attributes
	left    []transport.Address
	gone    []transport.Address
	probes  int
	shard   Shard
	ordered int                 // how often an operator ordered the process to leave
	stated  []*operator.Request // operators' requests about entities
	fails   error               // the error of Send
	waiting int                 // number of waiting calls of each type
	term    uint32              // the coordinator's last term
	stored  uint32              // the last term in the store
	reads   int                 // how often stored was read
	steps   int                 // number of the coordinator's steps: each asks whether the lease is valid
	hosted  []coordinator.InspectedShard

	table []func() // answers to requests to the membership table

	published int // number of changes published to the user
}

func (v *fakeEnv) AskServer(membership.Question, []byte, func(membership.Asked)) {}
func (v *fakeEnv) ReadTable(r membership.TableRead, answer func(membership.TableRows)) {
	v.table = append(v.table, func() { answer(membership.TableRows{Number: r.Number}) })
}

func (v *fakeEnv) WriteTable(r membership.TableWrite, answer func(membership.TableWritten)) {
	v.table = append(v.table, func() { answer(membership.TableWritten{Number: r.Number, Conflict: true}) })
}

func (v *fakeEnv) WriteAlive(r membership.TableAlive, answer func(membership.TableWritten)) {
	v.table = append(v.table, func() { answer(membership.TableWritten{Number: r.Number, Done: true}) })
}

func (v *fakeEnv) Count(e Counter) (uint64, bool) {
	v.counted = append(v.counted, e)
	return 1, false
}

func (v *fakeEnv) CountOf(e Counter, _ string) (uint64, bool) { return v.Count(e) }

func (v *fakeEnv) Log(l Level, text string, args ...any) {
	v.logged = append(v.logged, fmt.Sprint(int(l), " ", text))
	if l >= Info {
		v.lines = append(v.lines, fmt.Sprint(text, " ", fmt.Sprintln(args...)))
	}
}

func (v *fakeEnv) Operate(r *operator.Request, answer func(operator.Answer)) {
	v.stated = append(v.stated, r)
	answer(operator.Answer{})
}

func (v *fakeEnv) Publish(*membership.View, []membership.Event) { v.published++ }

func (v *fakeEnv) LogSeldom(l Level, text, _ string, args ...any) { v.Log(l, text, args...) }

func (v *fakeEnv) Now() time.Time                  { return v.now }
func (v *fakeEnv) Link() Link                      { return fakeLink{env: v} }
func (v *fakeEnv) Shard(placement.ShardID) Shard   { return v.shard }
func (v *fakeEnv) PeerLeft(a transport.Address)    { v.left = append(v.left, a) }
func (v *fakeEnv) PeerGone(a transport.Address)    { v.gone = append(v.gone, a) }
func (v *fakeEnv) LeaveByOrder()                   { v.ordered++ }
func (v *fakeEnv) Up()                             {}
func (v *fakeEnv) Serve(bool, func())              {}
func (v *fakeEnv) SetExiting(on bool)              { v.exiting = on }
func (v *fakeEnv) HoldsShards() bool               { return v.holds }
func (v *fakeEnv) Homes() []transport.Address      { return nil }
func (v *fakeEnv) Post(func())                     {}
func (v *fakeEnv) RememberView(*membership.View)   {}
func (v *fakeEnv) After(_ time.Duration, f func()) { f() }

func (v *fakeEnv) Inventory() ([]coordinator.TypeInfo, []coordinator.HeldShard) { return nil, nil }
func (v *fakeEnv) SetTable(*placement.Table)                                    {}
func (v *fakeEnv) Unasked(bool) []string                                        { return nil }
func (v *fakeEnv) Waiting(string) int                                           { return v.waiting }

func (v *fakeEnv) InspectShards(kind string) []coordinator.InspectedShard {
	return slices.DeleteFunc(slices.Clone(v.hosted), func(s coordinator.InspectedShard) bool { return kind != "" && s.Kind != kind })
}

func (v *fakeEnv) LeaseValid() bool {
	v.steps++
	return true
}

func (v *fakeEnv) TakeTerm(atLeast uint32, take func(uint32, uint32)) {
	before := max(v.term, v.stored)
	v.term = max(before+1, atLeast)
	take(v.term, before)
}

func (v *fakeEnv) LastTerm(take func(uint32)) {
	v.reads++
	take(v.stored)
}

// placements returns the messages of the coordinator's protocol that were sent since placements was
// last called.
func (v *fakeEnv) placements(t *testing.T) (all []coordinator.Message) {
	t.Helper()
	for _, b := range v.sent {
		_, topic, body, err := wire.OpenControl("c", b)
		require.NoError(t, err)
		require.Equal(t, wire.ControlTopic_CONTROL_TOPIC_COORDINATOR, topic)
		msg, err := coordinator.Decode(body)
		require.NoError(t, err)
		all = append(all, msg)
	}
	v.sent = nil
	return all
}

type fakeLink struct {
	Link
	env *fakeEnv
}

func (l fakeLink) MaxPayload() int { return 1 << 20 }

func (l fakeLink) Broadcast([]byte) error { return nil }

func (l fakeLink) Anycast(uint64, []byte) error {
	l.env.probes++
	return l.env.fails
}

func (l fakeLink) Send(_ transport.Channel, to transport.Peer, _ uint64, payload []byte) error {
	if l.env.fails != nil {
		return l.env.fails
	}
	l.env.sent, l.env.sentTo = append(l.env.sent, payload), append(l.env.sentTo, to)
	return nil
}

// A fakeMachine is a membership that shows one view and records its inputs.
type fakeMachine struct {
	view  membership.View
	steps []membership.Input
	out   membership.Output // output of every step
}

func (m *fakeMachine) Step(_ time.Time, in membership.Input) membership.Output {
	m.steps = append(m.steps, in)
	return m.out
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
			return singlehost.NewSet(p, "c", transport.Peer{Address: self}), nil
		},
	}))
	m.members.view.Store(&machine.view)
	return m, env, machine
}

// TestLeavingMemberTakesNothing: a leaving member takes no more shards once the cluster may remove
// it, even if no other member could take them.
func TestLeavingMemberTakesNothing(t *testing.T) {
	m, env, machine := newTestMember(t)
	machine.view.SelfStatus = membership.Leaving
	m.checkLeaving()
	require.True(t, env.exiting)
	require.Contains(t, machine.steps, membership.Input(membership.ExitReady{}))
}

// TestMemberThatHoldsShardsStays: a leaving member whose shards another member can take exits only
// after it has given them away.
func TestMemberThatHoldsShardsStays(t *testing.T) {
	m, env, machine := newTestMember(t)
	machine.view.SelfStatus = membership.Leaving
	machine.view.ByAge = []membership.MemberView{{Member: membership.Member{
		Address: transport.Address{Name: "b", Incarnation: 1}, Status: membership.Up,
		Meta: []membership.KeyValue{{Key: hostmeta.EntityKey("K"), Value: "shards=2 hash=xxh64 package=p"}},
	}}}
	require.True(t, m.otherHosts(&machine.view))
	env.holds = true
	m.checkLeaving()
	require.False(t, env.exiting)
	require.NotContains(t, machine.steps, membership.Input(membership.ExitReady{}))
}

// TestBroadcastCommandIsForOneMember: a member obeys a broadcast command only if it is for the
// member's own address. A command to join may be for its name with any incarnation.
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
		from := operates
		if !c.request.Command.ForOperators() {
			from = looks
		}
		require.NoError(t, m.operatorMessage(transport.Broadcast, from, body))
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

// TestAcceptance: each class of process may send a member only the messages that the class needs.
// Other messages have no effect, whatever sender they claim.
func TestAcceptance(t *testing.T) {
	member := transport.Peer{Address: transport.Address{Name: "b", Incarnation: 3}}
	outside := transport.Peer{Address: transport.Address{Name: "p", Incarnation: identity.Mark(identity.Client, 3)}, Client: true}
	request := func(c operator.Command) []byte {
		b, err := operator.Encode(1, &operator.Request{Command: c, Node: self}, nil)
		require.NoError(t, err)
		return b
	}
	placing := func(m coordinator.Message) []byte {
		b, err := coordinator.Encode(m)
		require.NoError(t, err)
		return b
	}
	const (
		membershipTopic = wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP
		coordinating    = wire.ControlTopic_CONTROL_TOPIC_COORDINATOR
		remembering     = wire.ControlTopic_CONTROL_TOPIC_REMEMBER
		administering   = wire.ControlTopic_CONTROL_TOPIC_ADMIN
	)
	heartbeat, err := membership.Encode(message.Heartbeat{})
	require.NoError(t, err)
	for _, tt := range []struct {
		name    string
		claimed transport.Peer // by the content
		from    transport.Peer // by the subject
		topic   wire.ControlTopic
		body    []byte
		want    Counter
		answers int
	}{
		{"a client gossips as itself", outside, outside, membershipTopic, heartbeat, Forbidden, 0},
		{"a client gossips as a member", member, outside, membershipTopic, heartbeat, Foreign, 0},
		{"a client speaks for another client", client(1), outside, wire.ControlTopic_CONTROL_TOPIC_GATEWAY, nil, Foreign, 0},
		{"a client says that it is a member", transport.Peer{Address: outside.Address}, outside, membershipTopic, heartbeat, Foreign, 0},
		{"a member's subject, a client's content", outside, member, wire.ControlTopic_CONTROL_TOPIC_GATEWAY, nil, Foreign, 0},
		{"a client sends a table", outside, outside, coordinating, placing(coordinator.TableStatus{Version: placement.Version{Term: placement.Term{Number: 9}}}), Forbidden, 0},
		{"a client registers", outside, outside, coordinating, placing(coordinator.SetPins{Type: "K"}), Forbidden, 0},
		{"a client inspects", outside, outside, coordinating, placing(coordinator.Inspect{ID: 1}), Forbidden, 0},
		{"a client answers an inquiry", outside, outside, coordinating, placing(coordinator.Inspected{ID: 1}), Forbidden, 0},
		{"a client writes remembered ids", outside, outside, remembering, nil, Forbidden, 0},
		{"a client commands", outside, outside, administering, request(operator.Down), Forbidden, 0},
		{"a client asks as an operator", looks, outside, administering, request(operator.Members), Foreign, 0},
		{"one who looks commands", looks, looks, administering, request(operator.Down), Forbidden, 1},
		{"one who looks commands in another's name", operates, looks, administering, request(operator.Down), Foreign, 0},
		{"one who commands looks", operates, operates, administering, request(operator.Members), Forbidden, 1},
		{"an operator gossips", operates, operates, membershipTopic, heartbeat, Forbidden, 0},
		{"a member commands", member, member, administering, request(operator.Down), Forbidden, 0},
	} {
		m, env, machine := newTestMember(t)
		msg := transport.Message{Payload: wire.SealControl("c", tt.claimed, tt.topic, tt.body)}
		if tt.from.Client {
			msg.From = tt.from.Address
		}
		m.Receive(msg, env.now)
		require.Equal(t, []Counter{tt.want}, env.counted, tt.name)
		require.Len(t, env.sent, tt.answers, tt.name)
		require.Empty(t, machine.steps, tt.name)
	}
}

// TestSingletonSaysWhyItIsNowhere: calls that wait for a singleton get the reason that the
// singleton's part of the control plane gives.
func TestSingletonSaysWhyItIsNowhere(t *testing.T) {
	m, env, _ := newTestMember(t)
	singletons{m.env, m}.SetWhy("K", "no member hosts it")
	require.Equal(t, "no member hosts it", m.Reasons().Lately("K", env.now))
}

// TestOpenShardIsReportedUntilTheTableShowsIt: a shard that runs here is reported to the
// coordinator at once, and repeatedly until the table has its epoch.
func TestOpenShardIsReportedUntilTheTableShowsIt(t *testing.T) {
	m, env, machine := newTestMember(t)
	at := transport.Address{Name: "b", Incarnation: 1}
	machine.view.ByAddress = []membership.MemberView{{Member: membership.Member{Address: at, Status: membership.Up}}}
	term := placement.Term{Number: 1, Incarnation: 1}
	m.follower.core.Step(env.now, at, coordinator.TableStatus{Version: placement.Version{Term: term}})
	require.Equal(t, at, m.follower.coordinator())
	id, epoch := placement.ShardID{Kind: "K", Shard: 2}, placement.MakeEpoch(1, 3)
	done := []coordinator.Message{coordinator.MoveDone{Term: term, ShardID: id, Epoch: epoch}}
	m.reports.opened(id, epoch)
	require.Equal(t, done, env.placements(t))
	m.reports.resend(env.now.Add(ResendEvery - 1))
	require.Empty(t, env.placements(t), "before it is due")
	m.reports.resend(env.now.Add(ResendEvery))
	require.Equal(t, done, env.placements(t), "while the table does not show it")
	var old placement.Table
	shows, err := old.Apply(placement.Diff{
		Full: true, To: placement.Version{Term: term, Seq: 1},
		Entries: []placement.Entry{{ShardID: id, Home: self, Epoch: epoch}},
	})
	require.NoError(t, err)
	m.reports.tableChanged(shows)
	require.Zero(t, m.reports.wakeAt(), "nothing is to be sent")
	m.reports.resend(env.now.Add(time.Hour))
	require.Empty(t, env.placements(t), "when the table shows it")
}

// TestMoveThatIsGivenUpIsReported: a move that a shard here cannot make is reported to the
// coordinator with the reason, at once and repeatedly, but not if the shard has already finished
// the move.
func TestMoveThatIsGivenUpIsReported(t *testing.T) {
	for _, cancels := range []bool{true, false} {
		m, env, machine := newTestMember(t)
		m.setup.Callable = func(string) singlehost.Callable { return nil } // K is no singleton
		at, term := transport.Address{Name: "b", Incarnation: 1}, placement.Term{Number: 1, Incarnation: 1}
		machine.view.ByAddress = []membership.MemberView{{Member: membership.Member{Address: at, Status: membership.Up}}}
		m.follower.core.Step(env.now, at, coordinator.TableStatus{Version: placement.Version{Term: term}})
		id, epoch := placement.ShardID{Kind: "K", Shard: 2}, placement.MakeEpoch(1, 3)
		env.shard = fakeShard{cancels: cancels}
		var want []coordinator.Message
		if cancels {
			want = []coordinator.Message{coordinator.MoveAborted{Term: term, ShardID: id, Epoch: epoch, Reason: "a turn does not end"}}
		}
		m.MoveAborted(id, epoch, "a turn does not end")
		require.Equal(t, want, env.placements(t))
		m.reports.resend(env.now.Add(ResendEvery))
		require.Equal(t, want, env.placements(t), "while the table does not show it")
	}
}

// TestMessageThatIsNotSentIsLogged: a message that cannot be sent is logged, unless the connection
// is lost, which explains the failure.
func TestMessageThatIsNotSentIsLogged(t *testing.T) {
	for err, lines := range map[error]int{
		nil: 0, transport.ErrDisconnected: 0, transport.ErrClosed: 0, errors.New("too large"): 1,
	} {
		m, env, _ := newTestMember(t)
		env.fails = err
		m.Send(transport.Peer{Address: transport.Address{Name: "b", Incarnation: 1}}, wire.ControlTopic_CONTROL_TOPIC_REMEMBER, nil, nil)
		require.Len(t, env.logged, lines, "%v", err)
	}
}

// TestMemberWakesForTheFirst: WakeAt returns when the first of the member's parts is due, and at
// most a second from now.
func TestMemberWakesForTheFirst(t *testing.T) {
	m, env, _ := newTestMember(t)
	m.members.wakeAt, m.seat.managerAt, m.follower.wakeAt = time.Time{}, time.Time{}, time.Time{}
	require.Equal(t, env.now.Add(time.Second), m.WakeAt())
	m.members.wakeAt, m.seat.managerAt, m.follower.wakeAt = env.now.Add(300), env.now.Add(100), env.now.Add(200)
	require.Equal(t, env.now.Add(100), m.WakeAt())
}

// TestLimit: the limit for a message's body leaves room for the control envelope within the
// broker's limit.
func TestLimit(t *testing.T) {
	s := &sender{env: &fakeEnv{}}
	require.Less(t, s.limit(), fakeLink{}.MaxPayload())
	require.Greater(t, s.limit(), fakeLink{}.MaxPayload()/2)
}
