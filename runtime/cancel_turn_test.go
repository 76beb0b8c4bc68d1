package shard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestCancelFindsTurns cancels calls while their turns run and shards move. Beside them run calls
// that are not cancelled, and quick calls that are cancelled at any moment. Only the turns of
// cancelled calls see a cancelled context.
func TestCancelFindsTurns(t *testing.T) {
	t.Parallel()
	const rounds, each, quick = 4, 6, 3
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.Lanes = 16 } // a lane that has handed over one turn runs the next ones on their own goroutines
	c.probe.Entered, c.probe.Left = make(chan string, 2*each), make(chan error, 2*each)
	a := c.start("a")
	accounts := fixture.NewAccountClient(c.dial("client"))
	var meant, others []string
	for i := range each {
		meant, others = append(meant, fmt.Sprint("meant-", i)), append(others, fmt.Sprint("other-", i))
	}
	held := append(append([]string{}, meant...), others...)
	settle(t, accounts, held...)
	settle(t, accounts, "q0", "q1", "q2", "q3")

	base := testContext(t)
	var over atomic.Bool
	var executed, unknown atomic.Int64
	var callers sync.WaitGroup
	for w := range quick {
		client := fixture.NewAccountClient(c.dial(fmt.Sprint("quick-", w)))
		callers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for !over.Load() {
				ctx, cancel := context.WithCancel(base)
				cancelled := r.IntN(4) == 0
				if cancelled {
					go cancel()
				}
				_, err := client.Ref(fmt.Sprint("q", r.IntN(4))).Add(ctx, 1)
				cancel()
				switch {
				case err == nil:
					executed.Add(1)
				case !cancelled || !errors.Is(err, context.Canceled):
					t.Errorf("a quick call, cancelled %v: %v", cancelled, err)
					return
				case shard.OutcomeOf(err) == shard.Unknown:
					unknown.Add(1)
				}
				if r.IntN(32) == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	for range rounds {
		ctx, cancel := context.WithCancel(base)
		cancelled, kept := make(chan error, each), make(chan error, each)
		for i := range each {
			go func() { cancelled <- accounts.Ref(meant[i]).Hold(ctx) }()
			go func() { kept <- accounts.Ref(others[i]).Hold(base) }()
		}
		for range held {
			receive(t, c.probe.Entered, "Hold begins")
		}
		for _, id := range held {
			require.True(t, a.Runs(accountKind, id), "the turn of %s is found", id)
		}
		b := c.start("b") // shards move there, and wait for those turns
		cancel()
		for range each {
			require.ErrorIs(t, receive(t, c.probe.Left, "a method that is cancelled returns"), context.Canceled)
		}
		for range each {
			requireEnded(t, receive(t, cancelled, "its caller returns"), context.Canceled)
		}
		for range each {
			c.probe.Release <- struct{}{}
			require.NoError(t, receive(t, c.probe.Left, "a method that is not cancelled returns"))
			require.NoError(t, receive(t, kept, "its caller returns"))
		}
		require.Eventually(t, func() bool { return b.Counters()["shard moved in"] > 100 }, testPatience, testTick)
		require.NoError(t, b.Shutdown(testContext(t)))
		settle(t, accounts, held...)
	}
	over.Store(true)
	callers.Wait()
	var sum int64
	for i := range 4 {
		got, err := accounts.Ref(fmt.Sprint("q", i)).Get(testContext(t))
		require.NoError(t, err)
		sum += got
	}
	require.GreaterOrEqual(t, sum, executed.Load())
	require.LessOrEqual(t, sum, executed.Load()+unknown.Load())
}

// TestCancelFindsATurnThatWaits: a turn that waits for a call of its own ends if its caller is
// cancelled, and later calls go on.
func TestCancelFindsATurnThatWaits(t *testing.T) {
	c := emptyCluster(t)
	a := c.start("a")
	accounts := fixture.NewAccountClient(c.dial("client"))
	settle(t, accounts, "bob", "x")
	held := c.hold(testContext(t), accounts)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	via := make(chan error, 1)
	go func() {
		_, err := accounts.Ref("x").Via(ctx, []string{"bob"}, 1)
		via <- err
	}()
	c.waiting(1)
	require.True(t, a.Runs(accountKind, "x"))
	cancel()
	requireEnded(t, receive(t, via, "the caller returns"), context.Canceled)
	got, err := accounts.Ref("x").Add(testContext(t), 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, got, "the turn has ended")
	c.waiting(0)
	c.probe.Release <- struct{}{}
	require.NoError(t, receive(t, held, "Hold returns"))
}

// TestTurnThatLosesItsLaneAnswersItsCaller: a long turn, whose lane goes on without waiting for it,
// answers its own caller with its own result, whatever the lane handles meanwhile.
func TestTurnThatLosesItsLaneAnswersItsCaller(t *testing.T) {
	t.Parallel()
	const turns = 8
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.Lanes = 1 }
	a := c.start("a")
	clients := []*fixture.AccountClient{fixture.NewAccountClient(c.dial("one")), fixture.NewAccountClient(c.dial("two"))}
	for _, accounts := range clients {
		settle(t, accounts, "quick")
	}
	for i := range turns {
		settle(t, clients[0], fmt.Sprint("slow-", i))
	}
	results := make(chan error, turns)
	for i := range turns {
		accounts, id := clients[i%2], fmt.Sprint("slow-", i)
		go func() { results <- accounts.Ref(id).Hold(testContext(t)) }()
		receive(t, c.probe.Entered, "Hold begins")
		require.True(t, a.Runs(accountKind, id))
		for n := range 300 {
			payload := []byte(fmt.Sprint("payload ", i, n))
			got, err := clients[(i+n)%2].Ref("quick").Echo(testContext(t), payload)
			require.NoError(t, err)
			require.Equal(t, payload, got)
		}
	}
	for range turns {
		c.probe.Release <- struct{}{}
		require.NoError(t, receive(t, results, "Hold returns"))
	}
}
