package natstransport

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/transport"
)

// TestUpkeepExpiresRoutes: an open link drops cached routes even if it is not used.
func TestUpkeepExpiresRoutes(t *testing.T) {
	tr := New(natsproc.Start(t).URL(), ConnectOptions(nats.PingInterval(50*time.Millisecond)))
	opened, err := tr.Open(t.Context(), transport.Options{
		Cluster: "c", Self: transport.Address{Name: "n", Incarnation: 1}, Lanes: 1, OnState: func(transport.Channel, transport.State) {},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = opened.Close() })
	r := &opened.(*link).channels[0].routes
	_, err = r.route(transport.Peer{Address: transport.Address{Name: "m", Incarnation: 2}})
	require.NoError(t, err)
	r.mu.Lock()
	r.began = time.Now().Add(-routesFor)
	r.mu.Unlock()
	require.Eventually(t, func() bool {
		r.mu.RLock()
		defer r.mu.RUnlock()
		return len(r.byPeer) == 0
	}, 10*time.Second, 5*time.Millisecond)
}
