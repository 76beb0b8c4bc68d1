package control

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// FuzzGatewayMessage gives random bytes to a member as a client's message, and to a client as a
// member's message. Neither may panic, and a member that hears one client serves at most one.
func FuzzGatewayMessage(f *testing.F) {
	node := &wire.GatewayNode{Name: "a", Incarnation: 2}
	for _, m := range []*wire.Gateway{
		{Hello: &wire.GatewayHello{Lanes: 1, Frame: wire.FrameVersion, Asks: []string{"Cart"}, Members: 7, Seq: 3}},
		{Hello: &wire.GatewayHello{Lanes: 9}},
		{Bye: &wire.GatewayBye{}},
		{Probe: &wire.GatewayProbe{}},
		{Refusal: &wire.GatewayRefusal{Reason: "lanes"}},
		{Welcome: &wire.GatewayWelcome{
			Kinds: []*wire.GatewayKind{{Name: "Cart", Package: "p", Shards: 256, Hash: "xxh64"}},
			Lost:  []*wire.GatewayNode{node}, Members: []*wire.GatewayNode{node}, Founder: node, Digest: 1, Hello: 1,
		}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, env, _ := newTestMember(t)
		for range 2 {
			_ = m.gateway.message(client(1), b)
			env.now = env.now.Add(HelloEvery)
			m.gateway.tick(env.now)
		}
		if n := len(m.gateway.clients); n > 1 {
			t.Fatalf("the member serves %d clients", n)
		}
		c, fake := newTestClient()
		c.env = deafClientEnv{fake}
		c.Tick()
		for range 2 {
			_ = c.dispatch(transport.Peer{Address: self}, wire.ControlTopic_CONTROL_TOPIC_GATEWAY, b)
			c.Tick()
		}
	})
}

// A deafClientEnv ignores some calls of its Client.
type deafClientEnv struct{ *fakeClientEnv }

func (deafClientEnv) Log(Level, string, ...any)            {}
func (deafClientEnv) Count(Counter) (uint64, bool)         { return 0, false }
func (deafClientEnv) SetTable(*placement.Table)            {}
func (deafClientEnv) BeginAnew(map[transport.Address]bool) {}
func (deafClientEnv) PeerGone(transport.Address)           {}
func (deafClientEnv) PeerAbsent(transport.Address)         {}
func (deafClientEnv) PeerBack(transport.Address)           {}
func (deafClientEnv) Refused(error)                        {}
