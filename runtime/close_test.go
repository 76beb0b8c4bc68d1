package shard_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport"
	"github.com/shardgen/shardgen/transport/memory"
)

// stuck is a transport whose links take no message and do not close once jam was called, as if the
// broker had stopped reading.
type stuck struct {
	transport.Transport
	jammed  chan struct{} // closed by jam
	free    chan struct{} // closed by release
	waiting atomic.Int64  // number of goroutines that wait for release
	lanes   bool          // the control channel goes on
}

func newStuck(t transport.Transport) *stuck {
	return &stuck{Transport: t, jammed: make(chan struct{}), free: make(chan struct{})}
}

func (s *stuck) jam()     { close(s.jammed) }
func (s *stuck) release() { close(s.free) }

func (s *stuck) wait() {
	select {
	case <-s.jammed:
		s.waiting.Add(1)
		<-s.free
	default:
	}
}

func (s *stuck) Open(ctx context.Context, o transport.Options) (transport.Link, error) {
	l, err := s.Transport.Open(ctx, o)
	return &stuckLink{l, s}, err
}

type stuckLink struct {
	transport.Link
	stuck *stuck
}

func (l *stuckLink) Send(ch transport.Channel, to transport.Peer, token uint64, payload []byte) error {
	if !l.stuck.lanes || ch != transport.Control {
		l.stuck.wait()
	}
	return l.Link.Send(ch, to, token, payload)
}

func (l *stuckLink) Close() error {
	l.stuck.wait()
	return l.Link.Close()
}

// TestCloseSaysWhatIsUndelivered: the error of Close counts the tells that were lost or could not
// be sent, by whether they may have run.
func TestCloseSaysWhatIsUndelivered(t *testing.T) {
	t.Setenv(testDirect, "") // direct lanes would bring what the broker loses
	const tells = 20
	for _, test := range []struct {
		name string
		end  func(*memory.Broker)
		want string
	}{
		{"sent and lost", func(b *memory.Broker) { b.Cut(memory.Path{From: "client", To: "a"}) }, "20 may have run (outcome unknown: "},
		{"not acknowledged", func(b *memory.Broker) { b.Cut(memory.Path{From: "a", To: "client"}) }, "20 may have run (outcome unknown: "},
		{"not sent", func(b *memory.Broker) { b.Disconnect("client") }, "20 did not run (not executed: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, "a")
			conn := c.dial("client")
			accounts := fixture.NewAccountClient(conn)
			_, err := accounts.Ref("bob").Add(testContext(t), 1)
			require.NoError(t, err)
			test.end(c.broker)
			for range tells {
				require.NoError(t, accounts.Tell("bob").Add(testContext(t), 1))
			}
			err = conn.Close()
			require.ErrorIs(t, err, shard.ErrClosed)
			require.ErrorContains(t, err, "closed before 20 tells were delivered: ")
			require.ErrorContains(t, err, test.want)
			require.EqualValues(t, tells, conn.Counters()["tell lost"])
		})
	}
}

// TestCloseDoesNotWaitForTheBroker: Close of a connection returns although its link takes no
// message and does not close.
func TestCloseDoesNotWaitForTheBroker(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	jam := newStuck(c.broker.Transport())
	cfg := c.config("client")
	cfg.Transport = jam
	conn, err := shard.Dial(testContext(t), cfg)
	require.NoError(t, err)
	accounts := fixture.NewAccountClient(conn)
	_, err = accounts.Ref("bob").Add(testContext(t), 1)
	require.NoError(t, err)
	jam.jam()
	t.Cleanup(jam.release)
	require.NoError(t, accounts.Tell("bob").Add(testContext(t), 1))
	closed := make(chan error, 1)
	go func() { closed <- conn.Close() }()
	require.ErrorContains(t, receive(t, closed, "Close returns"), "closed before 1 tells were delivered: ")
}

// TestShutdownEndsWithItsContext: Shutdown returns soon after its context has ended, also if the
// node's link takes no message and does not close.
func TestShutdownEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, started := range []bool{false, true} {
		c := newCluster(t, "b")
		jam := newStuck(c.broker.Transport())
		c.tune = func(cfg *shard.Config) { cfg.Transport = jam }
		n := c.add("a")
		if started {
			require.NoError(t, n.Start(testContext(t)))
			for _, id := range []string{"x", "y", "z"} {
				_, err := fixture.NewAccountClient(n).Ref(id).Add(testContext(t), 1)
				require.NoError(t, err)
			}
		}
		jam.jam()
		t.Cleanup(jam.release)
		ctx, cancel := context.WithCancel(context.Background())
		down := make(chan error, 1)
		go func() { down <- n.Shutdown(ctx) }()
		cancel()
		err := receive(t, down, "Shutdown returns")
		if started {
			require.ErrorIs(t, err, context.Canceled)
		} else {
			require.True(t, err == nil || errors.Is(err, context.Canceled), err)
		}
	}
}

// TestGoodbyeEndsWithItsContext: a node that has left stops draining when Shutdown's context ends.
func TestGoodbyeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	jam := newStuck(c.broker.Transport())
	jam.lanes = true
	c.tune = func(cfg *shard.Config) {
		if cfg.Name == "a" {
			cfg.Transport = jam
		}
	}
	a := c.start("a")
	_, err := fixture.NewAccountClient(c.dial("client")).Ref("bob").Add(testContext(t), 1)
	require.NoError(t, err)
	jam.jam()
	t.Cleanup(jam.release)
	ctx, cancel := context.WithCancel(context.Background())
	down := make(chan error, 1)
	go func() { down <- a.Shutdown(ctx) }()
	require.Eventually(t, func() bool { return jam.waiting.Load() > 0 }, testPatience, testTick)
	cancel()
	err = receive(t, down, "Shutdown returns")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "the node has left, but had no time to drain")
}
