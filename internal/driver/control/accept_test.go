package control

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// TestAcceptedTopics: a table says for every topic which classes of process may send on it to a
// member. A topic of a later version is accepted only from members.
func TestAcceptedTopics(t *testing.T) {
	const later = wire.ControlTopic(math.MaxInt32)
	classes := []identity.Class{identity.Member, identity.Client, identity.Reader, identity.Operator}
	want := map[wire.ControlTopic][4]bool{
		wire.ControlTopic_CONTROL_TOPIC_UNSPECIFIED: {},
		wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP:  {true, false, false, false},
		wire.ControlTopic_CONTROL_TOPIC_SINGLETON:   {true, true, false, false},
		wire.ControlTopic_CONTROL_TOPIC_COORDINATOR: {true, true, false, false},
		wire.ControlTopic_CONTROL_TOPIC_GATEWAY:     {true, true, false, false},
		wire.ControlTopic_CONTROL_TOPIC_REMEMBER:    {true, false, false, false},
		wire.ControlTopic_CONTROL_TOPIC_ADMIN:       {false, false, true, true},
		wire.ControlTopic_CONTROL_TOPIC_DIRECT:      {true, true, false, false},
		later:                                       {true, false, false, false},
	}
	for _, n := range slices.Sorted(maps.Keys(wire.ControlTopic_name)) {
		if _, ok := want[wire.ControlTopic(n)]; !ok {
			t.Errorf("this test does not say who may send on %v (add a row)", wire.ControlTopic(n))
		}
	}
	for topic, row := range want {
		for i, class := range classes {
			from := transport.Peer{
				Address: transport.Address{Name: "p", Incarnation: identity.Mark(class, 1)}, Client: class != identity.Member,
			}
			if got := accepts(from, topic); got != row[i] {
				t.Errorf("a message of a %v on %v: accepted %v, want %v", class, topic, got, row[i])
			}
		}
	}
}

// TestClientAsksForTheTable: a member accepts from a client two messages of the coordinator's
// protocol, and refuses its others.
func TestClientAsksForTheTable(t *testing.T) {
	for _, tt := range []struct {
		m  coordinator.Message
		ok bool
	}{
		{coordinator.TableRequest{}, true},
		{coordinator.Ask{}, true},
		{coordinator.Explain{}, false},
		{coordinator.Explained{}, false},
		{coordinator.Inspect{}, false},
		{coordinator.Inspected{}, false},
		{coordinator.SetPins{}, false},
		{coordinator.PinsSet{}, false},
		{coordinator.KeepPins{}, false},
		{coordinator.PinsKept{}, false},
		{coordinator.Balance{}, false},
		{coordinator.Balanced{}, false},
		{coordinator.Paused{}, false},
		{coordinator.PauseKept{}, false},
		{coordinator.PoolLoad{}, false},
		{coordinator.MemberLoad{}, false},
		{coordinator.Register{}, false},
		{coordinator.Registered{}, false},
		{coordinator.TableStatus{}, false},
		{coordinator.Table{}, false},
		{coordinator.NoHome{}, false},
		{coordinator.MoveBegin{}, false},
		{coordinator.MoveStatus{}, false},
		{coordinator.MoveDone{}, false},
		{coordinator.MoveAborted{}, false},
		{coordinator.MoveCancel{}, false},
		{coordinator.MoveCancelled{}, false},
	} {
		if got := asksTable(tt.m); got != tt.ok {
			t.Errorf("a client may send %T: %v, want %v", tt.m, got, tt.ok)
		}
	}
}

// TestClientHandsNothingOff: a client's handoff messages reach neither the coordinator's singleton
// nor users' singletons. A member's do, and a client's search for a singleton is answered.
func TestClientHandsNothingOff(t *testing.T) {
	member := transport.Peer{Address: transport.Address{Name: "b", Incarnation: 1}}
	for _, tt := range []struct {
		name    string
		from    transport.Peer
		message singleton.Message
		answers int
		counted []Counter
	}{
		{"a member gives the coordinator up", member, singleton.Message{Name: coordinatorSingleton, Type: singleton.TakeOverFromMe}, 1, nil},
		{"a client gives the coordinator up", client(1), singleton.Message{Name: coordinatorSingleton, Type: singleton.TakeOverFromMe}, 0, nil},
		{"a client takes a singleton over", client(1), singleton.Message{Name: "singleton/K", Type: singleton.HandOverToMe}, 0, []Counter{Ignored}},
		{"a client announces a singleton", client(1), singleton.Message{Name: "singleton/K", Type: singleton.Identity, Instance: client(1).Address, Epoch: placement.MakeEpoch(1, 1)}, 0, []Counter{Ignored}},
		{"a client looks for a singleton", client(1), singleton.Message{Name: "singleton/K", Type: singleton.Identify, ID: 1}, 1, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, env, machine := newTestMember(t)
			m.setup.Callable = func(string) singlehost.Callable { return nil }
			machine.view.ByAge = []membership.MemberView{
				{Member: membership.Member{Address: member.Address, Status: membership.Exiting, UpNumber: 1}},
				{Member: membership.Member{Address: self, Status: membership.Up, UpNumber: 2}},
			}
			m.seat.managed(&machine.view) // this member becomes the oldest
			env.sent = nil
			body, err := singleton.Encode(tt.message)
			require.NoError(t, err)
			msg := transport.Message{Payload: wire.SealControl("c", tt.from, wire.ControlTopic_CONTROL_TOPIC_SINGLETON, body)}
			if tt.from.Client {
				msg.From = tt.from.Address
			}
			m.Receive(msg, env.now)
			require.Len(t, env.sent, tt.answers)
			require.Equal(t, tt.counted, env.counted)
		})
	}
}
