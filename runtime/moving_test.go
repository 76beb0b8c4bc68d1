package shard_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport"
)

// sameShard returns n account ids in the same shard as id.
func sameShard(id string, n int) (ids []string) {
	shardOf := func(id string) uint64 { return xxhash.Sum64String(id) >> 56 } // of 256 shards
	for i := 0; len(ids) < n; i++ {
		if other := fmt.Sprint("z", i); shardOf(other) == shardOf(id) {
			ids = append(ids, other)
		}
	}
	return ids
}

// TestMoveGivenUpStopsNoEntityThatHasATurn: a move is given up because a stop hook hangs. The other
// entities of the shard can be called at once, and no entity is stopped while it has a turn.
func TestMoveGivenUpStopsNoEntityThatHasATurn(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.HandoffTimeout = time.Second }
	c.opts = []shard.HostOption{shard.StopTimeout(time.Hour)} // the hook ends when the test lets it
	a := c.start("a")
	accounts := fixture.NewAccountClient(c.dial("client"))
	ctx := testContext(t)
	const slow = "hangs when it stops"
	others := sameShard(slow, 2)
	passive, active := others[0], others[1]
	for _, id := range []string{slow, passive, active} {
		_, err := accounts.Ref(id).Add(ctx, 5)
		require.NoError(t, err)
	}
	require.NoError(t, accounts.Ref(passive).Rest(ctx))
	c.hooks(passive, "fresh", "idle")

	c.start("b")
	down := make(chan error, 1)
	go func() { down <- a.Shutdown(context.Background()) }()
	require.Eventually(t, func() bool { return len(c.probe.Hooks(slow)) == 2 }, testPatience, testTick, "the hook hangs")
	decoding, goOn := make(chan struct{}, 16), make(chan struct{})
	wait := func() { decoding <- struct{}{}; <-goOn }
	fixture.SlowLetter.Store(&wait)
	defer fixture.SlowLetter.Store(nil)
	read := make(chan error, 2)
	for _, id := range others {
		go func() { read <- accounts.Ref(id).Read(ctx, "slow letter") }()
		receive(t, decoding, id+" has a turn while the hook hangs")
	}
	c.probe.Release <- struct{}{}
	_, err := accounts.Ref(slow).Get(ctx) // begins when the hooks of the move have ended
	require.NoError(t, err)
	require.Equal(t, []string{"fresh", "idle", "reactivated"}, c.probe.Hooks(passive))
	require.Equal(t, []string{"fresh"}, c.probe.Hooks(active))
	close(goOn)
	for range others {
		require.NoError(t, receive(t, read, "Read is acknowledged"))
	}
	close(c.probe.Release)
	require.NoError(t, receive(t, down, "shut down"))
	for _, id := range others {
		lines, err := accounts.Ref(id).Lines(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"slow letter"}, lines, id)
	}
}

// TestStateThatDoesNotEncodeStays: a move is given up if the state of an entity cannot be encoded.
// The log names the entity, no stop hook runs, and no state is lost.
func TestStateThatDoesNotEncodeStays(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	logged := make(lines, 10_000)
	c.tune = func(cfg *shard.Config) { cfg.Logger = logged.logger() }
	a := c.start("a")
	b := c.start("b")
	accounts := fixture.NewAccountClient(c.dial("client"))
	ctx := testContext(t)
	var id string
	for i := 0; id == ""; i++ { // an account that lives at a
		try := fmt.Sprint("account-", i)
		_, err := accounts.Ref(try).Add(ctx, 41)
		require.NoError(t, err)
		if at, err := a.Locate(ctx, accountKind, try); err == nil && at.Node == "a" {
			id = try
		}
	}
	require.NoError(t, accounts.Ref(id).Spoil(ctx))
	emptied := make(chan error, 1)
	go func() { emptied <- a.StopHosting(ctx, accountKind) }()
	line := logged.await(t, "does not encode")
	require.Contains(t, line, "encode the state of Account/"+id+": ")
	require.Contains(t, line, "illegible letter")
	logged.await(t, "does not encode") // tried again
	got, err := accounts.Ref(id).Get(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 42, got)
	require.Equal(t, []string{"fresh"}, c.probe.Hooks(id))
	require.NoError(t, accounts.Ref(id).Mend(ctx))
	require.NoError(t, receive(t, emptied, "StopHosting returns"))
	got, err = fixture.NewAccountClient(b).Ref(id).Get(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 42, got)
	require.Equal(t, []string{"fresh", "moving", "moved"}, c.probe.Hooks(id))
	require.Zero(t, a.Counters()["state lost"])
}

// TestLeavingNodeLeavesBehindWhatDoesNotEncode: if the state of an entity cannot be encoded, a
// leaving node tries three times, then moves the shard without this state and logs it.
func TestLeavingNodeLeavesBehindWhatDoesNotEncode(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	logged := make(lines, 10_000)
	c.tune = func(cfg *shard.Config) { cfg.Logger = logged.logger() }
	a := c.start("a")
	accounts := fixture.NewAccountClient(c.dial("client"))
	ctx := testContext(t)
	const bad = "bob"
	good := sameShard(bad, 1)[0]
	for _, id := range []string{bad, good} {
		_, err := accounts.Ref(id).Add(ctx, 41)
		require.NoError(t, err)
	}
	require.NoError(t, accounts.Ref(bad).Spoil(ctx))
	c.start("b")
	require.NoError(t, a.Shutdown(ctx))
	logged.await(t, "shard cannot move")
	logged.await(t, "shard cannot move")
	require.Contains(t, logged.await(t, "state lost"), "Account/bob")
	require.EqualValues(t, 1, a.Counters()["state lost"])
	for id, want := range map[string]int64{bad: 0, good: 41} {
		got, err := accounts.Ref(id).Get(ctx)
		require.NoError(t, err)
		require.Equal(t, want, got, id)
	}
}

// laneStop is a transport whose lanes to one peer can be stopped. Messages to that peer wait until
// goOn is called.
type laneStop struct {
	transport.Transport
	to string

	mu      sync.Mutex
	stopped bool
	waiting []func()
}

type laneStopLink struct {
	transport.Link
	stop *laneStop
}

func (s *laneStop) Open(ctx context.Context, o transport.Options) (transport.Link, error) {
	l, err := s.Transport.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return laneStopLink{l, s}, nil
}

func (l laneStopLink) Send(ch transport.Channel, to transport.Peer, token uint64, payload []byte) error {
	l.stop.mu.Lock()
	defer l.stop.mu.Unlock()
	if l.stop.stopped && ch != transport.Control && to.Name == l.stop.to {
		payload = append([]byte(nil), payload...)
		l.stop.waiting = append(l.stop.waiting, func() { _ = l.Link.Send(ch, to, token, payload) })
		return nil
	}
	return l.Link.Send(ch, to, token, payload)
}

func (s *laneStop) goOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = false
	for _, send := range s.waiting {
		send()
	}
	s.waiting = nil
}

// TestNewHomeThatDoesNotAnswerIsGivenUp: the new home's lanes are blocked, so that the
// state does not arrive. The shard opens again at the old home, and moves later.
func TestNewHomeThatDoesNotAnswerIsGivenUp(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	stop := &laneStop{Transport: c.broker.Transport(), to: "b", stopped: true}
	c.tune = func(cfg *shard.Config) {
		cfg.HandoffTimeout, cfg.Rebalance.Interval = time.Second, time.Second
		if cfg.Name == "a" {
			cfg.Transport = stop
		}
	}
	a := c.start("a")
	accounts := fixture.NewAccountClient(a)
	ctx := testContext(t)
	_, err := accounts.Ref("bob").Add(ctx, 7)
	require.NoError(t, err)
	c.start("b")
	number, _ := a.Placed(accountKind, "bob")
	require.NoError(t, a.PinShards(ctx, accountKind, map[uint32]string{number: "b"}))
	state := func(want string) func() bool {
		return func() bool {
			for _, s := range a.LocalShards(accountKind) {
				if s.Shard == number {
					return s.State == want
				}
			}
			return false
		}
	}
	require.Eventually(t, state("sent"), testPatience, testTick)
	got, err := accounts.Ref("bob").Add(ctx, 1)
	require.NoError(t, err)
	require.EqualValues(t, 8, got)
	stop.goOn()
	require.Eventually(t, func() bool {
		at, err := a.Locate(ctx, accountKind, "bob")
		return err == nil && at.Node == "b"
	}, testPatience, testTick)
	got, err = accounts.Ref("bob").Get(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 8, got)
}
