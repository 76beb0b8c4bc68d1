package shardtest_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/fixture/shop"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/shardtest"
)

// TestReminderTooLarge: a reminder whose changes are too large to commit is tried again like a
// failed one, less and less often.
func TestReminderTooLarge(t *testing.T) {
	runs := &atomic.Int64{}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		wallets := bank.NewWalletClient(c.Client())
		require.NoError(t, wallets.Tell("a", shard.In(time.Second)).Fill(t.Context(), 600<<10))
		c.Advance(time.Minute)
		c.SkipTime(time.Hour)
		c.SkipTime(time.Hour)
		require.Less(t, runs.Load(), int64(40))
		require.Greater(t, runs.Load(), int64(4))
		all, err := wallets.Scheduled(t.Context(), "a")
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.NotEmpty(t, all[0].GivenUp)
	}, shardtest.Host(func(n *shard.Node) error {
		return bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }, shard.Intercept(func(ctx context.Context, i shard.Info, next func(context.Context) error) error {
			if i.Method == "Fill" && i.Tell {
				runs.Add(1)
			}
			return next(ctx)
		}))
	}))
}

// TestReminderInOnActivate: OnActivate may set a reminder, even if a //shard:read method activates
// the entity.
func TestReminderInOnActivate(t *testing.T) {
	for _, first := range []string{"call", "read"} {
		t.Run(first, func(t *testing.T) {
			shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
				buyers := bank.NewSaverClient(c.Client())
				var err error
				if first == "read" {
					_, _, _, err = buyers.Ref("a").Get(t.Context())
				} else {
					_, err = buyers.Ref("a").Add(t.Context(), 0)
				}
				require.NoError(t, err)
				all, err := buyers.Scheduled(t.Context(), "a")
				require.NoError(t, err)
				require.Len(t, all, 1)
			}, shardtest.Host(func(n *shard.Node) error {
				return bank.HostSaver(n, func() *bank.Saver {
					return &bank.Saver{Wakes: func(ctx context.Context, g *bank.Saver) error {
						if g.Stays == 1 {
							return bank.SaverSelf(ctx, shard.In(time.Hour)).Break(ctx)
						}
						return nil
					}}
				})
			}))
		})
	}
}

// TestReminderOfActivationWithoutTurn: if the call that activated the entity was answered from
// memory, the reminder of OnActivate is not committed, and OnActivate runs again.
func TestReminderOfActivationWithoutTurn(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		buyers := bank.NewSaverClient(c.Client())
		for range 2 {
			_, err := buyers.Ref("a", shard.CommandID("k")).Add(t.Context(), 1)
			require.NoError(t, err)
			c.Restart("n1")
			c.Advance(30 * time.Minute) // so only the entity knows the key
		}
		_, err := buyers.Ref("a", shard.CommandID("k")).Add(t.Context(), 1)
		require.NoError(t, err)
		_, err = buyers.Ref("a").Add(t.Context(), 1)
		require.NoError(t, err)
		all, err := buyers.Scheduled(t.Context(), "a")
		require.NoError(t, err)
		require.Len(t, all, 1)
	}, shardtest.Host(func(n *shard.Node) error {
		return bank.HostSaver(n, func() *bank.Saver {
			return &bank.Saver{Wakes: func(ctx context.Context, g *bank.Saver) error {
				if g.Stays > 1 {
					return bank.SaverSelf(ctx, shard.In(time.Hour)).Break(ctx)
				}
				return nil
			}}
		})
	}))
}

// TestReminderAfterTheTurn: a goroutine that outlives its turn cannot set a reminder, and gets an
// error.
func TestReminderAfterTheTurn(t *testing.T) {
	var kept context.Context
	var once sync.Once
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		buyers := bank.NewSaverClient(c.Client())
		_, err := buyers.Ref("a").Add(t.Context(), 1)
		require.NoError(t, err)
		require.Error(t, bank.SaverSelf(kept, shard.In(time.Second)).Break(kept))
		_, err = shard.Unschedule(kept, "Break")
		require.ErrorIs(t, err, shard.ErrNoReminders)
		_, err = shard.Scheduled(kept)
		require.ErrorIs(t, err, shard.ErrNoReminders)
	}, shardtest.Host(func(n *shard.Node) error {
		return bank.HostSaver(n, func() *bank.Saver {
			return &bank.Saver{Wakes: func(ctx context.Context, _ *bank.Saver) error {
				once.Do(func() { kept = ctx })
				return nil
			}}
		})
	}))
}

// TestInterceptedReminder: an interceptor cannot run a reminder's method twice in a turn. If it
// does not call next, the reminder does not count as run.
func TestInterceptedReminder(t *testing.T) {
	var arrived atomic.Bool
	refuses := &atomic.Int64{}
	refuses.Store(2)
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		wallets := bank.NewWalletClient(c.Client())
		require.NoError(t, wallets.Tell("a", shard.In(time.Second)).Put(t.Context(), 5))
		c.Advance(30 * time.Second)
		total, err := wallets.Ref("a").Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(5), total)
		require.True(t, arrived.Load(), "interceptors see when it has arrived")
	}, shardtest.Host(func(n *shard.Node) error {
		return bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }, shard.Intercept(func(ctx context.Context, i shard.Info, next func(context.Context) error) error {
			if _, fired := shard.Fired(ctx); !fired || i.Method != "Put" {
				return next(ctx)
			}
			arrived.Store(!i.Arrived.IsZero())
			if refuses.Add(-1) >= 0 {
				return errors.New("not now")
			}
			return errors.Join(next(ctx), next(ctx))
		}))
	}))
}

// TestTryAgainOfPlainTell: if the method of a plain tell returns TryAgain, its changes are dropped.
// The tell is not repeated, because it is not stored.
func TestTryAgainOfPlainTell(t *testing.T) {
	withAlarms(t, func(t *testing.T, c *shardtest.Cluster, all *bank.AlarmClient, tried *atomic.Int64) {
		require.NoError(t, all.Tell("a").Snooze(t.Context(), 2))
		c.Advance(10 * time.Minute)
		require.Equal(t, int64(1), tried.Load())
		require.Empty(t, rung(t, all, "a"))
	})
}

// TestReminderWithArgumentsOfAnother: a reminder whose arguments cannot be decoded is tried again
// like a failed one, because another program may decode them.
func TestReminderWithArgumentsOfAnother(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		sellers := shop.NewSellerClient(c.Client())
		_, err := sellers.CallRaw(t.Context(), shard.Raw{
			Method: "Tell", ID: "a", ContentType: shard.ContentProtobuf, Body: []byte{0xff}, Delay: &codegen.Delay{Kind: 1, After: time.Second},
		})
		require.NoError(t, err)
		c.Advance(10 * time.Second)
		all, err := sellers.Scheduled(t.Context(), "a")
		require.NoError(t, err)
		require.Len(t, all, 1)
	}, shardtest.Host(func(n *shard.Node) error {
		return shop.HostSeller(n, func() *shop.Seller { return &shop.Seller{} })
	}))
}
