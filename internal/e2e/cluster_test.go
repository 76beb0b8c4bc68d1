package e2e

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// testCluster starts nodes in this process, for tests that do not need a process for each node.
type testCluster struct {
	t   *testing.T
	url string
	log *logBuffer

	transport transport.Transport // nil: by the URL
}

func newCluster(t *testing.T, url string) *testCluster {
	t.Helper()
	c := &testCluster{t: t, url: url, log: &logBuffer{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the cluster:\n%s", c.log)
		}
	})
	return c
}

func (c *testCluster) config(name string) shard.Config {
	over := c.transport
	if over == nil {
		over = natstransport.New(c.url)
	}
	return shard.Config{
		Cluster: "e2e", Name: name, Transport: over, Membership: membership.Options{JoinTimeout: 10 * time.Second},
		Logger: slog.New(slog.NewTextHandler(c.log, nil)),
	}
}

// host returns a node that hosts accounts and is not started yet. The test closes it.
func (c *testCluster) host(config shard.Config) *shard.Node {
	c.t.Helper()
	n := shard.New(config)
	c.t.Cleanup(func() { _ = n.Close() })
	if err := fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} }); err != nil {
		c.t.Fatal(err)
	}
	return n
}

func (c *testCluster) start(name string) *shard.Node {
	c.t.Helper()
	n := c.host(c.config(name))
	c.run(n)
	return n
}

// startEmpty starts a member that hosts nothing.
func (c *testCluster) startEmpty(name string) *shard.Node {
	c.t.Helper()
	n := shard.New(c.config(name))
	c.t.Cleanup(func() { _ = n.Close() })
	c.run(n)
	return n
}

func (c *testCluster) run(n *shard.Node) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	if err := n.Start(ctx); err != nil {
		c.t.Fatal(err)
	}
}

func (c *testCluster) dial(name string) *shard.Conn {
	c.t.Helper()
	conn, err := shard.Dial(c.t.Context(), c.config(name))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// await polls holds until it returns true.
func await(ctx context.Context, t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatalf("wait until %s: %v", what, ctx.Err())
		}
	}
}

// logBuffer keeps all log lines. It is safe for concurrent use.
type logBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}
