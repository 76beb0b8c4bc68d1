package shardtest_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/util/invariant"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

// TestNodesLeaveTogether: of seven nodes, three to six leave within milliseconds, while a new one
// joins. Singletons and entities keep their state. Entities are still remembered: if a node is
// killed later, its entities live again without a call.
func TestNodesLeaveTogether(t *testing.T) {
	const accounts = 40
	seeds := 12
	if invariant.Race {
		seeds = 2
	}
	for name, stored := range map[string]bool{"store": true, "no store": false} {
		t.Run(name, func(t *testing.T) {
			kinds := []string{"volatile", "singleton"}
			if stored {
				kinds = append(kinds, "durable", "durable singleton")
			}
			for seed := range seeds {
				host := shardtest.Host(func(n *shard.Node) error {
					if err := fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} }, shard.Remember(shard.RememberOptions{})); err != nil {
						return err
					}
					err := fixture.HostChief(n, func() *fixture.Chief {
						time.Sleep(10 * time.Millisecond) // a handoff may interrupt the activation
						return &fixture.Chief{Watch: fixture.NewWatch()}
					})
					if err != nil || !stored {
						return err
					}
					if err := bank.HostTreasury(n, func() *bank.Treasury { return &bank.Treasury{} }); err != nil {
						return err
					}
					return leavers["durable"].host(n)
				})
				config := shardtest.Config(func(cfg *shard.Config) {
					if !stored {
						cfg.Store = nil
					}
				})
				shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
					add := func(want int64) {
						t.Helper()
						for _, kind := range kinds {
							sum, err := leavers[kind].add(t.Context(), c.Client())
							require.NoError(t, err, kind)
							require.Equal(t, want, sum, kind)
						}
						for i := range accounts {
							sum, err := fixture.NewAccountClient(c.Client()).Ref(fmt.Sprint(i)).Add(t.Context(), 1)
							require.NoError(t, err)
							require.Equal(t, want, sum, "account %d", i)
						}
					}
					add(1)
					c.Advance(5 * time.Second)
					leaveTogether(c)
					c.Advance(5 * time.Second)
					add(2)

					if len(c.Running()) < 2 {
						return
					}
					c.Kill(c.Running()[0])
					c.Until("all accounts live again", func() bool {
						lives := 0
						for _, node := range c.Running() {
							for _, s := range c.Node(node).LocalShards("Account") {
								lives += s.Active
							}
						}
						return lives == accounts+1 // plus the entity of leavers
					})
				}, shardtest.Nodes(7), shardtest.Seed(uint64(seed)), host, config, shardtest.Latency(time.Millisecond, 5*time.Millisecond))
			}
		})
	}
}

// leaveTogether lets three to six of seven nodes leave, the oldest first, while a new node joins.
func leaveTogether(c *shardtest.Cluster) {
	apart := []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond}[c.Rand().IntN(4)]
	var wg sync.WaitGroup
	for i := range 3 + c.Rand().IntN(4) {
		wg.Go(func() { c.Shutdown(fmt.Sprint("n", i+1)) })
		time.Sleep(time.Duration(c.Rand().Int64N(int64(apart) + 1)))
		if i == 2 {
			wg.Go(func() { c.Start("late") })
		}
	}
	wg.Wait()
}
