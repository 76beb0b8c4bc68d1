package e2e

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/examples/counter/counter"
	"github.com/shardgen/shardgen/internal/e2e/process"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// An image is the container image that deploy/Dockerfile builds.
type image struct {
	program string
	args    []string
}

// buildImage runs the build command of deploy/Dockerfile.
func buildImage(t *testing.T) image {
	t.Helper()
	file, err := os.ReadFile("../../deploy/Dockerfile")
	require.NoError(t, err)
	last := func(instruction string) string {
		found := regexp.MustCompile(`(?m)^`+instruction+` (.*)$`).FindAllStringSubmatch(string(file), -1)
		require.NotEmpty(t, found, instruction)
		return found[len(found)-1][1]
	}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(last("RUN"), "/out/", dir+"/"))
	build.Dir = "../.."
	build.Env = append(os.Environ(), "TARGETOS="+runtime.GOOS, "TARGETARCH="+runtime.GOARCH, strings.Trim(last("ARG"), " "))
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var entry, args []string
	require.NoError(t, json.Unmarshal([]byte(last("ENTRYPOINT")), &entry))
	require.NoError(t, json.Unmarshal([]byte(last("CMD")), &args))
	require.Equal(t, []string{"/worker"}, entry)
	return image{filepath.Join(dir, "worker"), args}
}

// A worker is a process of the image.
type worker struct {
	*process.Process
	probes string
}

// run starts the image's entry point. args follow the image's own arguments, and override them. The
// process's environment is env alone.
func (i image) run(t *testing.T, name string, env []string, args ...string) *worker {
	t.Helper()
	all := append([]string{"-i"}, env...)
	all = append(append(all, i.program), i.args...)
	all = append(all, "-name", name, "-health", "127.0.0.1:0", "-leave-delay", "2s")
	p, err := process.Start(name, t.Output(), "env", append(all, args...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Kill() })
	const at = " serves probes at "
	said, err := p.AwaitThat(t.Context(), "to serve probes", func(e process.Event) bool { return strings.Contains(e.Error, at) })
	require.NoError(t, err)
	_, addr, _ := strings.Cut(said.Error, at)
	return &worker{p, "http://" + addr}
}

// answers waits until the probe at path answers with the status and a body that contains the text.
func (w *worker) answers(t *testing.T, path string, status int, text string) {
	t.Helper()
	var got string
	require.Eventually(t, func() bool {
		r, err := http.Get(w.probes + path)
		if err != nil {
			got = err.Error()
			return false
		}
		defer func() { _ = r.Body.Close() }()
		body, err := io.ReadAll(r.Body)
		got = fmt.Sprint(r.StatusCode, " ", string(body), err)
		return err == nil && r.StatusCode == status && strings.Contains(string(body), text)
	}, 2*time.Minute, 20*time.Millisecond, "%s %s: want %d and %q", w.Name(), path, status, text)
	t.Logf("%s %s: %s", w.Name(), path, strings.TrimSpace(got))
}

// notifySocket listens as systemd does. lines returns the lines received so far, and env is the
// environment of the unit.
func notifySocket(t *testing.T) (lines func() string, env []string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd") // t.TempDir is too long for a socket's name
	require.NoError(t, err)
	path := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	var mu sync.Mutex
	var all strings.Builder
	var reader sync.WaitGroup
	reader.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			mu.Lock()
			all.Write(append(buf[:n], '\n'))
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = conn.Close()
		reader.Wait()
		_ = os.RemoveAll(dir)
	})
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}, []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=10000000"}
}

// TestProbes runs workers as deploy/Dockerfile does. Without the broker the probes say that the
// workers live, that they are not ready, and why. On SIGTERM a worker first reports that it is not
// ready, while it still serves. Then it leaves, and no call is lost.
func TestProbes(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program and runs processes")
	}
	img := buildImage(t)
	program, err := elf.Open(img.program)
	if err == nil { // the image's program is for Linux
		for _, p := range program.Progs {
			require.NotEqual(t, elf.PT_INTERP, p.Type, "the program is not static: distroless/static has no loader")
		}
		require.NoError(t, program.Close())
	}
	server := natsproc.Start(t, "-js", "-sd", t.TempDir())
	nats := "NATS_URL=" + server.URL()
	notified, env := notifySocket(t)
	a := img.run(t, "a", append(env, nats))
	b := img.run(t, "b", []string{nats})
	for _, w := range []*worker{a, b} {
		w.answers(t, "/readyz", http.StatusOK, "ready")
		w.answers(t, "/settledz", http.StatusOK, "settled")
	}
	require.Eventually(t, func() bool { return strings.Contains(notified(), "READY=1") }, time.Minute, 10*time.Millisecond, "systemd is told that the worker is ready")

	require.NoError(t, server.Kill())
	a.answers(t, "/readyz", http.StatusServiceUnavailable, "- the broker has not been reached for ")
	a.answers(t, "/livez", http.StatusOK, "live")
	require.NoError(t, server.Start())
	for _, w := range []*worker{a, b} {
		w.answers(t, "/settledz", http.StatusOK, "settled")
	}

	conn, err := shard.Dial(t.Context(), shard.Config{Cluster: "counter", Name: "web", Transport: natstransport.New(server.URL()), CallTimeout: 2 * time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	client := counter.NewCounterClient(conn)
	var calls sync.WaitGroup
	var stop atomic.Bool
	added, failed := make([]int64, 8), make([]error, 8)
	for i := range added {
		calls.Go(func() {
			for !stop.Load() && failed[i] == nil {
				if _, failed[i] = client.Ref(fmt.Sprint("counter-", i)).Add(t.Context(), 1); failed[i] == nil {
					added[i]++
				}
			}
		})
	}
	require.NoError(t, a.Signal(syscall.SIGTERM))
	a.answers(t, "/readyz", http.StatusServiceUnavailable, "- the node drains: it still serves, and leaves the cluster in ")
	require.NoError(t, a.AwaitEnd(t.Context()))
	stop.Store(true)
	calls.Wait()
	for i := range added {
		require.NoError(t, failed[i])
		total, err := client.Ref(fmt.Sprint("counter-", i)).Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, added[i], total, "counter-%d", i)
	}
	require.Eventually(t, func() bool { return strings.Contains(notified(), "STOPPING=1") }, time.Minute, 10*time.Millisecond, "systemd is told that the worker stops")
	require.Contains(t, notified(), "WATCHDOG=1")
	b.answers(t, "/settledz", http.StatusOK, "settled")
}
