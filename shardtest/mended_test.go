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

// The tests of this file show mended bugs of this module, as a user's tests would meet them. Each
// names the line without which it fails, and the decision behind it if there is one.

func hostAccounts(n *shard.Node) error {
	return fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} })
}

// TestTellsKeepTheirOrder: tells of one client arrive in order while the shard moves (ADR 0004).
// Without the new home's barrier, which region's barriers.before returns, younger tells that come
// directly run before older tells that the old home forwards.
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

// TestCallsWaitForASlowMove: calls and tells that come while a turn holds up the move of their
// shard, for longer than Config.CallTimeout, wait, and run in order at the new home (ADR 0004). If
// region's delivery.Expire took them, tells would be lost, and younger calls would overtake older
// ones.
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
			t.Errorf("the entity lives at %s, want %s", home, to)
		}
	}, shardtest.Host(host), shardtest.Latency(time.Millisecond, 20*time.Millisecond), shardtest.Seed(26))
}

// TestCallsRunOnceOverALongCut: a call whose answer is lost does not run again, even if its client
// was away until members forgot it (ADR 0001). If routing.GiveBack took a sent call for one that
// did not run, the call would run twice, or fail as not executed.
func TestCallsRunOnceOverALongCut(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		account := fixture.NewAccountClient(c.Client()).Ref("ann", shard.Timeout(time.Hour))
		if _, err := account.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		c.Broker().Cut(memory.Path{From: memory.Any, To: "client"}) // the call arrives, but the answer does not
		result := make(chan error)
		go func() {
			_, err := account.Add(t.Context(), 1)
			result <- err
		}()
		c.Advance(time.Second)
		c.Broker().Disconnect("client")
		c.Broker().Mend(memory.Path{From: memory.Any, To: "client"}) // the members learn that the client is gone
		c.Advance(5 * time.Minute)
		c.Broker().Reconnect("client")
		err := <-result
		balance, again := fixture.NewAccountClient(c.Node("n1")).Ref("ann").Get(t.Context())
		if again != nil || balance != 2 || shard.OutcomeOf(err) == shard.NotExecuted {
			t.Errorf("the balance is %d, %v, after two calls, the second of which ended with %v; want 2, and an outcome other than NotExecuted", balance, again, err)
		}
	}, shardtest.Host(hostAccounts), shardtest.Latency(time.Millisecond, 20*time.Millisecond), shardtest.Seed(25))
}

// TestCallsBeforeANewCluster: a call to a home in an ended cluster goes to the next cluster, even
// if the client learns of that before the broker reports that nobody received the call (ADR 0001).
// Without Client.putOff, the call fails with an unknown outcome in about half of the rounds: the
// report takes half of the time between two sends.
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

// TestClientFollowsANewCluster: a client outlives a restart of all nodes, and calls the new ones
// (ADR 0001). Without Client.beginAnew, it compares the new cluster's tables with the old
// cluster's, and never calls again.
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

// TestNestedCallsKeepTheirTime: the timeout of a call made by a durable turn includes the wait for
// commits that the turn has seen. Without the bound in invoker.doLater, the call takes as long as
// the store is away.
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

// TestMethodsSeeTheTimeout: a method sees the timeout of its caller's reference as its deadline, in
// the caller's process or elsewhere. Without invoker.beginTimed, a method that runs on its caller's
// goroutine waits forever.
func TestMethodsSeeTheTimeout(t *testing.T) {
	const bound = 50 * time.Millisecond
	probe := &fixture.Probe{}
	host := func(n *shard.Node) error {
		return fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{Probe: probe} })
	}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		probe.Entered = make(chan string, 1)
		callers := append([]shard.Caller{c.Client()}, c.Node("n1"), c.Node("n2"), c.Node("n3"))
		for range 2 { // the second call uses the entity cached in the reference
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
