package shard_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// TestDurableContextOfOtherTurns: a context kept by a method of a durable type belongs to no turn
// after the method's own, although later calls reuse the memory of earlier ones.
func TestDurableContextOfOtherTurns(t *testing.T) {
	v := newWallets(t)
	var kept []context.Context
	call := startDurableLooker(t, v, func(ctx context.Context) {
		for _, old := range kept {
			_, ok := shard.CallInfo(old)
			require.False(t, ok)
			require.Error(t, shard.Passivate(old))
		}
		if _, ok := shard.CallInfo(ctx); ok {
			kept = append(kept, ctx)
		}
	})
	for range 5 {
		require.NoError(t, call("Look"))
		require.NoError(t, call("Stale"))
	}
	require.Len(t, kept, 5)
}

// TestDurableContextThatIsNotNamed: if the generated code says that a method does not name its
// context, and the method uses it, the context has ended, with the remedy as its error. This is as
// in volatile types.
func TestDurableContextThatIsNotNamed(t *testing.T) {
	v := newWallets(t)
	var seen context.Context
	call := startDurableLooker(t, v, func(ctx context.Context) { seen = ctx })
	require.NoError(t, call("Look"), "it activates")
	require.NotContains(t, seen.Err().Error(), "generated code", "the turn has ended, and had its own")
	for range 2 {
		require.NoError(t, call("Stale"))
		require.ErrorContains(t, seen.Err(), "the generated code of Looker is older than its methods")
	}
}

// startDurableLooker starts a node with lookers that are durable, and returns a way to call one.
func startDurableLooker(t *testing.T, v *wallets, look func(context.Context)) (call func(method string) error) {
	t.Helper()
	h := lookers(look)
	h.Durable = true
	v.made = func(n *shard.Node) { require.NoError(t, n.Host(h)) }
	r := codegen.NewRef(v.start("a").ShardInvoker(h.Kind), "l", nil)
	return func(method string) error { return callLooker(testContext(t), r, method) }
}

// TestDurableCallsKeepTheirMemory: concurrent calls get their own results, although later calls
// reuse their memory and some calls are given up while they wait for the store.
func TestDurableCallsKeepTheirMemory(t *testing.T) {
	t.Parallel()
	v := newWallets(t, "a")
	var callers sync.WaitGroup
	for i := range 32 {
		callers.Go(func() {
			r, least := ref(v.nodes["a"], fmt.Sprint("v", i)), int64(0)
			for n := range int64(200) {
				ctx, cancel := testContext(t), context.CancelFunc(func() {})
				if n%10 == 9 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(n)*time.Microsecond)
				}
				sum, err := r.Add(ctx, 1)
				cancel()
				switch {
				case err == nil && !assert.Greater(t, sum, least, "as many as were answered, and those that were given up"):
					return
				case err == nil:
					least = sum
				case n%10 != 9:
					assert.NoError(t, err)
					return
				}
			}
			sum, err := r.Get(testContext(t))
			assert.NoError(t, err)
			assert.GreaterOrEqual(t, sum, least)
			assert.LessOrEqual(t, sum, int64(200))
		})
	}
	callers.Wait()
}

// TestOlderClientOfDurable: a method that is no read in the host's code is not run as a read,
// whatever the client's generated code says.
func TestOlderClientOfDurable(t *testing.T) {
	v := newWallets(t)
	h := lookers(func(context.Context) {})
	h.Durable = true // Reads is empty
	v.made = func(n *shard.Node) { require.NoError(t, n.Host(h)) }
	r := codegen.NewRef(v.start("a").ShardInvoker(h.Kind), "l", nil)
	require.NoError(t, r.Run(testContext(t), "Look", nil, nil), "it activates")
	turn, err := r.Begin(testContext(t), "Look")
	require.NoError(t, err)
	require.Nil(t, turn.Entity, "it would run without a commit")
}
