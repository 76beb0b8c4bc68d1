package shardtest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

// TestInterceptorsSeeReminders: a host's interceptors see whether a call sets, lists or cancels
// reminders.
func TestInterceptorsSeeReminders(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		wallets := bank.NewWalletClient(c.Client())
		require.NoError(t, wallets.Tell("a", shard.In(time.Hour)).Put(t.Context(), 5))
		_, err := wallets.Scheduled(t.Context(), "a")
		require.NoError(t, err)
		_, err = wallets.Unschedule(t.Context(), "a", "Put")
		require.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{"Put", "!scheduled", "!unschedule"}, seen)
	}, shardtest.Host(func(n *shard.Node) error {
		return bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }, shard.Intercept(func(ctx context.Context, i shard.Info, next func(context.Context) error) error {
			mu.Lock()
			seen = append(seen, i.Method)
			mu.Unlock()
			return next(ctx)
		}))
	}))
}
