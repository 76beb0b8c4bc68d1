package shard_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport/memory"
)

const (
	testPatience = 2 * time.Minute // bounds what would hang; the race detector is slow on a busy machine
	testTick     = 5 * time.Millisecond
)

// testDirect is a variable of the environment that turns direct lanes on in all tests.
const testDirect = "SHARD_TEST_DIRECT"

// cluster is a cluster of nodes in one process, over one broker.
type cluster struct {
	t      *testing.T
	broker *memory.Broker
	probe  *fixture.Probe
	nodes  map[string]*shard.Node
	tune   func(*shard.Config)
	opts   []shard.HostOption
}

func newCluster(t *testing.T, names ...string) *cluster {
	c := emptyCluster(t)
	for _, n := range names {
		c.start(n)
	}
	return c
}

func emptyCluster(t *testing.T) *cluster {
	c := &cluster{
		t: t, broker: memory.NewBroker(memory.Options{}), nodes: map[string]*shard.Node{},
		probe: &fixture.Probe{
			Entered: make(chan string, 16), Release: make(chan struct{}), Left: make(chan error, 16),
		},
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			_ = n.Close()
		}
	})
	return c
}

func (c *cluster) config(name string) shard.Config {
	cfg := shard.Config{Cluster: "test", Name: name, Transport: c.broker.Transport(), Logger: logger(name), CallTimeout: testPatience / 4, Lanes: 4}
	if os.Getenv(testDirect) != "" {
		cfg.Direct.Listen = "127.0.0.1:0"
	}
	if c.tune != nil {
		c.tune(&cfg)
	}
	return cfg
}

func logger(name string) *slog.Logger {
	w := io.Discard
	if os.Getenv("SHARD_TEST_LOG") != "" {
		w = os.Stderr
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})).With("as", name)
}

// add makes a node that hosts accounts, without starting it.
func (c *cluster) add(name string) *shard.Node {
	n := shard.New(c.config(name))
	client := fixture.NewAccountClient(n)
	require.NoError(c.t, fixture.HostAccount(n, func() *fixture.Account {
		return &fixture.Account{Peers: client.API, Probe: c.probe}
	}, c.opts...))
	c.nodes[name] = n
	return n
}

func (c *cluster) start(name string) *shard.Node {
	c.t.Helper()
	n := c.add(name)
	require.NoError(c.t, n.Start(testContext(c.t)))
	return n
}

func (c *cluster) dial(name string) *shard.Conn {
	c.t.Helper()
	conn, err := shard.Dial(testContext(c.t), c.config(name))
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	t.Cleanup(cancel)
	return ctx
}

func TestOneNode(t *testing.T) {
	c := newCluster(t, "a")
	accounts := fixture.NewAccountClient(c.nodes["a"])
	for i := range int64(3) {
		got, err := accounts.Ref("alice").Add(testContext(t), 5)
		require.NoError(t, err)
		require.Equal(t, 5*(i+1), got)
	}
}

func TestThreeNodes(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	for _, n := range c.nodes {
		accounts := fixture.NewAccountClient(n)
		for i := range 100 {
			_, err := accounts.Ref(fmt.Sprint("account-", i)).Add(testContext(t), 1)
			require.NoError(t, err)
		}
	}
	conn := c.dial("client")
	for i := range 100 {
		got, err := fixture.NewAccountClient(conn).Ref(fmt.Sprint("account-", i)).Get(testContext(t))
		require.NoError(t, err)
		require.EqualValues(t, 3, got)
	}
}
