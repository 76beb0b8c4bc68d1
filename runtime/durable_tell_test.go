package shard_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
)

// homeOf returns the home of a wallet, as node n sees it.
func (v *wallets) homeOf(n *shard.Node, id string) string {
	v.t.Helper()
	at, err := n.Locate(testContext(v.t), "Wallet", id)
	require.NoError(v.t, err)
	return at.Node
}

// walletsAt returns count ids of wallets whose home is the named node.
func (v *wallets) walletsAt(name string, count int) (ids []string) {
	v.t.Helper()
	for i := 0; len(ids) < count; i++ {
		id := fmt.Sprint(name, i)
		if v.homeOf(v.nodes[name], id) == name {
			ids = append(ids, id)
		}
	}
	return ids
}

func countUpTo(n int64) (all []int64) {
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

func (v *wallets) noted(n shard.Caller, id string, want []int64) {
	v.t.Helper()
	var got []int64
	var err error
	require.Eventually(v.t, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		got, err = ref(n, id).Noted(ctx)
		return err == nil && len(got) >= len(want)
	}, testPatience, 5*time.Millisecond, "%s: %v, %v", id, &got, &err)
	require.Equal(v.t, want, got, id)
}

// TestDurableTellsOutliveTheirSender: the tells of a turn are in its commit. The receivers' home
// ends, then the senders', before any tell could arrive. The next homes deliver each tell once and
// in order.
func TestDurableTellsOutliveTheirSender(t *testing.T) {
	t.Parallel()
	v := newWallets(t, "a", "b")
	ctx := testContext(t)
	for _, n := range v.nodes { // each knows the homes of all
		_, err := ref(n, "any").Get(ctx)
		require.NoError(t, err)
	}
	var last [64]string
	same := 0 // consecutive checks in which no home has changed
	require.Eventually(t, func() bool {
		homes, now := map[string]bool{}, last
		for i := range now {
			now[i] = v.homeOf(v.nodes["a"], fmt.Sprint("x", i))
			homes[now[i]] = true
		}
		if same++; now != last {
			last, same = now, 0
		}
		return homes["a"] && homes["b"] && same >= 100
	}, testPatience, 10*time.Millisecond)
	from, to := v.walletsAt("a", 5), v.walletsAt("b", 5)
	for i := range from { // both are active
		total(t, v.nodes["a"], from[i], 0)
		total(t, v.nodes["a"], to[i], 0)
	}
	v.own["b"].Cut(true) // b cannot commit the tells that it gets
	for i := range from {
		last, err := ref(v.nodes["a"], from[i]).Dictate(ctx, to[i], 1, 10)
		require.NoError(t, err)
		require.EqualValues(t, 10, last)
	}
	v.kill("b")
	v.kill("a")
	v.start("c")
	for i := range to {
		v.noted(v.nodes["c"], to[i], countUpTo(10))
	}
}

// TestDurableTellsArriveOnceOverDeaths: every tell of a call that was answered arrives, once
// and in order, while homes end, in order or not.
func TestDurableTellsArriveOnceOverDeaths(t *testing.T) {
	t.Parallel()
	v := newWallets(t, "a", "b", "c")
	conn, err := shard.Dial(testContext(t), v.config("client"))
	require.NoError(t, err)
	defer conn.Close()
	over := make(chan struct{})
	const callers, each = 6, 3
	var sent [callers]int64
	var calls sync.WaitGroup
	for i := range callers {
		calls.Go(func() {
			for r := ref(conn, fmt.Sprint("from", i)); ; {
				select {
				case <-over:
					return
				default:
				}
				if _, err := r.Dictate(testContext(t), fmt.Sprint("to", i), sent[i]+1, sent[i]+each); err != nil {
					t.Errorf("from%d: %v", i, err)
					return
				}
				sent[i] += each
			}
		})
	}
	for i := range 3 {
		name := []string{"a", "b", "c"}[i]
		<-time.After(100 * time.Millisecond)
		if i%2 == 0 {
			v.kill(name)
		} else {
			require.NoError(t, v.nodes[name].Shutdown(testContext(t)))
			delete(v.nodes, name)
		}
		v.start(name + "2")
	}
	close(over)
	calls.Wait()
	for i, n := range sent {
		require.Positive(t, n)
		v.noted(conn, fmt.Sprint("to", i), countUpTo(n))
	}
}

// A lateTeller is a wallet whose Add sends a tell instead of a call, after the context of the
// calling turn has ended.
type lateTeller struct {
	bank.WalletAPI
	end func(context.Context) context.Context
}

func (l lateTeller) Add(ctx context.Context, n int64) (total int64, err error) {
	ctx = l.end(ctx)
	<-ctx.Done()
	return 0, l.Note(ctx, n)
}

// TestTellsOfALateTurn: a turn's changes and its tells are committed together, even if the turn's
// context, or one derived from it, has ended before.
func TestTellsOfALateTurn(t *testing.T) {
	t.Parallel()
	var end atomic.Pointer[func(context.Context) context.Context]
	v := newWallets(t)
	v.others = func(c *bank.WalletClient, id string) bank.WalletAPI { return lateTeller{c.Ref(id), *end.Load()} }
	v.start("a")
	v.start("b")
	conn, err := shard.Dial(testContext(t), v.config("client"))
	require.NoError(t, err)
	defer conn.Close()
	for name, c := range map[string]struct {
		timeout time.Duration
		end     func(ctx context.Context, giveUp func()) context.Context
	}{
		"the deadline has passed": {20 * time.Millisecond, func(ctx context.Context, _ func()) context.Context { return ctx }},
		"the caller has given up": {testPatience, func(ctx context.Context, giveUp func()) context.Context {
			giveUp()
			return ctx
		}},
		"a part's time is over": {testPatience, func(ctx context.Context, _ func()) context.Context {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			return ended
		}},
	} {
		for by, caller := range map[string]shard.Caller{"a": v.nodes["a"], "b": v.nodes["b"], "client": conn} {
			t.Run(name+", "+by, func(t *testing.T) {
				from, to := t.Name(), t.Name()+"'s other"
				var began atomic.Bool
				for timeout := c.timeout; !began.Load(); timeout *= 2 {
					ctx, giveUp := context.WithTimeout(testContext(t), timeout)
					ends := func(ctx context.Context) context.Context {
						began.Store(true)
						return c.end(ctx, giveUp)
					}
					end.Store(&ends)
					_, _ = ref(caller, from).Send(ctx, to, 5)
					giveUp()
					_, err := ref(caller, from).Get(testContext(t)) // it waits until the turn has ended
					require.NoError(t, err)
				}
				total(t, caller, from, -5)
				(&wallets{t: t}).noted(caller, to, []int64{5})
			})
		}
	}
}
