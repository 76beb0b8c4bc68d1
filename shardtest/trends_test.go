package shardtest_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/shardtest"
	memorystream "github.com/shardgen/shardgen/stream/memory"
)

// TestTrendsAndFeeds: members keep their figures of the last hour by minute, whether or not anybody
// asks. They also report how far streams are read.
func TestTrendsAndFeeds(t *testing.T) {
	source := memorystream.New(3)
	p := &publisher{source: source}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		wallets := bank.NewWalletClient(c.Client())
		for range 12 {
			for range 10 {
				_, err := wallets.Ref("a").Noted(t.Context())
				require.NoError(t, err)
			}
			time.Sleep(time.Minute)
		}
		o, err := admin.Dial(t.Context(), admin.Options{Cluster: "shardtest", Transport: c.Broker().Transport(), Name: "operator"})
		require.NoError(t, err)
		defer func() { require.NoError(t, o.Close()) }()
		all, err := o.Trends(t.Context(), time.Time{})
		require.NoError(t, err)
		require.Len(t, all, 2)
		turns := uint64(0)
		for _, n := range all {
			require.NoError(t, n.Err)
			require.GreaterOrEqual(t, len(n.Minutes), 12, n.Node.Name)
			require.Less(t, time.Since(n.Minutes[len(n.Minutes)-1].At), 2*time.Minute)
			for _, m := range n.Minutes[1:11] {
				require.Equal(t, time.Minute, m.Lasted)
				for _, k := range m.Types {
					if k.Kind == "Wallet" {
						turns += k.Turns()
					}
				}
			}
		}
		require.InDelta(t, 100, turns, 10, "ten in each of 10 minutes")
		few, err := o.Trends(t.Context(), all[0].Minutes[len(all[0].Minutes)-3].At)
		require.NoError(t, err)
		require.Len(t, few[0].Minutes, 2)

		for range 5 {
			p.publish("a")
		}
		p.check(t, c, 1)
		part := 7 % 3
		c.Until("the position is written", func() bool {
			found, err := o.Feeds(t.Context())
			return err == nil && len(found) == 3 && found[part].Position == 6
		})
		source.Cut(true)
		c.Until("the end is not known", func() bool {
			found, err := o.Feeds(t.Context())
			return err == nil && found[part].End == 0
		})
		source.Cut(false)
		found, err := o.Feeds(t.Context())
		require.NoError(t, err)
		require.Equal(t, []any{"notes", uint64(5), uint64(0)}, []any{found[part].Feed, found[part].End, found[part].Dead})
		require.NotEmpty(t, found[part].Node)
	}, noteAll(source, new(atomic.Int64)), shardtest.Nodes(2))
}
