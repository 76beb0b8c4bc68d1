package shard_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestCommandIDInATurn: calls with one key are one command, whether they are made by turns of
// durable entities or by clients. The key of the turn's own call has no effect on the calls that
// the turn makes.
func TestCommandIDInATurn(t *testing.T) {
	var key atomic.Value
	v := newWallets(t)
	v.others = func(c *bank.WalletClient, id string) bank.WalletAPI {
		return c.Ref(id, shard.CommandID(key.Load().(string)))
	}
	v.start("a")
	v.start("b")
	conn, err := shard.Dial(testContext(t), v.config("client"))
	require.NoError(t, err)
	defer conn.Close()
	send := func(from string, opts ...shard.CallOption) {
		t.Helper()
		_, err := ref(conn, from, opts...).Send(testContext(t), "to", 5)
		require.NoError(t, err)
	}
	for i, k := range []string{"k1", "k2"} {
		key.Store(k)
		send("x")
		send("x")
		send("y")
		send("x", shard.CommandID("outer 1 "+k))
		send("y", shard.CommandID("outer 2 "+k))
		total(t, conn, "to", int64(i+1)*5)
		got, err := ref(conn, "to", shard.CommandID(k)).Add(testContext(t), 5)
		require.NoError(t, err)
		require.EqualValues(t, (i+1)*5, got, "a client's call with the key %s", k)
		total(t, conn, "to", int64(i+1)*5)
	}
	total(t, conn, "x", -30)
	total(t, conn, "y", -20)
}

// A cutOff is a wallet whose first answer comes back only when its caller's context has ended.
type cutOff struct {
	bank.WalletAPI
	first   *sync.Once
	applied chan struct{}
}

func (c cutOff) Add(ctx context.Context, n int64) (total int64, err error) {
	total, err = c.WalletAPI.Add(ctx, n)
	c.first.Do(func() {
		close(c.applied)
		<-ctx.Done()
		err = ctx.Err()
	})
	return total, err
}

// TestCommandIDInATurnThatRunsAgain: the home of a turn ends after the turn's call with a key was
// applied. The turn runs again elsewhere, and its call is not applied again.
func TestCommandIDInATurnThatRunsAgain(t *testing.T) {
	t.Parallel()
	first, applied := new(sync.Once), make(chan struct{})
	v := newWallets(t)
	v.others = func(c *bank.WalletClient, id string) bank.WalletAPI {
		return cutOff{c.Ref(id, shard.CommandID("payment-1")), first, applied}
	}
	v.start("a")
	conn, err := shard.Dial(testContext(t), v.config("client"))
	require.NoError(t, err)
	defer conn.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := ref(conn, "from").Send(testContext(t), "to", 5)
		sent <- err
	}()
	<-applied
	v.kill("a")
	v.start("b")
	require.NoError(t, <-sent)
	total(t, conn, "to", 5)
	total(t, conn, "from", -5)
}

// A hurried is a wallet whose Add makes two calls. In the first run of the turn its first call
// fails, because fail ends the call's context or makes an interceptor refuse it.
type hurried struct {
	bank.WalletAPI
	fail    func(cancel func())
	first   *sync.Once
	applied chan struct{}
}

func (h hurried) Add(ctx context.Context, n int64) (total int64, err error) {
	ended, cancel := context.WithCancel(ctx)
	defer cancel()
	first := false
	h.first.Do(func() {
		first = true
		h.fail(cancel)
	})
	if _, err := h.WalletAPI.Add(ended, 1); (err != nil) != first {
		return 0, err
	}
	total, err = h.WalletAPI.Add(ctx, n)
	if first {
		close(h.applied)
		<-ctx.Done()
		err = ctx.Err()
	}
	return total, err
}

// TestLateCallsOfATurnThatRunsAgain: a turn could not make a call, because the call's context had
// ended or an interceptor refused it. The call is made when the turn runs again at another home.
// The turn's later calls keep their command ids.
func TestLateCallsOfATurnThatRunsAgain(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	for name, fail := range map[string]func(cancel func()){
		"late":    func(cancel func()) { cancel() },
		"refused": func(func()) { refuse.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			first, applied := new(sync.Once), make(chan struct{})
			v := newWallets(t)
			v.tune = func(cfg *shard.Config) {
				cfg.Interceptors = []shard.Interceptor{func(ctx context.Context, _ shard.Info, next func(context.Context) error) error {
					if refuse.CompareAndSwap(true, false) {
						return bank.ErrRefused
					}
					return next(ctx)
				}}
			}
			v.others = func(c *bank.WalletClient, id string) bank.WalletAPI { return hurried{c.Ref(id), fail, first, applied} }
			v.start("a")
			conn, err := shard.Dial(testContext(t), v.config("client"))
			require.NoError(t, err)
			defer conn.Close()
			sent := make(chan error, 1)
			go func() {
				_, err := ref(conn, "from").Send(testContext(t), "to", 5)
				sent <- err
			}()
			<-applied
			v.kill("a")
			v.start("b")
			require.NoError(t, <-sent)
			total(t, conn, "to", 6)
		})
	}
}
