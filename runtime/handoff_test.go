package shard_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/e2e/workload"
	"github.com/shardgen/shardgen/internal/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestHandoffOptionsKeepState moves accounts by the options that types with state
// may have: whatever is dropped or turned away comes again.
func TestHandoffOptionsKeepState(t *testing.T) {
	for _, options := range [][]string{{"2c"}, {"4b"}, {"2c", "3b", "4b"}} {
		t.Run(fmt.Sprint(options), func(t *testing.T) {
			c := emptyCluster(t)
			c.opts = []shard.HostOption{shard.Handoff(options...)}
			c.start("a")
			c.start("b")
			conn := c.dial("client")
			l := startLoad(t, conn, c.nodes["b"])
			l.waitFor(500)
			c.start("c")
			require.NoError(t, c.nodes["a"].Shutdown(testContext(t)))
			l.waitFor(500)
			l.end(conn)
		})
	}
}

// TestHandoffDrop: the state stays behind, and no call fails.
func TestHandoffDrop(t *testing.T) {
	c := emptyCluster(t)
	c.opts = []shard.HostOption{shard.Handoff("drop")}
	c.start("a")
	accounts := fixture.NewAccountClient(c.dial("client"))
	add(t, accounts, "bob", 1)
	c.start("b")
	require.NoError(t, c.nodes["a"].Shutdown(testContext(t)))
	add(t, accounts, "bob", 1)
	c.hooks("bob", "fresh", "moving", "fresh")
}

// TestHandoffOptionsWithoutState moves a type without state by the options that
// only such have, under load.
func TestHandoffOptionsWithoutState(t *testing.T) {
	t.Parallel()
	for _, options := range [][]string{{"2a"}, {"3a"}, {"2a", "3a", "4a"}, {"2a", "3b", "4b"}, {"drop"}} {
		t.Run(fmt.Sprint(options), func(t *testing.T) {
			c := emptyCluster(t)
			start := func(name string) *shard.Node {
				n := shard.New(c.config(name))
				c.nodes[name] = n
				tallies := workload.NewTallyClient(n)
				target := func(id string) workload.RelayTargets {
					return workload.RelayTargets{Ask: tallies.API(id), Tell: tallies.Tell(id)}
				}
				require.NoError(t, workload.HostTally(n, func() *workload.Tally { return &workload.Tally{} }))
				require.NoError(t, workload.HostRelay(n, func() *workload.Relay {
					return &workload.Relay{Node: name, Tallies: target}
				}, shard.Handoff(options...)))
				require.NoError(t, n.Start(testContext(t)))
				return n
			}
			start("a")
			relays := workload.NewRelayClient(c.dial("client"))
			var calls atomic.Uint64
			var wg sync.WaitGroup
			stop := make(chan struct{})
			for g := range 4 {
				wg.Go(func() {
					for seq := uint64(1); ; seq++ {
						select {
						case <-stop:
							return
						default:
						}
						_, err := relays.Ref(fmt.Sprint("r", seq%50)).Burst(context.Background(), "t", fmt.Sprint(g), seq, seq)
						if err != nil {
							t.Errorf("call %d of sender %d: %v", seq, g, err)
							return
						}
						calls.Add(1)
					}
				})
			}
			more := func() {
				t.Helper()
				want := calls.Load() + 300
				require.Eventually(t, func() bool { return calls.Load() >= want || t.Failed() }, testPatience, testTick)
			}
			more()
			start("b")
			more()
			require.NoError(t, c.nodes["a"].Shutdown(testContext(t)))
			more()
			close(stop)
			wg.Wait()
			got, err := relays.Ref("r1").Burst(testContext(t), "t", "last", 1, 1)
			require.NoError(t, err)
			require.Equal(t, "b", got.Node)
		})
	}
}

func TestHandoffRefused(t *testing.T) {
	for _, tt := range []struct {
		options []string
		want    string
	}{
		{[]string{"2a"}, "Handoff(2a 3b 4a): the type has state: 2a would lose"},
		{[]string{"2b", "3a"}, "the type has state: 3a would run calls out of order"},
		{[]string{"2b", "2c"}, "options 2b and 2c exclude each other"},
		{[]string{"ordered", "4b"}, `"ordered" stands for all options`},
		{[]string{"5a"}, `unknown option "5a": want ordered, drop`},
	} {
		n := shard.New(emptyCluster(t).config("a"))
		err := fixture.HostAccount(n, newAccount, shard.Handoff(tt.options...))
		require.ErrorContains(t, err, "host Account: Handoff")
		require.ErrorContains(t, err, tt.want)
		require.NoError(t, n.Close())
	}
}
