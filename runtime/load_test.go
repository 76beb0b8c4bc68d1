package shard_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestLoadOfShards: the processor time of a turn counts for its shard, whoever calls. The time for
// which a turn waits for a nested call does not count.
func TestLoadOfShards(t *testing.T) {
	cost := map[string]time.Duration{"cheap": 500 * time.Microsecond, "dear": 2 * time.Millisecond}
	c := emptyCluster(t)
	c.opts = append(c.opts, shard.Intercept(func(ctx context.Context, call shard.Info, next func(context.Context) error) error {
		for began := time.Now(); time.Since(began) < cost[call.ID]; {
		}
		return next(ctx)
	}))
	c.tune = func(cfg *shard.Config) { cfg.Zone, cfg.Capacity = "b", 1.5 }
	n := c.start("a")
	client := fixture.NewAccountClient(n)
	first := n.MeasureLoad()
	require.Equal(t, "b", first.Zone)
	require.Equal(t, 1.5, first.Capacity)
	require.EventuallyWithT(t, func(got *assert.CollectT) { // another process may take the processor for a moment
		for range 40 {
			for _, id := range []string{"cheap", "dear"} {
				_, err := client.Ref(id).Add(testContext(t), 1)
				require.NoError(got, err)
			}
			_, err := client.Ref("waits").Via(testContext(t), []string{"dear"}, 1)
			require.NoError(got, err)
		}
		l := n.MeasureLoad()
		used := map[uint32]float64{}
		for _, s := range l.Hottest {
			used[s.Shard] = s.Used
		}
		require.Positive(got, l.Used)
		cheap, dear, waits := used[n.ShardNumber("Account", "cheap")], used[n.ShardNumber("Account", "dear")], used[n.ShardNumber("Account", "waits")]
		require.InEpsilon(got, 8, dear/cheap, 0.6, "%+v", l) // twice as many calls of four times the cost
		require.Less(got, waits, cheap, "%+v", l)
		require.LessOrEqual(got, cheap+dear+waits, 1.01*l.Used, "%+v", l)
		require.Equal(got, l.Used, n.Load().Process.Used)
		require.InEpsilon(got, cheap+dear+waits, n.Load().Types[0].Used, 0.2)
	}, time.Minute, time.Millisecond)
}
