package shard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	shard "github.com/shardgen/shardgen/runtime"
)

// directly has all nodes listen, and clients dial them.
func (c *cluster) directly() *cluster {
	c.tune = func(cfg *shard.Config) {
		cfg.Direct = shard.DirectOptions{Listen: "127.0.0.1:0"}
	}
	return c
}

// counts is a node or a connection.
type counts interface{ Counters() map[string]uint64 }

// awaitDirect waits until a process sends frames directly.
func awaitDirect(t *testing.T, all ...counts) {
	t.Helper()
	for _, c := range all {
		before := c.Counters()["frames sent directly"]
		require.Eventually(t, func() bool { return c.Counters()["frames sent directly"] > before+10 }, testPatience, testTick)
	}
}

func TestCallsGoDirect(t *testing.T) {
	c := emptyCluster(t).directly()
	a, b := c.start("a"), c.start("b")
	conn := c.dial("client")
	l := startLoad(t, conn, a)
	awaitDirect(t, conn, a, b)
	l.waitFor(10000)
	l.end(conn)
	for name, c := range map[string]counts{"a": a, "b": b, "conn": conn} {
		t.Log(name, c.Counters())
	}
}
