package shardtest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

// TestAfterCommit: an interceptor learns when the store has a turn's changes, before the caller gets
// the answer; that this home cannot know; or that there is nothing to wait for.
func TestAfterCommit(t *testing.T) {
	var mu sync.Mutex
	var waits []bool
	var ends []error
	answered := false
	host := shardtest.Host(func(n *shard.Node) error {
		return bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} },
			shard.Intercept(func(ctx context.Context, _ shard.Info, next func(context.Context) error) error {
				err := next(ctx)
				mu.Lock()
				defer mu.Unlock()
				waits = append(waits, shard.AfterCommit(ctx, func(err error) {
					mu.Lock()
					defer mu.Unlock()
					ends = append(ends, err)
					if answered {
						ends = append(ends, errors.New("the caller has the answer already"))
					}
				}))
				return err
			}))
	})
	take := func() (w []bool, e []error) {
		mu.Lock()
		defer mu.Unlock()
		w, e, waits, ends = waits, ends, nil, nil
		return w, e
	}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ctx, wallet := t.Context(), bank.NewWalletClient(c.Client()).Ref("a", shard.Timeout(time.Minute))
		add := func() (end chan error) {
			end = make(chan error, 1)
			go func() {
				_, err := wallet.Add(ctx, 1)
				mu.Lock()
				defer mu.Unlock()
				answered = true
				end <- err
			}()
			return end
		}
		require.NoError(t, <-add())
		take()
		answered = false

		c.Store().Stop()
		end := add()
		c.Advance(100 * time.Millisecond)
		w, e := take()
		require.Equal(t, []bool{true}, w)
		require.Empty(t, e, "the store does not have the changes yet")
		c.Store().Start(0)
		require.NoError(t, <-end)
		_, e = take()
		require.Equal(t, []error{nil}, e)

		c.Settle()
		_, err := wallet.Get(ctx)
		require.NoError(t, err)
		w, e = take()
		require.Equal(t, []bool{false}, w, "the store has all that was read")
		require.Empty(t, e)

		answered = false
		home := c.Home("Wallet", "a")
		c.Store().Stop()
		end = add()
		c.Advance(100 * time.Millisecond)
		c.Isolate(home)
		c.Store().Start(0)
		c.Until("another home", func() bool { return c.Home("Wallet", "a") != home })
		require.NoError(t, <-end)
		w, e = take()
		require.Equal(t, []bool{true, true}, w, "of both homes")
		require.Equal(t, []error{nil}, e, "of the home that has answered")
		answered = false
		c.Mend()
		c.Settle()
		_, e = take()
		require.Len(t, e, 1)
		require.ErrorContains(t, e[0], "given up before the store had acknowledged")
	}, host, shardtest.Nodes(3))
}
