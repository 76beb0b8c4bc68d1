package e2e

import (
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/e2e/hostile"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/internal/wire/rights"
	shard "github.com/shardgen/shardgen/runtime"
)

// directCluster is a member that listens for direct lanes, and a client that calls it over one.
type directCluster struct {
	dir     string // of the server's configuration
	server  *natsproc.Server
	port    string
	workers *testCluster
	home    *shard.Node
	conn    *shard.Conn
	account fixture.AccountRef
	calls   int64
}

// directLanes returns a directCluster on a server with these users. Of these it needs worker and
// web.
func directLanes(t *testing.T, users map[string]rights.Rights) *directCluster {
	t.Helper()
	c := &directCluster{dir: t.TempDir()}
	var err error
	c.server, err = hostile.Guard(c.dir, users)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.server.Kill()) })
	c.workers = newCluster(t, hostile.URL(c.server, "worker"))
	config := c.workers.config("a")
	c.port, err = natsproc.FreeAddress("127.0.0.1")
	require.NoError(t, err)
	config.Direct.Listen = c.port
	c.home = c.workers.host(config)
	c.workers.run(c.home)
	web := newCluster(t, hostile.URL(c.server, "web")).config("web")
	web.Direct.Dial = true
	c.conn, err = shard.Dial(t.Context(), web)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.conn.Close() })
	c.account = fixture.NewAccountClient(c.conn).Ref("alice")
	await(t.Context(), t, "calls go directly", func() bool { c.call(t); return c.directFrames() > 0 })
	return c
}

// call makes one call, which must be applied once.
func (c *directCluster) call(t *testing.T) {
	t.Helper()
	c.calls++
	got, err := c.account.Add(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, c.calls, got)
}

// directFrames returns how many frames the client has sent over direct lanes.
func (c *directCluster) directFrames() uint64 { return c.conn.Counters()["frames sent directly"] }

// TestHostileDirect: connections of strangers to the port of direct lanes disturb no caller. A user
// that the server does not accept any more loses its direct lanes.
func TestHostileDirect(t *testing.T) {
	users := map[string]rights.Rights{"worker": rights.Worker("e2e", ""), "web": rights.Client("e2e", "web")}
	c := directLanes(t, users)
	for i := range 300 { // some connections send nothing, and some send no TLS
		stranger, err := net.Dial("tcp", c.port)
		require.NoError(t, err)
		t.Cleanup(func() { _ = stranger.Close() })
		if i%2 == 0 {
			_, _ = stranger.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		}
		if i%10 == 0 {
			c.call(t)
		}
	}
	require.Zero(t, endedLanes(c.home), "the flood has ended direct lanes")

	left := maps.Clone(users)
	delete(left, "web")
	require.NoError(t, hostile.Configure(c.dir, left))
	require.NoError(t, c.server.Reload())
	begin := time.Now()
	await(t.Context(), t, "the direct lanes of the revoked user have ended", func() bool { return endedLanes(c.home) > 0 })
	t.Logf("they ended after %v", time.Since(begin).Round(time.Millisecond))
	require.NoError(t, c.home.Err())
}

// endedLanes returns how many direct lanes of a member have ended.
func endedLanes(n *shard.Node) (ended uint64) {
	for name, count := range n.Counters() {
		if strings.HasPrefix(name, "direct lane ended: ") {
			ended += count
		}
	}
	return ended
}
