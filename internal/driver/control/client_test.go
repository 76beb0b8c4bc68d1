package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// A fakeClientEnv is a ClientEnv with what these tests need.
type fakeClientEnv struct {
	ClientEnv
	now, heard time.Time
	anycasts   int
	sent       [][]byte
	sentTo     []transport.Peer
	counted    []Counter
	single     singlehost.Callable // the singleton S
	peers      []transport.Address
	bounces    bool                // calls await bounces
	waiting    int                 // number of calls for the singleton S
	gone       []transport.Address // processes that the client has parted with
	warned     []string            // log texts with all attributes
}

func (v *fakeClientEnv) Now() time.Time               { return v.now }
func (v *fakeClientEnv) Link() Link                   { return clientLink{env: v} }
func (v *fakeClientEnv) Heard(at time.Time)           { v.heard = at }
func (v *fakeClientEnv) Served(map[string]uint32)     {}
func (v *fakeClientEnv) Peers() []transport.Address   { return v.peers }
func (v *fakeClientEnv) PeerAbsent(transport.Address) {}
func (v *fakeClientEnv) PeerBack(transport.Address)   {}
func (v *fakeClientEnv) PeerGone(a transport.Address) { v.gone = append(v.gone, a) }
func (v *fakeClientEnv) AwaitsBounce() bool           { return v.bounces }
func (v *fakeClientEnv) Waiting(string) int           { return v.waiting }
func (v *fakeClientEnv) SetWhy(string, string)        {}

func (v *fakeClientEnv) Log(l Level, text string, args ...any) {
	if l >= Warn {
		v.warned = append(v.warned, fmt.Sprint(text, " ", fmt.Sprintln(args...)))
	}
}

func (v *fakeClientEnv) Count(e Counter) (uint64, bool) {
	v.counted = append(v.counted, e)
	return 1, false
}

func (v *fakeClientEnv) BeginAnew(map[transport.Address]bool) {}
func (v *fakeClientEnv) Callable(kind string) singlehost.Callable {
	if kind == "S" {
		return v.single
	}
	return nil
}

type clientLink struct {
	Link
	env *fakeClientEnv
}

func (l clientLink) Anycast(uint64, []byte) error {
	l.env.anycasts++
	return nil
}

func (l clientLink) Send(_ transport.Channel, to transport.Peer, _ uint64, payload []byte) error {
	l.env.sent, l.env.sentTo = append(l.env.sent, payload), append(l.env.sentTo, to)
	return nil
}

func newTestClient() (*Client, *fakeClientEnv) {
	env := &fakeClientEnv{now: time.Unix(1_000_000, 0)}
	return NewClient(ClientConfig{
		Cluster: "c", Self: operates, Lanes: 1,
		Seekers: func(p singlehost.Client) *singlehost.Seekers {
			return singlehost.NewSeekers(p)
		},
	}, env), env
}

// TestClientIsServed: a client keeps the member that welcomes it as its gateway while that member
// sends something. After silence it looks for another gateway.
func TestClientIsServed(t *testing.T) {
	c, env := newTestClient()
	c.Tick()
	require.Equal(t, 1, env.anycasts, "nobody serves it")
	gateway := transport.Peer{Address: self}
	welcome := func() {
		body, err := proto.Marshal(&wire.Gateway{Welcome: &wire.GatewayWelcome{
			Founder: &wire.GatewayNode{Name: "a", Incarnation: 2}, Hello: c.life.hello,
		}})
		require.NoError(t, err)
		c.Receive(transport.Message{Payload: wire.SealControl("c", gateway, wire.ControlTopic_CONTROL_TOPIC_GATEWAY, body)})
	}
	for range 5 {
		welcome()
		require.Equal(t, gateway, c.Gateway())
		require.Equal(t, env.now, env.heard)
		env.now = env.now.Add(silence)
		c.Tick()
	}
	require.Equal(t, 1, env.anycasts, "the gateway has spoken within the silence")
	env.now = env.now.Add(HelloEvery)
	c.Tick()
	require.True(t, c.Gateway().IsZero())
	require.Equal(t, 2, env.anycasts)
}

// TestClientSaysGoodbyeToALateMember: a client says goodbye to a member whose welcome comes after
// another member's, and stays with the first. Without the goodbye, the late member would send the
// client every table until its hellos are overdue. While no member serves the client, a welcome
// that answers an earlier hello gets no goodbye.
func TestClientSaysGoodbyeToALateMember(t *testing.T) {
	c, env := newTestClient()
	welcome := func(from transport.Peer, hello uint64) {
		c.gatewayMessage(from, &wire.Gateway{Welcome: &wire.GatewayWelcome{
			Founder: &wire.GatewayNode{Name: "a", Incarnation: self.Incarnation}, Hello: hello,
		}})
	}
	first, late := transport.Peer{Address: self}, transport.Peer{Address: other}
	c.Tick()
	welcome(first, c.life.hello)
	require.Empty(t, env.sent)
	welcome(late, c.life.hello)
	require.Equal(t, first, c.Gateway())
	require.Equal(t, []Counter{Ignored}, env.counted)
	require.Equal(t, []transport.Peer{late}, env.sentTo)
	from, topic, body, err := wire.OpenControl("c", env.sent[0])
	require.NoError(t, err)
	require.Equal(t, operates, from)
	require.Equal(t, wire.ControlTopic_CONTROL_TOPIC_GATEWAY, topic)
	var m wire.Gateway
	require.NoError(t, proto.Unmarshal(body, &m))
	require.NotNil(t, m.GetBye())

	before := c.life.hello
	env.sent, env.counted = nil, nil
	c.search(env.now)
	welcome(late, before)
	require.True(t, c.Gateway().IsZero())
	require.Equal(t, []Counter{Ignored}, env.counted)
	require.Empty(t, env.sent)
}

// TestClientSeeksOften: a client sends a hello every seekEvery while no member serves it, and every
// HelloEvery while one does.
func TestClientSeeksOften(t *testing.T) {
	c, env := newTestClient()
	for i := range 5 {
		c.Tick()
		require.Equal(t, 1+i, env.anycasts)
		require.Equal(t, env.now.Add(seekEvery), c.WakeAt())
		env.now = env.now.Add(seekEvery)
	}
}

// TestClientAsks: a call that waits for a home makes the client ask soon. It asks once for all
// calls of the type.
func TestClientAsks(t *testing.T) {
	c, env := newTestClient()
	c.Tick()
	c.Ask("K")
	require.Equal(t, env.now.Add(AskDelay), c.WakeAt())
	require.True(t, c.asks["K"])
	env.now = env.now.Add(time.Millisecond)
	c.Ask("K")
	require.Equal(t, env.now.Add(AskDelay-time.Millisecond), c.WakeAt(), "the question is gathered")
}

// nowhere is a singleton that is never found.
type nowhere struct{}

func (nowhere) Found(transport.Address, placement.Epoch, bool) {}

// TestClientSearchesAgain: a client asks its gateway for a singleton until it gets an answer.
func TestClientSearchesAgain(t *testing.T) {
	c, env := newTestClient()
	env.single = nowhere{}
	c.Tick()
	c.gatewayMessage(transport.Peer{Address: self}, &wire.Gateway{Welcome: &wire.GatewayWelcome{
		Founder: &wire.GatewayNode{Name: "a", Incarnation: self.Incarnation}, Hello: c.life.hello,
	}})
	questions := func() (n int) {
		for _, b := range env.sent {
			_, topic, body, err := wire.OpenControl("c", b)
			require.NoError(t, err)
			if topic != wire.ControlTopic_CONTROL_TOPIC_SINGLETON {
				continue
			}
			m, err := singleton.Decode(body)
			require.NoError(t, err)
			require.Equal(t, singleton.Identify, m.Type)
			n++
		}
		env.sent = nil
		return n
	}
	c.Ask("S")
	require.Equal(t, 1, questions())
	for range 3 {
		env.now = c.seekers.WakeAt(env.now.Add(time.Hour))
		c.Tick()
		require.Equal(t, 1, questions(), "no answer has come")
	}
}

// TestClientSearchesInANewCluster: a client that follows a newly founded cluster asks for the
// singletons that calls wait for, and for no other singletons.
func TestClientSearchesInANewCluster(t *testing.T) {
	for _, waiting := range []int{0, 1} {
		c, env := newTestClient()
		env.single, env.waiting = nowhere{}, waiting
		welcome := func(founder string) {
			c.search(env.now)
			c.Tick()
			env.sent = nil
			c.gatewayMessage(transport.Peer{Address: self}, &wire.Gateway{Welcome: &wire.GatewayWelcome{
				Founder: &wire.GatewayNode{Name: founder, Incarnation: 1}, Hello: c.life.hello,
			}})
		}
		welcome("a")
		c.Ask("S")
		welcome("b")
		require.Len(t, env.sent, waiting)
	}
}

// TestClientTellsOfANewCluster: a client that follows a newly founded cluster logs the change once,
// with both founders, because entities have lost what they kept in memory. It does not log its
// first cluster, nor another gateway of the same cluster.
func TestClientTellsOfANewCluster(t *testing.T) {
	c, env := newTestClient()
	for _, w := range []struct {
		gateway transport.Address
		founder string
		tells   bool
	}{{self, "a", false}, {other, "a", false}, {self, "b", true}, {other, "b", false}} {
		c.search(env.now)
		c.Tick()
		env.warned = nil
		c.gatewayMessage(transport.Peer{Address: w.gateway}, &wire.Gateway{Welcome: &wire.GatewayWelcome{
			Founder: &wire.GatewayNode{Name: w.founder, Incarnation: 1}, Hello: c.life.hello,
		}})
		if !w.tells {
			require.Empty(t, env.warned)
			continue
		}
		require.Len(t, env.warned, 1)
		require.Contains(t, env.warned[0], "the state of volatile entities is lost")
		anew, before := transport.Address{Name: "b", Incarnation: 1}, transport.Address{Name: "a", Incarnation: 1}
		require.Contains(t, env.warned[0], fmt.Sprint("founder ", anew, " before ", before))
	}
}

// TestClientAwaitsBouncesInItsLife: while calls await bounces, a client does not follow a new
// cluster, because these calls would fail although no process has received them. It says goodbye to
// the new cluster's member, and sends a hello again soon. It follows when no call awaits a bounce,
// or after putOffFor. It accepts another member of the old cluster at once.
func TestClientAwaitsBouncesInItsLife(t *testing.T) {
	for _, bounced := range []bool{false, true} {
		c, env := newTestClient()
		welcome := func(gateway transport.Address, founder string) {
			c.Tick()
			env.sentTo = nil
			c.gatewayMessage(transport.Peer{Address: gateway}, &wire.Gateway{Welcome: &wire.GatewayWelcome{
				Founder: &wire.GatewayNode{Name: founder, Incarnation: 1}, Hello: c.life.hello,
			}})
		}
		for _, w := range []struct{ before, founder string }{{"", "a"}, {"a", "b"}, {"b", "c"}} {
			c.search(env.now)
			env.bounces = true
			for began := env.now; w.before != "" && env.now.Sub(began) < putOffFor; env.now = env.now.Add(2 * AskDelay) {
				welcome(self, w.founder)
				require.Zero(t, c.Gateway())
				require.Equal(t, []transport.Peer{{Address: self}}, env.sentTo)
				require.True(t, c.WakeAt().After(env.now))
				require.False(t, c.WakeAt().After(began.Add(putOffFor)))
				if bounced {
					env.bounces = false
					break
				}
			}
			welcome(self, w.founder)
			require.Equal(t, self, c.Gateway().Address)
			env.bounces = true
			c.search(env.now)
			welcome(other, w.founder)
			require.Equal(t, other, c.Gateway().Address)
		}
	}
}

// TestClientThatPutsOffSaysFewHellos: a client whose calls await bounces in vain follows a new
// cluster after putOffFor, and sends few hellos until then.
func TestClientThatPutsOffSaysFewHellos(t *testing.T) {
	c, env := newTestClient()
	welcome := func(founder string) {
		c.gatewayMessage(transport.Peer{Address: self}, &wire.Gateway{Welcome: &wire.GatewayWelcome{
			Founder: &wire.GatewayNode{Name: founder, Incarnation: 1}, Hello: c.life.hello,
		}})
	}
	c.Tick()
	welcome("a")
	c.search(env.now)
	env.bounces = true
	began, before := env.now, c.life.hello
	for c.Gateway().IsZero() {
		env.now = c.WakeAt()
		c.Tick()
		env.now = env.now.Add(time.Millisecond)
		welcome("b")
	}
	require.InDelta(t, putOffFor, env.now.Sub(began), float64(5*time.Millisecond))
	require.Less(t, c.life.hello-before, uint64(10))
}

// TestSuspiciousClientAsksItsGateway: a client that learns that nobody listens at a peer sends a
// hello to its gateway at once, but not twice in a moment. Without a gateway it sends none.
func TestSuspiciousClientAsksItsGateway(t *testing.T) {
	c, env := newTestClient()
	c.Suspect()
	c.Tick()
	before := c.WakeAt()
	c.Suspect()
	require.Equal(t, before, c.WakeAt(), "no member serves it")
	c.gatewayMessage(transport.Peer{Address: self}, &wire.Gateway{Welcome: &wire.GatewayWelcome{
		Founder: &wire.GatewayNode{Name: "a", Incarnation: self.Incarnation}, Hello: c.life.hello,
	}})
	before = c.WakeAt()
	env.now = env.now.Add(AskDelay - 1)
	c.Suspect()
	require.Equal(t, before, c.WakeAt(), "it has just said hello")
	env.now = env.now.Add(1)
	c.Suspect()
	require.Equal(t, env.now, c.WakeAt())
}

// TestClientKeepsTheMembers: a client that has the latest list of members keeps it after a welcome
// without members.
func TestClientKeepsTheMembers(t *testing.T) {
	c, _ := newTestClient()
	c.Tick()
	founder := &wire.GatewayNode{Name: "a", Incarnation: self.Incarnation}
	for _, members := range [][]*wire.GatewayNode{{founder}, nil} {
		c.gatewayMessage(transport.Peer{Address: self}, &wire.Gateway{Welcome: &wire.GatewayWelcome{
			Founder: founder, Hello: c.life.hello, Members: members, Digest: 5,
		}})
		require.Equal(t, map[transport.Address]bool{self: true}, c.members)
	}
}

// TestClientWaitsForAGoodbye: a client closes its session with a former member only after
// byeAllowed, even if nobody listens at the peer's address: a leaving process stops listening
// first, and says goodbye when it has answered everything. A client does not part with a member.
func TestClientWaitsForAGoodbye(t *testing.T) {
	c, env := newTestClient()
	env.peers = []transport.Address{other}
	welcome := func(members ...transport.Address) {
		env.now = c.WakeAt()
		c.Tick()
		m := &wire.GatewayWelcome{Founder: &wire.GatewayNode{Name: "a", Incarnation: 2}, Hello: c.life.hello, Digest: uint64(len(members))}
		for _, a := range members {
			m.Members = append(m.Members, &wire.GatewayNode{Name: a.Name, Incarnation: a.Incarnation})
		}
		c.gatewayMessage(transport.Peer{Address: self}, &wire.Gateway{Welcome: m})
	}
	for range 2 {
		env.gone = nil
		welcome(self, other)
		for range 5 {
			c.Suspect()
			welcome(self, other)
		}
		require.Empty(t, env.gone, "it is a member")
		welcome(self)
		for since := env.now; env.now.Sub(since) < byeAllowed; welcome(self) {
			require.Empty(t, env.gone, "it may say goodbye after %v", env.now.Sub(since))
			c.Suspect()
		}
		require.Equal(t, []transport.Address{other}, env.gone)
	}
}
