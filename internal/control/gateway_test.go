package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/coordinator"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

func client(i int) transport.Peer {
	return transport.Peer{Address: transport.Address{Name: fmt.Sprint("c", i), Incarnation: 1}, Client: true}
}

func hello(t *testing.T, asks ...string) []byte {
	t.Helper()
	b, err := proto.Marshal(&wire.Gateway{Hello: &wire.GatewayHello{Lanes: 1, Frame: wire.FrameVersion, Asks: asks}})
	require.NoError(t, err)
	return b
}

// TestInventedClientsAreBounded: hellos of invented clients take bounded memory and work, a client
// that is served already stays served, and invented ones are forgotten.
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
	for range 2 + int(gatewayForget/gatewayStatusEvery) {
		env.now = env.now.Add(gatewayStatusEvery)
		m.gateway.tick(env.now)
	}
	require.Empty(t, m.gateway.clients)
}

// TestOneClientsHellosAreBounded: a client that says hello without a pause is not answered each
// time, and is answered again a second later.
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

// TestInventedTypesAreBounded: types that clients ask for are bounded and expire, also those asked
// for by clients that never said hello.
func TestInventedTypesAreBounded(t *testing.T) {
	m, env, _ := newTestMember(t)
	var names []string
	for i := range 5 * maxAsked {
		names = append(names, fmt.Sprint("K", i))
	}
	require.NoError(t, m.gateway.message(client(0), hello(t, names...)))
	for i := range 5 * maxAsked {
		m.gateway.placement(client(1), coordinator.Ask{Kind: fmt.Sprint("L", i)})
	}
	require.LessOrEqual(t, len(m.gateway.asked), maxAsked)
	for range 5 {
		env.now = env.now.Add(time.Second)
		m.gateway.tick(env.now)
	}
	require.Empty(t, m.gateway.asked)
}
