package shard_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/wire/identity"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport"
	"github.com/shardgen/shardgen/transport/memory"
)

// stalled waits until no call of the load has been answered for a while.
func (l *load) stalled() {
	l.t.Helper()
	last, looks := l.calls.Load(), 0
	require.Eventually(l.t, func() bool {
		if now := l.calls.Load(); now != last {
			last, looks = now, 0
		}
		looks++
		return looks > 20
	}, testPatience, testTick)
}

// TestPausedBroker pauses the broker under load, so briefly that no call reaches its deadline: each
// call runs once.
func TestPausedBroker(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	conn := c.dial("client")
	l := startLoad(t, conn)
	for range 3 {
		l.waitFor(1000)
		c.broker.Stop()
		l.stalled()
		c.broker.Start()
	}
	l.waitFor(1000)
	l.end(conn)
	for name, n := range c.nodes {
		require.NoError(t, n.Err(), name)
	}
}

// TestCutLink loses all messages in one direction of one link for a while. Lost calls are sent
// again, and a call that was sent twice runs once.
func TestCutLink(t *testing.T) {
	t.Parallel()
	for _, p := range []memory.Path{
		{From: "client", To: "b"}, // calls
		{From: "b", To: "client"}, // answers
		{From: "a", To: "b"},      // calls and answers between the nodes
	} {
		t.Run(fmt.Sprint(p.From, " to ", p.To), func(t *testing.T) {
			c := newCluster(t, "a", "b")
			conn := c.dial("client")
			l := startLoad(t, conn, c.nodes["a"])
			for range 3 {
				l.waitFor(500)
				lost := c.broker.Lost()
				c.broker.Cut(p)
				require.Eventually(t, func() bool { return c.broker.Lost() > lost+3 }, testPatience, testTick)
				c.broker.Mend(p)
			}
			l.waitFor(500)
			l.end(conn)
		})
	}
}

// TestLossyLinks loses a part of all messages between two nodes and a client.
func TestLossyLinks(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	conn := c.dial("client")
	l := startLoad(t, conn, c.nodes["a"])
	l.waitFor(500)
	everywhere := memory.Path{From: memory.Any, To: memory.Any}
	c.broker.Lose(everywhere, 0.02)
	l.waitFor(3000)
	require.Eventually(t, func() bool { return c.broker.Lost() > 0 }, testPatience, testTick)
	c.broker.Mend(everywhere)
	l.waitFor(500)
	l.end(conn)
}

// TestForeignBytes sends bytes that no process of the cluster would send.
func TestForeignBytes(t *testing.T) {
	c := newCluster(t, "a")
	a := c.nodes["a"]
	accounts := fixture.NewAccountClient(c.dial("client"))
	_, err := accounts.Ref("bob").Add(testContext(t), 1)
	require.NoError(t, err)
	link, err := c.broker.Transport().Open(testContext(t), transport.Options{
		Cluster: "test", Self: transport.Address{Name: "stranger", Incarnation: identity.Mark(identity.Client, 7)}, Lanes: 4, Client: true,
		OnState: func(transport.Channel, transport.State) {},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, link.Close()) }()
	want := a.Counters()["foreign frame"]
	for _, bytes := range []string{"", "x", "GET / HTTP/1.1\r\n\r\n", string(make([]byte, 1000)), "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		for ch := transport.Control; ch < 4; ch++ {
			require.NoError(t, link.Send(ch, a.Peer(), 0, []byte(bytes)))
			want++
		}
	}
	require.Eventually(t, func() bool { return a.Counters()["foreign frame"] == want }, testPatience, testTick, "want %d", want)
	got, err := accounts.Ref("bob").Add(testContext(t), 1)
	require.NoError(t, err)
	require.EqualValues(t, 2, got)
}

// TestTellsKeepOrder: tells and calls of one caller to one account run in order.
func TestTellsKeepOrder(t *testing.T) {
	c := newCluster(t, "a", "b")
	for name, caller := range map[string]shard.Caller{"far": c.dial("client"), "a": c.nodes["a"], "b": c.nodes["b"]} {
		t.Run(name, func(t *testing.T) {
			accounts := fixture.NewAccountClient(caller)
			const entities, each = 20, 100
			for i := range each {
				for e := range entities {
					require.NoError(t, accounts.Tell(fmt.Sprint(name, e)).Note(context.Background(), fmt.Sprint(i)))
				}
			}
			for e := range entities {
				lines := accounts.Ref(fmt.Sprint(name, e)).Lines
				require.Eventually(t, func() bool {
					got, err := lines(testContext(t))
					return err == nil && len(got) == each
				}, testPatience, testTick)
				got, err := lines(testContext(t))
				require.NoError(t, err)
				for i, line := range got {
					require.Equal(t, fmt.Sprint(i), line)
				}
			}
		})
	}
}

// TestNobodyHosts: the errors of calls to a type without a host say so, and its tells are counted.
func TestNobodyHosts(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.CallTimeout = time.Second }
	n := shard.New(c.config("a"))
	c.nodes["a"] = n
	require.NoError(t, n.Start(testContext(t)))
	conn := c.dial("client")
	for name, caller := range map[string]interface {
		shard.Caller
		Counters() map[string]uint64
	}{"member": n, "client": conn} {
		t.Run(name, func(t *testing.T) {
			accounts := fixture.NewAccountClient(caller)
			_, err := accounts.Ref("bob").Add(context.Background(), 1)
			requireCall(t, err, shard.ErrNoHost, shard.NotExecuted)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			for range 3 {
				require.NoError(t, accounts.Tell("bob").Add(context.Background(), 1))
			}
			require.Eventually(t, func() bool { return caller.Counters()["tell lost"] == 3 }, testPatience, testTick)
		})
	}
}
