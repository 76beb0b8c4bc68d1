package shard_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/e2e/proxy"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport"
	"github.com/shardgen/shardgen/transport/memory"
)

// directly makes all nodes listen, and clients dial them.
func (c *cluster) directly() *cluster {
	c.tune = func(cfg *shard.Config) { cfg.Direct.Listen = "127.0.0.1:0" }
	return c
}

// through starts the nodes, and proxies through which others dial them.
func (c *cluster) through(names ...string) (proxies []*proxy.Proxy) {
	for _, name := range names {
		p, err := proxy.New()
		require.NoError(c.t, err)
		c.t.Cleanup(p.Close)
		c.tune = func(cfg *shard.Config) {
			cfg.Direct = shard.DirectOptions{Listen: "127.0.0.1:0", Advertise: p.Addr()}
		}
		n := c.start(name)
		p.Forward(n.DirectAddr())
		proxies = append(proxies, p)
	}
	c.tune = func(cfg *shard.Config) { cfg.Direct.Dial = true }
	return proxies
}

// counts is a node or a connection.
type counts interface{ Counters() map[string]uint64 }

// awaitDirect waits until each of the processes sends frames directly.
func awaitDirect(t *testing.T, all ...counts) {
	t.Helper()
	for _, c := range all {
		before := c.Counters()["frames sent directly"]
		require.Eventually(t, func() bool { return c.Counters()["frames sent directly"] > before+10 }, testPatience, testTick)
	}
}

// endedDirect returns how many direct lanes of a process have ended for a reason.
func endedDirect(c counts, why string) uint64 { return c.Counters()["direct lane ended: "+why] }

func TestCallsGoDirect(t *testing.T) {
	t.Parallel()
	c := newClusterDirectly(t, "a", "b")
	conn := c.dial("client")
	l := startLoad(t, conn, c.nodes["a"])
	awaitDirect(t, conn, c.nodes["a"], c.nodes["b"])
	l.waitFor(5000)
	for name, n := range c.nodes {
		require.LessOrEqual(t, n.DirectLanes(), 2*4, "%s: one for each lane and peer", name)
		require.Zero(t, n.Counters()["direct lane refused"], name)
	}
	l.end(conn)
}

func newClusterDirectly(t *testing.T, names ...string) *cluster {
	c := emptyCluster(t).directly()
	for _, n := range names {
		c.start(n)
	}
	return c
}

// TestDirectLeave: members leave in order while calls go directly.
func TestDirectLeave(t *testing.T) {
	t.Parallel()
	c := newClusterDirectly(t, "a", "b", "c")
	conn := c.dial("client")
	l := startLoad(t, conn, c.nodes["b"])
	awaitDirect(t, conn, c.nodes["b"])
	for _, leaver := range []string{"a", "c"} {
		l.waitFor(1000)
		require.NoError(t, c.nodes[leaver].Shutdown(testContext(t)))
		require.Zero(t, c.nodes[leaver].Counters()["not acknowledged"])
		l.waitFor(1000)
	}
	l.end(conn)
}

// TestDirectCut closes connections in the middle of a load, in order, with a reset, or in the
// middle of a frame: each call runs once.
func TestDirectCut(t *testing.T) {
	for name, cut := range map[string]func(*proxy.Proxy) int{
		"closed": func(p *proxy.Proxy) int { return p.Cut(false) },
		"reset":  func(p *proxy.Proxy) int { return p.Cut(true) },
		"reset in a frame": func(p *proxy.Proxy) int {
			p.ResetAfter(5000 + 37)
			require.Eventually(t, p.Spent, testPatience, testTick)
			p.ResetAfter(-1)
			return p.Cut(true) + 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := emptyCluster(t)
			proxies := c.through("a", "b")
			conn := c.dial("client")
			l := startLoad(t, conn, c.nodes["a"])
			for range 3 {
				awaitDirect(t, conn)
				l.waitFor(300)
				n := 0
				for _, p := range proxies {
					n += cut(p)
				}
				require.NotZero(t, n)
				l.waitFor(300)
			}
			l.end(conn)
			require.NotZero(t, endedDirect(conn, "broken or closed by the peer"))
		})
	}
}

// TestDirectBlackHole: a connection that delivers nothing any more is given up after
// stream.RetryAfter, and made anew later.
func TestDirectBlackHole(t *testing.T) {
	underLoad(t)
	c := emptyCluster(t)
	proxies := c.through("a", "b")
	conn := c.dial("client")
	l := startLoad(t, conn, c.nodes["a"])
	for i := range 2 {
		awaitDirect(t, conn)
		for _, p := range proxies {
			p.Hold(true)
		}
		require.Eventually(t, func() bool {
			return endedDirect(conn, "stalled")+endedDirect(conn, "broken or closed by the peer") > uint64(i)
		}, testPatience, testTick)
		l.waitFor(1000)
		for _, p := range proxies {
			p.Hold(false)
		}
	}
	l.end(conn)
	require.NotZero(t, endedDirect(conn, "stalled")+endedDirect(c.nodes["a"], "stalled")+endedDirect(c.nodes["b"], "stalled"))
}

// TestDirectFlap: tells and calls keep their order while connections come and go.
func TestDirectFlap(t *testing.T) {
	underLoad(t)
	c := emptyCluster(t)
	proxies := c.through("a", "b")
	conn := c.dial("client")
	accounts := fixture.NewAccountClient(conn)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	const entities = 8
	sent := make([]int, entities)
	const most = 50_000 // lines of an entity, which are read in one answer
	for e := range entities {
		wg.Go(func() {
			id := fmt.Sprint("flap-", e)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if sent[e] < most {
					if err := accounts.Tell(id).Note(context.Background(), fmt.Sprint(sent[e])); err != nil {
						t.Error(err)
						return
					}
					sent[e]++
				}
				if sent[e]%64 == 0 || sent[e] == most {
					if _, err := accounts.Ref(id).Get(testContext(t)); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for range 4 {
		awaitDirect(t, conn)
		for _, p := range proxies {
			p.Cut(true)
		}
	}
	close(stop)
	wg.Wait()
	for e := range entities {
		got, err := accounts.Ref(fmt.Sprint("flap-", e)).Lines(testContext(t))
		require.NoError(t, err)
		require.Len(t, got, sent[e])
		for i, line := range got {
			require.Equal(t, fmt.Sprint(i), line)
		}
	}
	require.GreaterOrEqual(t, conn.Counters()["direct lane opened"], uint64(4))
}

// TestDirectRefused: if a firewall closes the port, a process only tries again, with back-off.
func TestDirectRefused(t *testing.T) {
	underLoad(t)
	c := emptyCluster(t)
	proxies := c.through("a")
	proxies[0].Refuse(true)
	conn := c.dial("client")
	l := startLoad(t, conn)
	require.Eventually(t, func() bool { return conn.Counters()["direct lane refused"] >= 2 }, testPatience, testTick)
	l.waitFor(500)
	require.Zero(t, conn.Counters()["frames sent directly"])
	proxies[0].Refuse(false)
	awaitDirect(t, conn)
	l.end(conn)
}

// TestDirectMixed: processes with and without direct lanes work together.
func TestDirectMixed(t *testing.T) {
	underLoad(t)
	c := newCluster(t, "a")
	c.directly().start("b")
	conn := c.dial("client")
	l := startLoad(t, conn, c.nodes["a"], c.nodes["b"])
	awaitDirect(t, conn)
	l.waitFor(2000)
	l.end(conn)
	require.Zero(t, c.nodes["a"].Counters()["frames sent directly"])
}

// TestDirectRevoked: a client whose messages no longer arrive through the broker loses its direct
// lanes too.
func TestDirectRevoked(t *testing.T) {
	underLoad(t)
	c := newClusterDirectly(t, "a")
	conn := c.dial("client")
	l := startLoad(t, conn)
	awaitDirect(t, conn)
	c.broker.Cut(memory.Path{From: "client", To: "a"})
	require.Eventually(t, func() bool { return c.nodes["a"].DirectLanes() == 0 }, testPatience, testTick)
	require.Eventually(t, func() bool { // the end is counted soon after the lane has gone
		starved := endedDirect(c.nodes["a"], "stalled") + endedDirect(c.nodes["a"], "broken or closed by the peer")
		return starved+endedDirect(c.nodes["a"], "not heard through the broker") > 0
	}, testPatience, testTick)
	c.broker.Mend(memory.Path{From: "client", To: "a"})
	awaitDirect(t, conn)
	l.end(conn)
}

// TestDirectForged: a client that names another one in a frame loses its connection, and the frame
// is not handled. Restrictions of clients hold on direct lanes too.
func TestDirectForged(t *testing.T) {
	underLoad(t)
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.Lanes, cfg.Direct.Listen = 1, "127.0.0.1:0" }
	a, conn := c.start("a"), c.dial("client")
	accounts := fixture.NewAccountClient(conn)
	_, err := accounts.Ref("bob").Add(testContext(t), 1)
	require.NoError(t, err)
	l := startLoad(t, conn)
	awaitDirect(t, conn)
	l.end(conn)
	for name, from := range map[string]transport.Peer{
		"another client":      {Address: transport.Address{Name: "other", Incarnation: identity.Mark(identity.Client, 9)}, Client: true},
		"another incarnation": {Address: transport.Address{Name: "client", Incarnation: identity.Mark(identity.Client, 9)}, Client: true},
		"the member itself":   a.Peer(),
		"a member":            {Address: transport.Address{Name: "b", Incarnation: 9}},
	} {
		forged, foreign := endedDirect(a, "forged frame"), a.Counters()["foreign frame"]
		frame := wire.AppendFrameHeader(nil, &wire.FrameHeader{Version: wire.FrameVersion, From: from, Seq: 1, Window: 1 << 20})
		require.Eventually(t, func() bool {
			if endedDirect(a, "forged frame") > forged {
				return true
			}
			if direct := conn.DirectLane(a.Peer(), 0); direct != nil { // nil: the lane has ended, and traffic restores it
				_ = direct.Send(frame) // the connection may end for another reason before the frame is read
			}
			_, _ = accounts.Ref("bob").Get(testContext(t))
			return false
		}, testPatience, testTick, name)
		require.Greater(t, a.Counters()["foreign frame"], foreign, name)
	}
	got, err := accounts.Ref("bob").Get(testContext(t))
	require.NoError(t, err)
	require.EqualValues(t, 1, got)
}

// TestDirectListenFails: Start says which address cannot be used, and may be called again.
func TestDirectListenFails(t *testing.T) {
	c := emptyCluster(t)
	for listen, why := range map[string]string{"256.0.0.1:1": "direct lanes", ":0": "Config.Direct.Advertise"} {
		c.tune = func(cfg *shard.Config) { cfg.Direct.Listen = listen }
		n := c.add("a")
		require.ErrorContains(t, n.Start(testContext(t)), why)
		require.NoError(t, n.Close())
	}
}

// underLoad makes a test run in parallel, and skips it with the race detector: its callers call
// without a pause, and would leave the other tests no processor time.
func underLoad(t *testing.T) {
	t.Helper()
	if invariant.Race {
		t.Skip("it takes all processor time with the race detector")
	}
	t.Parallel()
}
