package e2e

import (
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/e2e/hostile"
	"github.com/shardgen/shardgen/internal/fixture"
	"github.com/shardgen/shardgen/internal/rights"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestHostileDirect: connections of strangers to the port of direct lanes hinder nobody, and a user that
// the server does not know any more loses its direct lanes.
func TestHostileDirect(t *testing.T) {
	dir := t.TempDir()
	users := map[string]rights.Rights{"worker": rights.Worker("e2e", ""), "web": rights.Client("e2e", "web")}
	server, err := hostile.Guard(dir, users)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Kill()) })
	workers := newCluster(t, hostile.URL(server, "worker"))
	config := workers.config("a")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := free.Addr().String()
	require.NoError(t, free.Close())
	config.Direct.Listen = port
	a := workers.host(config)
	workers.run(a)
	web := newCluster(t, hostile.URL(server, "web")).config("web")
	web.Direct.Dial = true
	conn, err := shard.Dial(t.Context(), web)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	account := fixture.NewAccountClient(conn).Ref("alice")
	calls := int64(0)
	call := func() {
		calls++
		got, err := account.Add(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, calls, got)
	}
	await(t.Context(), t, "calls go directly", func() bool { call(); return conn.Counters()["frames sent directly"] > 0 })

	for i := range 300 { // some say nothing, and some no TLS
		c, err := net.Dial("tcp", port)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		if i%2 == 0 {
			_, _ = c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		}
		if i%10 == 0 {
			call()
		}
	}
	require.Zero(t, endedLanes(a), "the flood has ended direct lanes")

	left := maps.Clone(users)
	delete(left, "web")
	require.NoError(t, hostile.Configure(dir, left))
	require.NoError(t, server.Reload())
	begin := time.Now()
	await(t.Context(), t, "the direct lanes of the revoked user have ended", func() bool { return endedLanes(a) > 0 })
	t.Logf("they ended after %v", time.Since(begin).Round(time.Millisecond))
	require.NoError(t, a.Err())
}

// endedLanes is how many direct lanes of a member have ended.
func endedLanes(n *shard.Node) (ended uint64) {
	for name, count := range n.Counters() {
		if strings.HasPrefix(name, "direct lane ended: ") {
			ended += count
		}
	}
	return ended
}
