package natstransport_test

import (
	"context"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/transport"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// TestAsk: a link asks another server than its own about a member. Only the chosen instance of the
// server answers.
func TestAsk(t *testing.T) {
	nodeB := transport.Address{Name: "b", Incarnation: 0xb}
	one := startClustered(t, nil, "one")
	two := startClustered(t, one, "two")
	three := startClustered(t, one, "three")
	stay := natstransport.ConnectOptions(nats.DontRandomize())
	a := openWith(t, one.ClientURL(), optionsOf(nodeA), stay)
	b := openWith(t, two.ClientURL(), optionsOf(nodeB), stay)
	scout := a.(transport.Scout)
	is := func(id string) func(string) bool { return func(server string) bool { return server == id } }

	listens, err := scout.Ask(t.Context(), is(two.ID()), nodeB, []byte("x"))
	require.NoError(t, err)
	require.True(t, listens)
	wantMessage(t, b, transport.Control, transport.Direct, "x")
	require.Equal(t, one.ID(), a.State(transport.Control).Server, "the link has not moved")

	before := two.NumClients()
	require.NoError(t, b.Close())
	var all sync.WaitGroup
	for range 8 { // concurrent questions share the connection
		all.Go(func() {
			for listens := true; listens; {
				var err error
				if listens, err = scout.Ask(t.Context(), is(two.ID()), nodeB, nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	require.Less(t, two.NumClients(), before)

	_, err = scout.Ask(t.Context(), is("nobody"), nodeB, nil)
	require.ErrorContains(t, err, "ask about b")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = scout.Ask(ended, is(two.ID()), nodeB, nil)
	require.ErrorIs(t, err, context.Canceled)

	atOne, id := one.NumClients(), two.ID()
	two.Shutdown() // its members and questions are gone; no other server is asked in its place
	for range 5 {
		_, err = scout.Ask(t.Context(), is(id), nodeB, nil)
		require.Error(t, err)
	}
	for one.NumClients() > atOne || three.NumClients() > 0 {
		require.NoError(t, t.Context().Err())
	}

	require.NoError(t, a.Close())
	_, err = scout.Ask(t.Context(), is(three.ID()), nodeB, nil)
	require.Error(t, err)
	for one.NumClients()+three.NumClients() > 0 {
		require.NoError(t, t.Context().Err())
	}
}
