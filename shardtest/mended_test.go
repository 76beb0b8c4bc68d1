package shardtest_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
	"github.com/shardgen/shardgen/transport/memory"
)

// The tests of this file show bugs of this module that were mended, as a user's tests meet them.
// Each names the line without which it fails, and the decision that mended it if there is one.

func hostAccounts(n *shard.Node) error {
	return fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} })
}

// TestTellsKeepTheirOrder: what one client sends arrives in its order while the shard moves
// (ADR 0004). Without the barrier at the new home, which region's barriers.before returns, younger
// tells that come there directly run before older ones that the old home forwards.
func TestTellsKeepTheirOrder(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		const id, all = "ann", 2000
		account, tell := fixture.NewAccountClient(c.Client()).Ref(id), fixture.NewAccountClient(c.Client()).Tell(id)
		if _, err := account.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		sent := make(chan error)
		go func() {
			for i := range all {
				if err := tell.Note(t.Context(), fmt.Sprint(i)); err != nil {
					sent <- err
				}
				time.Sleep(time.Millisecond)
			}
			close(sent)
		}()
		for range 20 {
			c.Move("Account", id, fmt.Sprint("n", 1+c.Rand().IntN(3)))
			c.Advance(time.Duration(c.Rand().Int64N(int64(100 * time.Millisecond))))
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		lines, err := account.Lines(t.Context())
		if err != nil || len(lines) != all {
			t.Fatalf("got %d of %d tells, %v", len(lines), all, err)
		}
		for i, line := range lines {
			if line != fmt.Sprint(i) {
				t.Fatalf("tell %d is %s", i, line)
			}
		}
	}, shardtest.Host(hostAccounts), shardtest.Latency(time.Millisecond, 20*time.Millisecond), shardtest.Seed(9))
}

// TestCallsWaitForASlowMove: calls and tells that come while a turn holds up the move of their shard, for
// longer than Config.CallTimeout, wait and run in their order at the new home (ADR 0004). Where
// region's delivery.Expire takes them, tells are lost, and younger calls overtake older ones.
func TestCallsWaitForASlowMove(t *testing.T) {
	probe := &fixture.Probe{}
	host := func(n *shard.Node) error {
		return fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{Probe: probe} })
	}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		probe.Entered, probe.Release = make(chan string, 1), make(chan struct{})
		accounts := fixture.NewAccountClient(c.Client())
		ann, tell := accounts.Ref("ann", shard.Timeout(time.Hour)), accounts.Tell("ann")
		var calls sync.WaitGroup
		calls.Go(func() {
			if err := ann.Hold(t.Context()); err != nil {
				t.Error(err)
			}
		})
		<-probe.Entered
		to := "n1"
		if c.Home("Account", "ann") == to {
			to = "n2"
		}
		calls.Go(func() { c.Move("Account", "ann", to) })
		c.Advance(time.Second)
		var want []string
		for i := range 20 {
			line := fmt.Sprint(i)
			want = append(want, line)
			if i%2 == 0 {
				if err := tell.Note(t.Context(), line); err != nil {
					t.Fatal(err)
				}
			} else {
				calls.Go(func() {
					if err := ann.Note(t.Context(), line); err != nil {
						t.Error(err)
					}
				})
			}
			c.Advance(time.Second)
		}
		probe.Release <- struct{}{}
		calls.Wait()
		lines, err := ann.Lines(t.Context())
		if err != nil || !slices.Equal(lines, want) {
			t.Errorf("got %v, %v, want %v", lines, err, want)
		}
		if home := c.Home("Account", "ann"); home != to {
			t.Errorf("it lives at %s, want %s", home, to)
		}
	}, shardtest.Host(host), shardtest.Latency(time.Millisecond, 20*time.Millisecond), shardtest.Seed(26))
}

// TestCallsRunOnceOverALongCut: a call whose answer is lost, of a client that was away for
// longer than members remember clients, does not run again (ADR 0001). Where routing.GiveBack
// takes a call that was sent for one that did not run, it runs twice or is said not to have run.
func TestCallsRunOnceOverALongCut(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		account := fixture.NewAccountClient(c.Client()).Ref("ann", shard.Timeout(time.Hour))
		if _, err := account.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		c.Broker().Cut(memory.Path{From: memory.Any, To: "client"}) // the call arrives, and the answer does not
		result := make(chan error)
		go func() {
			_, err := account.Add(t.Context(), 1)
			result <- err
		}()
		c.Advance(time.Second)
		c.Broker().Disconnect("client")
		c.Broker().Mend(memory.Path{From: memory.Any, To: "client"}) // the members hear that it is gone
		c.Advance(5 * time.Minute)
		c.Broker().Reconnect("client")
		err := <-result
		balance, again := fixture.NewAccountClient(c.Node("n1")).Ref("ann").Get(t.Context())
		if again != nil || balance != 2 || shard.OutcomeOf(err) == shard.NotExecuted {
			t.Errorf("the balance is %d, %v, after a call and one that ended with %v; want 2, and a second call that may have run", balance, again, err)
		}
	}, shardtest.Host(hostAccounts), shardtest.Latency(time.Millisecond, 20*time.Millisecond), shardtest.Seed(25))
}

// TestCallsBeforeANewCluster: a call to a home of a cluster that has ended goes to the next one,
// also if the client hears of the new cluster before the broker reports that nobody received the
// call (ADR 0001). Without Client.putOff the call fails with an unknown outcome in about half of the
// rounds, because the call is sent again and again and its report takes half of the time between.
func TestCallsBeforeANewCluster(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		accounts := fixture.NewAccountClient(c.Client())
		names := c.Running()
		for range 8 {
			var account fixture.AccountRef
			for id := 0; id == 0 || c.Home("Account", fmt.Sprint(id-1)) != "n1"; id++ {
				account = accounts.Ref(fmt.Sprint(id), shard.Timeout(time.Minute))
				if _, err := account.Add(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range names {
				c.Kill(name)
			}
			c.Advance(5 * time.Second)
			c.Broker().Delay(memory.Path{From: "client", To: "n1"}, 190*time.Millisecond, 190*time.Millisecond)
			c.Advance(time.Duration(c.Rand().Int64N(int64(400 * time.Millisecond))))
			result := make(chan error)
			go func() {
				_, err := account.Add(t.Context(), 1)
				result <- err
			}()
			for _, name := range names {
				c.Start(name)
			}
			if err := <-result; err != nil {
				t.Error(err)
			}
			c.Broker().Mend(memory.Path{From: "client", To: "n1"})
		}
	}, shardtest.Host(hostAccounts), shardtest.Latency(time.Millisecond, 5*time.Millisecond), shardtest.Seed(28))
}

// TestClientFollowsANewCluster: a client that stays while all nodes are restarted calls those
// that come after them (ADR 0001). Without Client.beginAnew it compares the new cluster's tables
// with the old one's, and never calls again.
func TestClientFollowsANewCluster(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		accounts := fixture.NewAccountClient(c.Client())
		for i := range 10 {
			if _, err := accounts.Ref(fmt.Sprint(i)).Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		names := c.Running()
		for _, name := range names {
			c.Kill(name)
		}
		c.Advance(time.Duration(c.Rand().Int64N(int64(10 * time.Second))))
		for _, name := range names {
			c.Start(name)
		}
		for i := range 10 {
			if _, err := accounts.Ref(fmt.Sprint(i)).Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
	}, shardtest.Host(hostAccounts), shardtest.Latency(time.Millisecond, 20*time.Millisecond), shardtest.Seed(24))
}

// A timedWallet notes how long its Add takes.
type timedWallet struct {
	bank.WalletAPI
	took *atomic.Int64 // in nanoseconds
}

func (v timedWallet) Add(ctx context.Context, n int64) (int64, error) {
	began := time.Now()
	total, err := v.WalletAPI.Add(ctx, n)
	v.took.Store(int64(time.Since(began)))
	return total, err
}

// TestNestedCallsKeepTheirTime: the time of a call that a durable turn makes includes the wait for the
// commits that the turn has seen. Without the bound in invoker.doLater it takes as long as the
// store is away.
func TestNestedCallsKeepTheirTime(t *testing.T) {
	const bound = 50 * time.Millisecond
	var took atomic.Int64
	host := func(n *shard.Node) error {
		return bank.HostWallet(n, func() *bank.Wallet {
			return &bank.Wallet{Others: func(id string) bank.WalletAPI {
				return timedWallet{bank.NewWalletClient(n).Ref(id, shard.Timeout(bound)), &took}
			}}
		})
	}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		a := bank.NewWalletClient(c.Client()).Ref("a", shard.Timeout(time.Hour))
		for _, ref := range []bank.WalletRef{a, bank.NewWalletClient(c.Client()).Ref("b")} {
			if _, err := ref.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		c.Store().Stop()
		var calls sync.WaitGroup
		calls.Go(func() {
			if _, err := a.Add(t.Context(), 1); err != nil {
				t.Error(err)
			}
		})
		c.Advance(20 * time.Millisecond)
		calls.Go(func() {
			if _, err := a.Send(t.Context(), "b", 1); err == nil {
				t.Error("the call that the turn made has not failed")
			}
		})
		c.Advance(4 * time.Second)
		c.Store().Start(0)
		calls.Wait()
		if d := time.Duration(took.Load()); d < bound || d > 2*bound {
			t.Errorf("the call took %v, and its bound is %v", d, bound)
		}
	}, shardtest.Host(host), shardtest.Seed(63))
}

// TestMethodsSeeTheTimeout: a method sees the timeout of its caller's reference as its deadline, near and
// far. Without invoker.beginTimed one that runs on its caller's goroutine waits forever.
func TestMethodsSeeTheTimeout(t *testing.T) {
	const bound = 50 * time.Millisecond
	probe := &fixture.Probe{}
	host := func(n *shard.Node) error {
		return fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{Probe: probe} })
	}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		probe.Entered = make(chan string, 1)
		callers := append([]shard.Caller{c.Client()}, c.Node("n1"), c.Node("n2"), c.Node("n3"))
		for range 2 { // the second call finds the entity by its reference
			for _, caller := range callers {
				began := time.Now()
				err := fixture.NewAccountClient(caller).Ref("ann", shard.Timeout(bound)).Hold(t.Context())
				if took := time.Since(began); err == nil || took < bound || took > 2*bound {
					t.Errorf("%v after %v, the timeout is %v", err, took, bound)
				}
				<-probe.Entered
			}
		}
		if _, err := fixture.NewAccountClient(c.Client()).Ref("ann").Get(t.Context()); err != nil {
			t.Error(err)
		}
	}, shardtest.Host(host), shardtest.Seed(7))
}
