package shard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/transport"
)

// TestForbiddenEnvelopesDoNothing: a client sends calls in the name of other processes and of turns
// that it does not run, and messages that only members may send. None is executed, and each is
// counted. The client's allowed calls before, between and behind them are executed.
func TestForbiddenEnvelopesDoNothing(t *testing.T) {
	c := newCluster(t, "a")
	home := c.nodes["a"]
	evil, victim := c.dial("evil"), c.dial("victim")
	accounts := fixture.NewAccountClient(evil)
	add := func(n, want int64) {
		t.Helper()
		got, err := accounts.Ref("bob").Add(testContext(t), n)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	add(1, 1)
	_, epoch := home.Placed("Account", "bob")
	method, payload := []byte("Add"), codegen.AppendInt(codegen.NewArgs(), 1, int64(100))
	forbidden := func() uint64 { return home.Counters()["forbidden message"] }
	evil.Inject(home.Peer(), "Account", "bob", wire.Envelope{Type: wire.TypeTell, Epoch: epoch, Method: method, Payload: payload})
	add(1, 102) // the envelopes injected below would be executed if they were allowed
	require.Zero(t, forbidden())
	for i, e := range []wire.Envelope{
		{Type: wire.TypeCall, ID: 1, Node: victim.Peer()},
		{Type: wire.TypeCall, ID: 1, Node: home.Peer()},
		{Type: wire.TypeCall, ID: 1, Node: evil.Peer()},
		{Type: wire.TypeTell, Node: home.Peer()},
		{Type: wire.TypeTell, Node: transport.Peer{Address: transport.Address{Name: "nobody", Incarnation: 1}}},
		{Type: wire.TypeCall, ID: 1, Chain: []byte("x")},
		{Type: wire.TypeTell, Chain: []byte("x")},
		{Type: wire.TypeAnswer, ID: 1},
		{Type: wire.TypeRefusal, ID: 1, Seq: 1},
		{Type: wire.TypeFlushed, Node: victim.Peer(), Via: home.Peer()},
		{Type: wire.TypeInit},
		{Type: wire.TypeReady},
		{Type: wire.TypeOpen},
		{Type: wire.TypeReject},
	} {
		e.Epoch, e.Method, e.Payload = epoch, method, payload
		evil.Inject(home.Peer(), "Account", "bob", e)
		add(1, 103+int64(i))
		require.EqualValues(t, i+1, forbidden())
	}
	require.NoError(t, home.Err())
	got, err := fixture.NewAccountClient(victim).Ref("bob").Get(testContext(t))
	require.NoError(t, err)
	require.EqualValues(t, 116, got)
}
