package shard_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/e2e/workload"
	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestHandoffOptionsKeepState moves accounts in the modes allowed for types with state. Callers
// repeat dropped or refused calls.
func TestHandoffOptionsKeepState(t *testing.T) {
	t.Parallel()
	for _, modes := range [][]shard.HandoffMode{{shard.HandoffDropCalls}, {shard.HandoffRefusing}, {shard.HandoffDropCalls, shard.HandoffRefusing}} {
		t.Run(fmt.Sprint(modes), func(t *testing.T) {
			c := emptyCluster(t)
			c.opts = []shard.HostOption{shard.Handoff(modes...)}
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

// TestHandoffDrop: with HandoffDropState the state is dropped, and no call fails.
func TestHandoffDrop(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.opts = []shard.HostOption{shard.Handoff(shard.HandoffDropState)}
	c.start("a")
	accounts := fixture.NewAccountClient(c.dial("client"))
	add(t, accounts, "bob", 1)
	c.start("b")
	require.NoError(t, c.nodes["a"].Shutdown(testContext(t)))
	add(t, accounts, "bob", 1)
	c.hooks("bob", "fresh", "moving", "fresh")
}

// TestHandoffOptionsWithoutState moves a type without state under load, in the modes that only such
// types may have.
func TestHandoffOptionsWithoutState(t *testing.T) {
	t.Parallel()
	for _, modes := range [][]shard.HandoffMode{
		{shard.HandoffServing},
		{shard.HandoffUnordered},
		{shard.HandoffServing, shard.HandoffUnordered},
		{shard.HandoffServing, shard.HandoffRefusing},
		{shard.HandoffDropState},
	} {
		t.Run(fmt.Sprint(modes), func(t *testing.T) {
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
				}, shard.Handoff(modes...)))
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
		modes []shard.HandoffMode
		want  string
	}{
		{[]shard.HandoffMode{shard.HandoffServing}, "Handoff(serving): the type has state: serving would lose"},
		{[]shard.HandoffMode{shard.HandoffUnordered}, "the type has state: unordered would run calls out of order (want HandoffOrdered or HandoffDropState)"},
		{[]shard.HandoffMode{shard.HandoffServing, shard.HandoffDropCalls}, "modes serving and drop-calls cannot be combined"},
		{[]shard.HandoffMode{shard.HandoffOrdered, shard.HandoffRefusing}, "ordered cannot be combined with other modes"},
		{[]shard.HandoffMode{shard.HandoffRefusing, shard.HandoffDropState}, "drop-state cannot be combined with other modes"},
		{[]shard.HandoffMode{17}, "HandoffMode(17) is not a mode"},
	} {
		n := shard.New(emptyCluster(t).config("a"))
		err := fixture.HostAccount(n, newAccount, shard.Handoff(tt.modes...))
		require.ErrorContains(t, err, "host Account: Handoff")
		require.ErrorContains(t, err, tt.want)
		require.NoError(t, n.Close())
	}
}
