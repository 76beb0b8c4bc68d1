package shardtest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

// hostWatched hosts accounts that w watches, with a probe.
func hostWatched(w *shardtest.Witness, probe *fixture.Probe) shardtest.Option {
	return shardtest.Host(func(n *shard.Node) error {
		if probe.Entered == nil { // made in the test's bubble
			probe.Entered, probe.Release, probe.Left = make(chan string, 2), make(chan struct{}), make(chan error)
		}
		return fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{Probe: probe} }, w.Watch())
	})
}

// TestOneHome: each entity runs one turn at a time, and each call is one turn, while its shard
// moves between nodes.
func TestOneHome(t *testing.T) {
	w := shardtest.NewWitness(t)
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		const callers, calls = 4, 50
		account := fixture.NewAccountClient(c.Client()).Ref("ann")
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				for range calls {
					if _, err := account.Add(t.Context(), 1); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 10 {
			c.Move("Account", "ann", fmt.Sprint("n", 1+c.Rand().IntN(3)))
		}
		group.Wait()
		require.Equal(t, callers*calls, w.Turns("Account", "ann"))
		require.Zero(t, w.Turns("Account", "bob"))
	}, hostWatched(w, &fixture.Probe{}), shardtest.Latency(least, most), shardtest.Seed(4))
}

// TestKilledTurnIsNotJudged: a method that goes on at a killed node, after its context has ended,
// does not count as running beside the next turn elsewhere.
func TestKilledTurnIsNotJudged(t *testing.T) {
	r, probe := &reports{TB: t}, &fixture.Probe{}
	w := shardtest.NewWitness(r)
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		account := fixture.NewAccountClient(c.Client()).Ref("ann")
		held := make(chan error)
		go func() { held <- account.Hold(t.Context()) }()
		<-probe.Entered
		go c.Kill(c.Home("Account", "ann")) // waits for the method
		_, err := account.Get(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, <-probe.Left, context.Canceled, "it runs still")
		require.Equal(t, shard.Unknown, shard.OutcomeOf(<-held))
		require.Equal(t, 2, w.Turns("Account", "ann"))
	}, hostWatched(w, probe), shardtest.Latency(least, most), shardtest.Seed(5))
	require.Empty(t, r.errors)
}

// TestTwoTurnsAtOnce: if two turns of an entity run at once, the Witness fails the test.
func TestTwoTurnsAtOnce(t *testing.T) {
	r := &reports{TB: t}
	w := shardtest.NewWitness(r)
	turn := func(id, method string, within func()) {
		call := shard.Info{Kind: "Account", ID: id, Method: method}
		require.NoError(t, shardtest.Turn(t.Context(), w, call, func(context.Context) error { within(); return nil }))
	}
	turn("ann", "Get", func() { turn("bob", "Get", func() {}) })
	turn("ann", "Get", func() {})
	require.Empty(t, r.errors)
	turn("ann", "Add", func() { turn("ann", "Get", func() {}) })
	require.Equal(t, []string{"two turns of Account/ann run at once: Add and Get"}, r.errors)
	require.Equal(t, 4, w.Turns("Account", "ann"))
}

// reports is a test that keeps its errors.
type reports struct {
	testing.TB
	mu     sync.Mutex
	errors []string
}

// Errorf records an error.
func (r *reports) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}
