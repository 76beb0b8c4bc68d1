package natstransport_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// A running server gets a smaller limit. It does not announce that, but breaks a connection on
// which more is sent. The outcome of that call is unknown, the calls after it run, and larger calls
// are refused from then on.
func TestServerLimitIsReloaded(t *testing.T) {
	addr := freeAddress(t)
	var port int
	_, err := fmt.Sscanf(addr, "127.0.0.1:%d", &port)
	require.NoError(t, err)
	options := func(limit int32) *server.Options {
		return &server.Options{Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true, MaxPayload: limit}
	}
	s, err := server.NewServer(options(1 << 20))
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(patience))

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	config := func(name string) shard.Config {
		return shard.Config{Cluster: "limit", Name: name, Lanes: 2, Transport: natstransport.New("nats://" + addr)}
	}
	n := shard.New(config("a"))
	require.NoError(t, fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} }))
	require.NoError(t, n.Start(ctx))
	t.Cleanup(func() { _ = n.Close() })
	conn, err := shard.Dial(ctx, config("client"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	bob := fixture.NewAccountClient(conn).Ref("bob")
	large := make([]byte, 200_000)
	_, err = bob.Echo(ctx, large)
	require.NoError(t, err)

	require.NoError(t, s.ReloadOptions(options(64<<10)))
	for i := range 3 {
		_, err = bob.Echo(ctx, large)
		require.ErrorIs(t, err, shard.ErrTooLarge)
		if i > 0 {
			require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
		}
		begin := time.Now()
		_, err = bob.Add(ctx, 1)
		require.NoError(t, err)
		t.Logf("the call behind it took %v", time.Since(begin).Round(time.Millisecond))
	}
}
