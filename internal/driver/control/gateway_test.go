package control

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

func client(i int) transport.Peer {
	return transport.Peer{Address: transport.Address{Name: fmt.Sprint("c", i), Incarnation: identity.Mark(identity.Client, 1)}, Client: true}
}

func hello(t *testing.T, asks ...string) []byte {
	t.Helper()
	b, err := proto.Marshal(&wire.Gateway{Hello: &wire.GatewayHello{Lanes: 1, Frame: wire.FrameVersion, Asks: asks}})
	require.NoError(t, err)
	return b
}

// TestInventedClientsAreBounded: hellos of invented clients cost bounded memory and work. A client
// that is already served stays served, and invented clients are forgotten.
func TestInventedClientsAreBounded(t *testing.T) {
	m, env, _ := newTestMember(t)
	b := hello(t)
	require.NoError(t, m.gateway.message(client(0), b))
	served := len(env.sent)
	require.Positive(t, served)
	for i := range 100_000 {
		require.NoError(t, m.gateway.message(client(1+i), b))
	}
	require.LessOrEqual(t, len(env.sent)-served, 2*newClients, "answers within one instant")
	env.sent = nil
	env.now = env.now.Add(HelloEvery)
	require.NoError(t, m.gateway.message(client(0), b))
	require.NotEmpty(t, env.sent, "a served client's hello is answered under a flood")
	for range 60 {
		env.now = env.now.Add(HelloEvery)
		require.NoError(t, m.gateway.message(client(0), b))
		for i := range 2 * newClients {
			require.NoError(t, m.gateway.message(client(env.now.Second()*100_000+i+1), b))
		}
		require.LessOrEqual(t, len(m.gateway.clients), maxClients)
		m.gateway.tick(env.now)
		env.sent = nil
	}
	require.Contains(t, m.gateway.clients, client(0).Address)
	for range 2 + int(2*gatewayForget/gatewayStatusEvery) {
		env.now = env.now.Add(gatewayStatusEvery)
		m.gateway.tick(env.now)
	}
	require.Empty(t, m.gateway.clients)
	require.Empty(t, m.gateway.named)
	require.Zero(t, m.gateway.wakeAt(), "a member that serves nobody is not woken for it")
}

// named returns the i-th invented client of a name.
func named(name string, i int) transport.Peer {
	return transport.Peer{Address: transport.Address{Name: name, Incarnation: identity.Mark(identity.Client, uint64(i))}, Client: true}
}

// TestInventedNamesAreForgotten: a member forgets the names of invented clients, even of clients
// that ask for a type that cannot exist.
func TestInventedNamesAreForgotten(t *testing.T) {
	m, env, _ := newTestMember(t)
	for i := range 1000 {
		m.gateway.placement(named(fmt.Sprint("evil-", i), i), coordinator.Ask{Type: strings.Repeat("k", bounded.Most+1)})
	}
	require.Len(t, m.gateway.named, 1000)
	for range 2 + int(2*gatewayForget/gatewayStatusEvery) {
		require.False(t, m.gateway.wakeAt().IsZero() && len(m.gateway.named) > 0, "nothing would forget them")
		env.now = env.now.Add(gatewayStatusEvery)
		m.gateway.tick(env.now)
	}
	require.Empty(t, m.gateway.named)
}

// TestClientsOfOneNameAreBounded: invented incarnations of one name leave room for other names.
// Clients above the bound are refused, with a bounded number of messages.
func TestClientsOfOneNameAreBounded(t *testing.T) {
	m, env, _ := newTestMember(t)
	b := hello(t)
	for range 2 * maxNamed / newNamed {
		env.now = env.now.Add(limitEvery)
		for i := range 2 * maxNamed {
			require.NoError(t, m.gateway.message(named("evil", i), b))
		}
		refused := 0
		for _, a := range env.answers(t) {
			if r := a.GetRefusal(); r != nil {
				require.Contains(t, r.GetReason(), "1024 processes called evil")
				refused++
			}
		}
		require.LessOrEqual(t, refused, maxRefused)
		require.Equal(t, len(m.gateway.clients) == maxNamed, refused > 0, "%d clients, %d refused", len(m.gateway.clients), refused)
	}
	require.Len(t, m.gateway.clients, maxNamed)
	require.NoError(t, m.gateway.message(client(0), b))
	require.Contains(t, m.gateway.clients, client(0).Address, "another name has room")

	require.NoError(t, m.gateway.message(named("evil", 0), hello(t, names("K", 2*maxNamedAsked)...)))
	require.NoError(t, m.gateway.message(client(0), hello(t, "Mine")))
	require.Contains(t, m.gateway.asked, "Mine")
	require.Len(t, m.gateway.asked, maxNamedAsked+1)

	most := 0
	for range 2 + int(2*gatewayForget/gatewayStatusEvery) {
		env.now = env.now.Add(gatewayStatusEvery)
		m.gateway.tick(env.now)
		most = max(most, m.gateway.mostClients)
	}
	require.Empty(t, m.gateway.clients)
	require.Empty(t, m.gateway.named)
	require.Equal(t, maxNamed+1, most)
	require.Less(t, m.gateway.mostClients, maxNamed/4, "the memory of clients that are gone is kept")
	require.Less(t, m.gateway.mostAsked, maxNamedAsked/4, "the memory of types that nobody asks for is kept")
	require.Zero(t, m.gateway.wakeAt(), "a member that serves nobody is not woken for it")
}

// TestReasonGoesToThoseWhoAsk: the reason why calls of a type wait is sent only to the clients that
// have asked since the last reason, so each question costs one message.
func TestReasonGoesToThoseWhoAsk(t *testing.T) {
	m, env, _ := newTestMember(t)
	for i := range 20 {
		require.NoError(t, m.gateway.message(client(i), hello(t)))
	}
	reasons := func(kind string) int {
		env.sent = nil
		m.gateway.noHome(coordinator.NoHome{Type: kind, Reason: "nobody hosts it"})
		return len(env.sent)
	}
	require.Zero(t, reasons("K"), "nobody has asked")
	for range 3 {
		require.NoError(t, m.gateway.message(client(3), hello(t, "K")))
	}
	m.gateway.placement(client(4), coordinator.Ask{Type: "K"})
	require.Zero(t, reasons("L"), "nobody has asked for this one")
	require.Equal(t, 2, reasons("K"), "each that asked, once")
	require.Zero(t, reasons("K"), "they have it")
	require.NoError(t, m.gateway.message(client(3), hello(t, "K")))
	require.Equal(t, 1, reasons("K"), "it has asked again")
	for i := range 2 * maxAskers {
		m.gateway.placement(client(i), coordinator.Ask{Type: "K"})
	}
	require.Equal(t, maxAskers, reasons("K"))
}

func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

// TestOneClientsHellosAreBounded: if a client sends hellos without a pause, not every hello is
// answered. A second later its hellos are answered again.
func TestOneClientsHellosAreBounded(t *testing.T) {
	m, env, _ := newTestMember(t)
	b := hello(t)
	for range 100_000 {
		require.NoError(t, m.gateway.message(client(0), b))
	}
	require.LessOrEqual(t, len(env.sent), maxHellos)
	env.sent, env.now = nil, env.now.Add(HelloEvery)
	require.NoError(t, m.gateway.message(client(0), b))
	require.NotEmpty(t, env.sent)
}

// TestInventedTypesAreBounded: types that clients ask for are bounded and expire, even if the
// clients sent no hello.
func TestInventedTypesAreBounded(t *testing.T) {
	m, env, _ := newTestMember(t)
	var names []string
	for i := range 5 * maxAsked {
		names = append(names, fmt.Sprint("K", i))
	}
	require.NoError(t, m.gateway.message(client(0), hello(t, names...)))
	for i := range 5 * maxAsked {
		m.gateway.placement(client(1), coordinator.Ask{Type: fmt.Sprint("L", i)})
	}
	require.LessOrEqual(t, len(m.gateway.asked), maxAsked)
	for range 5 {
		env.now = env.now.Add(time.Second)
		m.gateway.tick(env.now)
	}
	require.Empty(t, m.gateway.asked)
}

// answers returns the gateway messages that were sent since the last call of answers.
func (v *fakeEnv) answers(t *testing.T) (all []*wire.Gateway) {
	t.Helper()
	for _, b := range v.sent {
		_, topic, body, err := wire.OpenControl("c", b)
		require.NoError(t, err)
		if topic == wire.ControlTopic_CONTROL_TOPIC_GATEWAY {
			var m wire.Gateway
			require.NoError(t, proto.Unmarshal(body, &m))
			all = append(all, &m)
		}
	}
	v.sent = nil
	return all
}

// TestClientThatDiffersIsRefused: a client whose lanes or frame version are not the cluster's is
// refused. The refusal has both values. The reason is that its calls would not arrive where members
// expect them.
func TestClientThatDiffersIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		hello *wire.GatewayHello
		says  string
	}{
		"lanes": {&wire.GatewayHello{Lanes: 8, Frame: wire.FrameVersion}, "is 1 in the cluster and 8 in this process"},
		"frame": {&wire.GatewayHello{Lanes: 1, Frame: wire.FrameVersion + 1}, fmt.Sprint("this process ", wire.FrameVersion+1)},
	} {
		m, env, _ := newTestMember(t)
		b, err := proto.Marshal(&wire.Gateway{Hello: c.hello})
		require.NoError(t, err)
		require.NoError(t, m.gateway.message(client(0), b))
		got := env.answers(t)
		require.Len(t, got, 1, name)
		require.Contains(t, got[0].GetRefusal().GetReason(), c.says, name)
		require.Empty(t, m.gateway.clients, name)
	}
}

// TestClientsHearOfEachTypeOnce: a client gets each hosted type once, however many members host it.
func TestClientsHearOfEachTypeOnce(t *testing.T) {
	m, env, machine := newTestMember(t)
	for _, name := range []string{"a", "b", "d"} {
		machine.view.ByAddress = append(machine.view.ByAddress, membership.MemberView{Member: membership.Member{
			Address: transport.Address{Name: name, Incarnation: 1}, Status: membership.Up,
			Meta: []membership.KeyValue{{Key: hostmeta.EntityKey("K"), Value: "shards=2 hash=xxh64 package=p"}, {Key: hostmeta.EntityKey("J"), Value: "shards=4 hash=xxh64 package=p"}},
		}})
	}
	require.NoError(t, m.gateway.message(client(0), hello(t)))
	got := env.answers(t)
	require.Len(t, got, 1)
	var kinds []string
	for _, k := range got[0].GetWelcome().GetKinds() {
		kinds = append(kinds, fmt.Sprintf("%s/%d %s %s", k.GetName(), k.GetShards(), k.GetHash(), k.GetPackage()))
	}
	require.Equal(t, []string{"J/4 xxh64 p", "K/2 xxh64 p"}, kinds)
}

// TestClientsHearOfLostMembers: clients get a message about each downed member at once, and only
// once, so that calls waiting for its answers fail.
func TestClientsHearOfLostMembers(t *testing.T) {
	m, env, _ := newTestMember(t)
	require.NoError(t, m.gateway.message(client(0), hello(t)))
	env.sent = nil
	told := func() (lost []string) {
		got := env.answers(t)
		if len(got) == 0 {
			return nil
		}
		require.Len(t, got, 1)
		for _, n := range got[0].GetWelcome().GetLost() {
			lost = append(lost, AddressOf(n).Name)
		}
		return lost
	}
	for _, c := range []struct {
		lost string
		want []string
	}{
		{"b", []string{"b"}},
		{"b", nil},
		{"d", []string{"b", "d"}},
		{"b", nil},
	} {
		m.gateway.lostMember(transport.Address{Name: c.lost, Incarnation: 1})
		require.Equal(t, c.want, told())
	}
}

// TestMemberThatIsNotUpServesNoClient: a member that is not Up sends clients away, so that they
// look for another gateway.
func TestMemberThatIsNotUpServesNoClient(t *testing.T) {
	m, env, machine := newTestMember(t)
	machine.view.SelfStatus = membership.Leaving
	require.NoError(t, m.gateway.message(client(0), hello(t)))
	got := env.answers(t)
	require.Len(t, got, 1)
	require.NotNil(t, got[0].GetBye())
	require.Empty(t, m.gateway.clients)
}

// TestClientsHearOfNewMembers: clients get a changed list of members, once.
func TestClientsHearOfNewMembers(t *testing.T) {
	m, env, machine := newTestMember(t)
	require.NoError(t, m.gateway.message(client(0), hello(t)))
	env.sent = nil
	machine.view.ByAddress = []membership.MemberView{{Member: membership.Member{
		Address: transport.Address{Name: "b", Incarnation: 1}, Status: membership.Up,
	}}}
	m.gateway.membersChanged()
	got := env.answers(t)
	require.Len(t, got, 1)
	require.Len(t, got[0].GetWelcome().GetMembers(), 1)
	m.gateway.membersChanged()
	require.Empty(t, env.answers(t))
}

// TestClientWantsAHome: after a client has asked for a home, its calls count as waiting until two
// of its hellos are overdue.
func TestClientWantsAHome(t *testing.T) {
	m, env, _ := newTestMember(t)
	require.False(t, m.gateway.wants("K"))
	require.NoError(t, m.gateway.message(client(0), hello(t, "K")))
	env.now = env.now.Add(2*HelloEvery - 1)
	require.True(t, m.gateway.wants("K"))
	env.now = env.now.Add(1)
	require.False(t, m.gateway.wants("K"))
}
