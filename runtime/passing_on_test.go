package shard_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport"
)

// slow is a transport that loses messages. After the first large frame from node a to node b on a
// lane, everything that b sends to a on this lane is lost until heal is called.
type slow struct {
	transport.Transport
	name string
	*slowLane
}

type slowLane struct {
	lane atomic.Int64  // one more than the lane whose frames are lost; 0: none yet, -1: healed
	lost atomic.Uint64 // frames
}

func (s *slowLane) heal() { s.lane.Store(-1) }

func (s *slow) Open(ctx context.Context, o transport.Options) (transport.Link, error) {
	l, err := s.Transport.Open(ctx, o)
	return &slowLink{l, s}, err
}

type slowLink struct {
	transport.Link
	slow *slow
}

func (l *slowLink) Send(ch transport.Channel, to transport.Peer, token uint64, payload []byte) error {
	s := l.slow
	switch {
	case s.name == "a" && to.Name == "b" && ch != transport.Control && len(payload) > 8<<10:
		s.lane.CompareAndSwap(0, int64(ch)+1)
	case s.name == "b" && to.Name == "a" && ch != transport.Control && s.lane.Load() == int64(ch)+1:
		s.lost.Add(1)
		return nil
	}
	return l.Link.Send(ch, to, token, payload)
}

// leaveWithTells makes the node a leave while many tells wait at it for one of its entities. They
// are more than fit into one window to b. It returns when a is out of the cluster and b has
// acknowledged none of the tells.
func leaveWithTells(t *testing.T, tells int) (c *cluster, conn *shard.Conn, lane *slowLane, down chan error) {
	c, lane = emptyCluster(t), &slowLane{}
	c.tune = func(cfg *shard.Config) {
		cfg.Limits.Window = 64 << 10
		if cfg.Name == "a" || cfg.Name == "b" {
			cfg.Transport = &slow{cfg.Transport, cfg.Name, lane}
		}
	}
	b, a := c.start("b"), c.start("a")
	conn = c.dial("client")
	accounts := fixture.NewAccountClient(conn)
	add(t, accounts, "bob", 1)
	at, err := a.Locate(testContext(t), "Account", "bob")
	require.NoError(t, err)
	pins := map[uint32]string{}
	for n := range uint32(256) {
		pins[256+n] = "b"
	}
	pins[at.Shard] = "a"
	require.NoError(t, b.PinShards(testContext(t), "Account", pins))
	c.awaitHomes(b, map[string]int{"a": 1, "b": 255})

	held := make(chan error, 1)
	go func() { held <- accounts.Ref("bob").Hold(context.Background()) }()
	receive(t, c.probe.Entered, "bob's turn begins")
	down = make(chan error, 1)
	go func() { down <- a.Shutdown(testContext(t)) }()
	bobs := func() (s shard.ShardState) {
		for _, s = range a.LocalShards("Account") {
			if s.Shard == at.Shard {
				return s
			}
		}
		return s
	}
	require.Eventually(t, func() bool { return bobs().State == "draining" }, testPatience, testTick)
	for i := range tells {
		require.NoError(t, accounts.Tell("bob").Note(testContext(t), fmt.Sprint(i, strings.Repeat(" ", 4<<10))))
	}
	require.Eventually(t, func() bool { return bobs().Waiting == tells }, testPatience, testTick)
	close(c.probe.Release)
	require.NoError(t, receive(t, held, "bob's turn ends"))
	require.Eventually(t, func() bool {
		for _, m := range b.Cluster().Members {
			if m.Name == "a" {
				return false
			}
		}
		return true
	}, testPatience, testTick)
	return c, conn, lane, down
}

// TestLeavingPassesEverythingOn: a leaving node waits until the next home has taken all forwarded
// tells, however slowly the home acknowledges them.
func TestLeavingPassesEverythingOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // virtual time: a busy machine delays nothing
		const tells = 100
		_, conn, lane, down := leaveWithTells(t, tells)
		// Node a goes on trying.
		lost, ended := lane.lost.Load(), false
		require.Eventually(t, func() bool {
			select {
			case err := <-down:
				require.NoError(t, err)
				ended = true
			default:
			}
			return ended || lane.lost.Load() >= lost+1
		}, testPatience, testTick)
		lane.heal()
		if !ended {
			require.NoError(t, receive(t, down, "a leaves"))
		}
		lines, err := fixture.NewAccountClient(conn).Ref("bob").Lines(testContext(t))
		require.NoError(t, err)
		require.Len(t, lines, tells)
	})
}

// TestLeavingEndsInTime: a next home that acknowledges nothing delays a leaving node only for a
// moment. The node then sends the remaining tells without waiting, and counts them. The next home
// holds later calls of their senders back no longer than region.BarrierTimeout, so tells that
// arrive after that may be refused, which is counted too.
func TestLeavingEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // as above
		const tells = 100
		c, conn, _, down := leaveWithTells(t, tells)
		require.NoError(t, receive(t, down, "a leaves"))
		require.NotZero(t, c.nodes["a"].Counters()["not acknowledged"])
		require.Eventually(t, func() bool {
			lines, err := fixture.NewAccountClient(conn).Ref("bob").Lines(testContext(t))
			return err == nil && len(lines)+int(c.nodes["b"].Counters()["tell lost"]) == tells
		}, testPatience, testTick, "every tell runs or is counted")
	})
}
