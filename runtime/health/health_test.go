package health_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/health"
)

func TestHandler(t *testing.T) {
	states := map[string]shard.Health{
		"good":     {Live: true, Ready: true, Settled: true},
		"noted":    {Live: true, Ready: true, Reasons: []string{"n2 cannot be reached"}},
		"draining": {Live: true, Ending: true, Reasons: []string{"the node drains", "two\nlines"}},
		"ended":    {Ending: true, Reasons: []string{"the node has stopped"}},
	}
	for _, c := range []struct {
		state, path string
		code        int
		body        string
	}{
		{"good", "/livez", 200, "live\n"},
		{"good", "/readyz", 200, "ready\n"},
		{"good", "/settledz", 200, "settled\n"},
		{"noted", "/livez", 200, "live\n- n2 cannot be reached\n"},
		{"noted", "/readyz", 200, "ready\n- n2 cannot be reached\n"},
		{"noted", "/settledz", 503, "not settled\n- n2 cannot be reached\n"},
		{"draining", "/livez", 200, "live\n- the node drains\n- two; lines\n"},
		{"draining", "/readyz", 503, "not ready\n- the node drains\n- two; lines\n"},
		{"draining", "/settledz", 503, "not settled\n- the node drains\n- two; lines\n"},
		{"ended", "/livez", 503, "not live\n- the node has stopped\n"},
		{"ended", "/readyz", 503, "not ready\n- the node has stopped\n"},
	} {
		h := health.Handler(func() shard.Health { return states[c.state] })
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, c.path, nil))
		require.Equal(t, c.code, w.Code, "%s %s", c.state, c.path)
		require.Equal(t, c.body, w.Body.String(), "%s %s", c.state, c.path)
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	}
	h := health.Handler(func() shard.Health { return shard.Health{} })
	for _, r := range []*http.Request{httptest.NewRequest(http.MethodPost, "/livez", nil), httptest.NewRequest(http.MethodGet, "/", nil)} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Contains(t, []int{http.StatusMethodNotAllowed, http.StatusNotFound}, w.Code)
	}
}

// listen opens a notify socket as systemd does, and sets NOTIFY_SOCKET to its path.
func listen(t *testing.T) *net.UnixConn {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd") // t.TempDir is too long for a socket's name
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	t.Setenv("NOTIFY_SOCKET", path)
	return conn
}

// next reads one message.
func next(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	require.NoError(t, err)
	return string(buf[:n])
}

// until reads messages until one has the line. It reports whether an earlier message had the line
// other.
func until(t *testing.T, conn *net.UnixConn, line, other string) (had bool) {
	t.Helper()
	for {
		lines := strings.Split(next(t, conn), "\n")
		for _, l := range lines {
			if l == line {
				return had
			}
			had = had || l == other
		}
	}
}

func TestNotify(t *testing.T) {
	conn := listen(t)
	t.Setenv("WATCHDOG_USEC", "30000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	var now atomic.Pointer[shard.Health]
	now.Store(&shard.Health{Live: true, Reasons: []string{"not up"}})
	done := make(chan error, 1)
	go func() { done <- health.Notify(context.Background(), func() shard.Health { return *now.Load() }) }()

	require.Equal(t, "STATUS=not up\nWATCHDOG=1", next(t, conn))
	require.Equal(t, "WATCHDOG=1", next(t, conn), "the watchdog is fed before the node is ready")
	now.Store(&shard.Health{Live: true, Ready: true})
	require.False(t, until(t, conn, "STATUS=ready", "STOPPING=1"))
	now.Store(&shard.Health{Live: true, Reasons: []string{"the broker has not been reached"}})
	until(t, conn, "STATUS=the broker has not been reached", "")
	now.Store(&shard.Health{Live: true, Ready: true})
	require.False(t, until(t, conn, "STATUS=ready", "READY=1"), "ready is said once")

	now.Store(&shard.Health{Reasons: []string{"stuck"}})
	until(t, conn, "STATUS=stuck", "")
	now.Store(&shard.Health{Reasons: []string{"still stuck"}})
	require.Equal(t, "STATUS=still stuck", next(t, conn), "the watchdog is not fed any more")
	now.Store(&shard.Health{Live: true, Ending: true, Reasons: []string{"drains"}})
	require.Equal(t, "STATUS=drains\nWATCHDOG=1", next(t, conn))
	require.Equal(t, "STOPPING=1", next(t, conn))
	require.NoError(t, <-done)
}

// TestNotifyReady: Notify sends READY=1 when the node is ready for the first time, and not before.
func TestNotifyReady(t *testing.T) {
	conn := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- health.Notify(ctx, func() shard.Health { return shard.Health{Live: true, Ready: true} })
	}()
	require.Equal(t, "READY=1\nSTATUS=ready", next(t, conn), "without WATCHDOG_USEC nothing feeds a watchdog")
	cancel()
	require.Equal(t, "STOPPING=1", next(t, conn))
	require.NoError(t, <-done)
}

func TestNotifyElsewhere(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	require.NoError(t, health.Notify(context.Background(), nil), "no systemd")
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, health.Notify(context.Background(), nil), "notify systemd: ")
}
