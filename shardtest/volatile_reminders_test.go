package shardtest_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

func withBells(t *testing.T, test func(t *testing.T, c *shardtest.Cluster, all *bank.BellClient, tried *atomic.Int64), opts ...shardtest.Option) {
	tried := &atomic.Int64{}
	host := shardtest.Host(func(n *shard.Node) error {
		others := bank.NewBellClient(n)
		return bank.HostBell(n, func() *bank.Bell {
			return &bank.Bell{Others: others, Tried: func() int64 { return tried.Add(1) }}
		})
	})
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		test(t, c, bank.NewBellClient(c.Client()), tried)
	}, append(opts, host, shardtest.Nodes(3))...)
}

func bellRung(t *testing.T, all *bank.BellClient, id string) string {
	t.Helper()
	rings, err := all.Ref(id).Rung(t.Context())
	require.NoError(t, err)
	return strings.Join(rings, ", ")
}

// TestVolatileReminder: a reminder runs once, at its time, even if its entity is passivated. It
// does not run if it was cancelled or replaced, or its entity was forgotten.
func TestVolatileReminder(t *testing.T) {
	withBells(t, func(t *testing.T, c *shardtest.Cluster, all *bank.BellClient, _ *atomic.Int64) {
		ctx := t.Context()
		began := time.Now()
		a := all.Ref("a")
		require.NoError(t, a.In(ctx, time.Minute, "one", "hello"))
		require.NoError(t, a.In(ctx, time.Second, "two", "never"))
		require.NoError(t, a.In(ctx, 2*time.Minute, "two", "replaced"))
		require.NoError(t, a.In(ctx, time.Minute, "three", "never"))
		require.NoError(t, all.Tell("a", shard.At(began.Add(3*time.Minute))).Ring(ctx, "from outside"))
		require.NoError(t, a.Wake(ctx, "b", time.Minute))
		require.NoError(t, all.Ref("c").In(ctx, time.Minute, "x", "never"))
		require.NoError(t, all.Ref("c").Over(ctx))
		there, err := all.Unschedule(ctx, "a", "three")
		require.NoError(t, err)
		require.True(t, there)
		there, err = all.Unschedule(ctx, "a", "three")
		require.NoError(t, err)
		require.False(t, there)
		planned, err := all.Scheduled(ctx, "a")
		require.NoError(t, err)
		require.Len(t, planned, 3)
		require.NoError(t, a.Sleep(ctx))
		c.Advance(59*time.Second - time.Since(began))
		require.Empty(t, bellRung(t, all, "a"))
		require.NoError(t, a.Sleep(ctx))
		c.Advance(5 * time.Minute)
		rung := bellRung(t, all, "a")
		require.Equal(t, 2, strings.Count(rung, ", "), rung)
		for _, want := range []string{"hello", "replaced", "from outside"} {
			require.Contains(t, rung, want)
		}
		require.NotContains(t, rung, "never")
		require.Contains(t, bellRung(t, all, "b"), "woken by a")
		require.Empty(t, bellRung(t, all, "c"))
		planned, err = all.Scheduled(ctx, "a")
		require.NoError(t, err)
		require.Empty(t, planned)
	})
}

// TestVolatileReminderPeriod: a periodic reminder runs although nobody calls, and missed times run
// once.
func TestVolatileReminderPeriod(t *testing.T) {
	withBells(t, func(t *testing.T, c *shardtest.Cluster, all *bank.BellClient, _ *atomic.Int64) {
		require.NoError(t, all.Tell("a", shard.Every(time.Minute)).Ring(t.Context(), "each"))
		c.Advance(time.Hour + time.Second)
		require.Equal(t, 60, strings.Count(bellRung(t, all, "a"), "+0 each"))
		require.ErrorContains(t, all.Tell("a", shard.Every(time.Millisecond)).Ring(t.Context(), ""), "at least 1s")
	})
}

// TestVolatileReminderFails: a reminder runs again after shard.TryAgain and after a panic.
func TestVolatileReminderFails(t *testing.T) {
	for name, n := range map[string]int64{"TryAgain": 3, "panic": -3} {
		t.Run(name, func(t *testing.T) {
			withBells(t, func(t *testing.T, c *shardtest.Cluster, all *bank.BellClient, tried *atomic.Int64) {
				ctx := t.Context()
				require.NoError(t, all.Tell("a", shard.In(time.Second)).Snooze(ctx, n))
				require.NoError(t, all.Ref("a").In(ctx, 2*time.Second, "other", "not held up"))
				c.Advance(2500 * time.Millisecond)
				require.Contains(t, bellRung(t, all, "a"), "not held up")
				c.Advance(20 * time.Second)
				require.Contains(t, bellRung(t, all, "a"), "snooze 4")
				require.Equal(t, int64(4), tried.Load())
				c.Advance(5 * time.Minute)
				require.Equal(t, int64(4), tried.Load())
			})
		})
	}
}

// TestVolatileReminderMoves: reminders move with their shards, including those of passivated
// entities. Each runs once, none early. Reminders at a killed node are lost with the states.
func TestVolatileReminderMoves(t *testing.T) {
	withBells(t, func(t *testing.T, c *shardtest.Cluster, all *bank.BellClient, _ *atomic.Int64) {
		ctx := t.Context()
		const n = 60
		for i := range n {
			bell := all.Ref(fmt.Sprint(i))
			require.NoError(t, bell.In(ctx, time.Duration(i%20)*time.Second, "x", "once"))
			require.NoError(t, all.Tell(fmt.Sprint(i), shard.In(time.Hour)).Ring(ctx, strings.Repeat("late", 1000)))
			require.NoError(t, bell.Sleep(ctx))
		}
		for i := range 6 {
			c.Advance(2 * time.Second)
			name := fmt.Sprint("n", i%3+1)
			c.Shutdown(name)
			c.Start(name)
		}
		c.Advance(30 * time.Second)
		kept := 0
		for i := range n {
			rung := bellRung(t, all, fmt.Sprint(i))
			require.Equal(t, 1, strings.Count(rung, "once"), "bell %d: %s", i, rung)
			planned, err := all.Scheduled(ctx, fmt.Sprint(i))
			require.NoError(t, err)
			require.Len(t, planned, 1)
		}
		c.Kill("n3") // the other nodes had its shards
		c.Start("n3")
		c.Settle()
		for i := range n {
			planned, err := all.Scheduled(ctx, fmt.Sprint(i))
			require.NoError(t, err)
			rung := bellRung(t, all, fmt.Sprint(i))
			require.Equal(t, rung != "", len(planned) == 1, "bell %d: with its state, or not: %s", i, rung)
			kept += len(planned)
		}
		require.Greater(t, kept, 0)
		require.Less(t, kept, n)
		c.Advance(time.Hour)
		for i := range n {
			kept -= strings.Count(bellRung(t, all, fmt.Sprint(i)), "+0 late")
		}
		require.Zero(t, kept)
	})
}

// TestVolatileReminderFarAhead: a due time beyond the range of a Duration only waits.
func TestVolatileReminderFarAhead(t *testing.T) {
	withBells(t, func(t *testing.T, c *shardtest.Cluster, all *bank.BellClient, _ *atomic.Int64) {
		require.NoError(t, all.Tell("a", shard.At(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))).Ring(t.Context(), "late"))
		c.Advance(time.Minute)
		require.Empty(t, bellRung(t, all, "a"))
	})
}

// TestVolatileRemindersSplit: reminders that do not fit into one message move in pieces.
func TestVolatileRemindersSplit(t *testing.T) {
	withBells(t, func(t *testing.T, c *shardtest.Cluster, all *bank.BellClient, _ *atomic.Int64) {
		ctx := t.Context()
		c.Broker().SetMaxPayload(8 << 10)
		for i := range 4 {
			for j := range 60 {
				require.NoError(t, all.Ref(fmt.Sprint(i)).In(ctx, time.Minute, fmt.Sprint(j), strings.Repeat("x", 200)))
			}
		}
		for i := range 3 {
			name := fmt.Sprint("n", i+1)
			c.Shutdown(name)
			c.Start(name)
		}
		c.Broker().SetMaxPayload(1 << 20) // so answers fit
		for i := range 4 {
			planned, err := all.Scheduled(ctx, fmt.Sprint(i))
			require.NoError(t, err)
			require.Len(t, planned, 60)
		}
	})
}
