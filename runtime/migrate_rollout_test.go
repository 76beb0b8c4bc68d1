package shard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestRolloutOfAVersion: in a rolling upgrade to a new version of state, shards move from old nodes to new ones,
// and no call fails, whether each new node starts before an old one stops or after it. A shard that moves back
// to an old node fails the calls to entities that were changed, until it moves on.
func TestRolloutOfAVersion(t *testing.T) {
	t.Parallel()
	for name, startFirst := range map[string]bool{"start first": true, "stop first": false} {
		t.Run(name, func(t *testing.T) {
			v := newWallets(t)
			start := func(name string, version int) *shard.Node {
				cfg := v.config(name)
				cfg.Store = v.store.Client()
				n := shard.New(cfg)
				require.NoError(t, bank.HostTab(n, func() *bank.Tab { return &bank.Tab{} }))
				n.WriteStates("Tab", version)
				require.NoError(t, n.Start(testContext(t)))
				v.nodes[name] = n
				return n
			}
			ctx := testContext(t)
			for i := range 3 {
				start(fmt.Sprint("old", i), 1)
			}
			conn, err := shard.Dial(ctx, v.config("client"))
			require.NoError(t, err)
			defer conn.Close()
			tabs := bank.NewTabClient(conn)
			const all = 64
			id := func(i int) string { return fmt.Sprint("tab", i) }
			for i := range all {
				_, err := tabs.Ref(id(i)).Pay(ctx, 1)
				require.NoError(t, err)
			}

			calling, stop := context.WithCancel(ctx)
			var callers sync.WaitGroup
			for caller := range 4 {
				callers.Go(func() {
					for i := caller; calling.Err() == nil; i = (i + 4) % all {
						if _, err := tabs.Ref(id(i)).Pay(ctx, 1); err != nil {
							t.Errorf("a call during the rollout: %v", err)
							return
						}
					}
				})
			}
			replace := func(i int) {
				old, next := fmt.Sprint("old", i), fmt.Sprint("new", i)
				if startFirst {
					start(next, 2)
				}
				require.NoError(t, v.nodes[old].Shutdown(ctx))
				if !startFirst {
					start(next, 2)
				}
			}
			for i := range 3 {
				replace(i)
			}
			stop()
			callers.Wait()
			_, err = tabs.Ref(id(0)).Pay(ctx, 1)
			require.NoError(t, err, "it has a state of the new version")

			back := start("back", 1)
			number, err := back.Locate(ctx, "Tab", id(0))
			require.NoError(t, err)
			require.NoError(t, back.PinShards(ctx, "Tab", map[uint32]string{number.Shard: "back"}))
			require.Eventually(t, func() bool {
				_, err := tabs.Ref(id(0)).Pay(ctx, 1)
				return errors.Is(err, shard.ErrActivation) && shard.OutcomeOf(err) == shard.NotExecuted
			}, testPatience, 5*time.Millisecond, "on an old node")
			require.NoError(t, back.Shutdown(ctx))
			_, err = tabs.Ref(id(0)).Pay(ctx, 1)
			require.NoError(t, err, "it has moved on")
		})
	}
}
