package shardtest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shardgen/shardgen/examples/auction/auction"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/util/invariant"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

const least, most = time.Millisecond, 20 * time.Millisecond

// TestFaults sets each fault once, between calls. Calls must succeed after each fault.
func TestFaults(t *testing.T) {
	for name, fault := range map[string]func(c *shardtest.Cluster, home string){
		"kill":     func(c *shardtest.Cluster, home string) { c.Kill(home) },
		"shutdown": func(c *shardtest.Cluster, home string) { c.Shutdown(home) },
		"restart":  func(c *shardtest.Cluster, home string) { c.Restart(home) },
		"pause":    func(c *shardtest.Cluster, home string) { c.Pause(home, 3*time.Second) },
		"isolation": func(c *shardtest.Cluster, home string) {
			c.Isolate(home)
			c.Advance(time.Minute)
			c.Mend()
			<-c.Node(home).Done() // the node learns that the others have removed it
			if err := c.Node(home).Err(); !errors.Is(err, shard.ErrDowned) {
				panic(err)
			}
		},
		"mended isolation": func(c *shardtest.Cluster, home string) {
			c.Isolate(home)
			c.Advance(2 * time.Second)
			c.Mend()
		},
		"cut from the client": func(c *shardtest.Cluster, home string) {
			c.Cut(home, "client")
			c.Advance(10 * time.Second)
			c.Mend()
		},
		"partition": func(c *shardtest.Cluster, home string) {
			c.Partition(home)
			c.Advance(time.Minute)
			c.Mend()
		},
	} {
		t.Run(name, func(t *testing.T) {
			shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
				ann := auction.NewUserClient(c.Client()).Ref("ann")
				for i := range int64(3) {
					if err := ann.Deposit(t.Context(), 1); err != nil {
						t.Fatal(err)
					}
					if free, err := ann.Free(t.Context()); err != nil || free != i+1 {
						t.Fatalf("%d free, %v; want %d", free, err, i+1)
					}
					if i == 0 {
						fault(c, c.Home("User", "ann"))
					}
				}
				c.Settle()
			}, shardtest.Host(auction.Host), shardtest.Latency(least, most), shardtest.Seed(1))
		})
	}
}

// TestMove: the entity lives at the node to which it was moved. After a kill of that node, it lives
// at another.
func TestMove(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ann := fixture.NewAccountClient(c.Client()).Ref("ann")
		if _, err := ann.Add(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		for _, node := range []string{"n2", "n3", "n1", "n3"} {
			c.Move("Account", "ann", node)
			if got := c.Home("Account", "ann"); got != node {
				t.Errorf("the entity lives at %s, want %s", got, node)
			}
		}
		if got, err := ann.Get(t.Context()); err != nil || got != 5 {
			t.Errorf("got %d, %v, want the state to have moved", got, err)
		}
		c.Kill("n3")
		if got := c.Home("Account", "ann"); got == "n3" {
			t.Error("the entity lives at a killed node")
		}
		c.Settle()
		if got := fmt.Sprint(c.Running()); got != "[n1 n2]" {
			t.Errorf("%s run, want n1 and n2", got)
		}
	}, shardtest.Host(hostAccounts), shardtest.Latency(least, most), shardtest.Seed(2))
}

// TestPause: a call to a paused node waits, and then arrives.
func TestPause(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ann := auction.NewUserClient(c.Client()).Ref("ann")
		if err := ann.Deposit(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		c.Pause(c.Home("User", "ann"), 2*time.Second)
		if err := ann.Deposit(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("the call took %v, want a little more than 2s", took)
		}
	}, shardtest.Host(auction.Host), shardtest.Latency(least, most), shardtest.Seed(3))
}

// TestPausesOverlap: if two pauses of a node overlap, the later end counts.
func TestPausesOverlap(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ann := auction.NewUserClient(c.Client()).Ref("ann")
		if err := ann.Deposit(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		begin, home := time.Now(), c.Home("User", "ann")
		c.Pause(home, 2*time.Second)
		c.Pause(home, 500*time.Millisecond)
		if err := ann.Deposit(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("the call took %v, want a little more than 2s", took)
		}
	}, shardtest.Host(auction.Host), shardtest.Latency(least, most), shardtest.Seed(3))
}

// TestStorm: after a storm, the balances have each answered deposit once, and no deposit that
// failed for certain.
func TestStorm(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
				var history shardtest.History[string, struct{}]
				users := auction.NewUserClient(c.Client())
				var calling sync.WaitGroup
				for caller := range 4 {
					calling.Go(func() {
						for i := range 20 {
							id := fmt.Sprint("user-", (caller+i)%3)
							_, _ = history.Call(id, func() (none struct{}, err error) {
								return none, users.Ref(id, shard.Timeout(time.Hour)).Deposit(t.Context(), 1)
							})
							time.Sleep(time.Second)
						}
					})
				}
				c.Storm(20 * time.Second)
				calling.Wait()
				c.Settle()
				total := int64(0)
				for i := range 3 {
					free, err := users.Ref(fmt.Sprint("user-", i)).Free(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					total += free
				}
				count := history.Count()
				if total < int64(count[shard.Executed]) || total > int64(count[shard.Executed]+count[shard.Unknown]) {
					t.Errorf("the balance is %d, with outcomes %v", total, count)
				}
			}, shardtest.Host(auction.Host), shardtest.Latency(least, most), shardtest.Seed(seed))
		})
	}
}

// TestHundredClusters runs as many tests of a three-node cluster as a user may have. Each takes
// some milliseconds.
func TestHundredClusters(t *testing.T) {
	begin, used, passed := time.Now(), processorTime(t), 0
	for i := range uint64(100) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
				ann := auction.NewUserClient(c.Client()).Ref("ann")
				if err := ann.Deposit(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				c.Kill(c.Home("User", "ann"))
				if err := ann.Deposit(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				if free, err := ann.Free(t.Context()); err != nil || free != 2 {
					t.Errorf("%d free, %v; want 2", free, err)
				}
				passed++
			}, shardtest.Host(auction.Host), shardtest.Latency(least, most), shardtest.Seed(i))
		})
	}
	took, used := time.Since(begin), processorTime(t)-used
	t.Logf("%d clusters in %v, with %v of processor time", passed, took.Round(time.Millisecond), used.Round(time.Millisecond))
	if passed != 100 {
		t.Errorf("%d clusters have passed, want 100", passed)
	}
	// Wall-clock time would include the other programs of the machine.
	if limit := 20 * time.Second; used > limit && !invariant.Race {
		t.Errorf("100 clusters took %v of processor time, at most %v may be", used, limit)
	}
}

// processorTime returns this process's processor time so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestRealTime: outside a bubble the same cluster runs in real time.
func TestRealTime(t *testing.T) {
	t.Parallel()
	c := shardtest.New(t, shardtest.Nodes(2), shardtest.Host(auction.Host), shardtest.Latency(least, least), shardtest.Seed(1))
	if err := auction.NewUserClient(c.Node("n2")).Ref("ann").Deposit(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	c.Settle()
}

// TestSeed: the same seed gives the test and the storm the same random choices.
func TestSeed(t *testing.T) {
	t.Setenv(shardtest.SeedVariable, "42")
	var drawn []uint64
	for range 2 {
		shardtest.Run(t, func(_ *testing.T, c *shardtest.Cluster) {
			drawn = append(drawn, c.Seed(), c.Rand().Uint64())
		}, shardtest.Nodes(0))
	}
	want := rand.New(rand.NewPCG(42, 1)).Uint64()
	if fmt.Sprint(drawn) != fmt.Sprint([]uint64{42, want, 42, want}) {
		t.Errorf("drew %v, want 42 and %d, twice", drawn, want)
	}
}

// TestUntil checks that Until waits in virtual time.
func TestUntil(t *testing.T) {
	shardtest.Run(t, func(_ *testing.T, c *shardtest.Cluster) {
		begin := time.Now()
		c.Until("a minute has passed", func() bool { return time.Since(begin) >= time.Minute })
	}, shardtest.Nodes(0))
}

// TestHistory: a History has the order and the outcomes of calls.
func TestHistory(t *testing.T) {
	var h shardtest.History[string, int]
	_, _ = h.Call("a", func() (int, error) { return h.Call("b", func() (int, error) { return 1, nil }) })
	_, _ = h.Call("c", func() (int, error) { return 0, &shard.CallError{Outcome: shard.NotExecuted, Err: shard.ErrNoHost} })
	_, _ = h.Call("d", func() (int, error) { return 0, context.Canceled })
	got := ""
	for _, o := range h.Operations() {
		got += fmt.Sprint(o.In, o.Out, " ", o.Begin, "-", o.End, " ", o.Outcome(), "; ")
	}
	if want := "a1 1-4 executed; b1 2-3 executed; c0 5-6 not executed; d0 7-8 unknown; "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCaller checks the errors of a Caller.
func TestCaller(t *testing.T) {
	c := shardtest.NewCaller()
	users := auction.NewUserClient(c)
	if err := users.Ref("ann").Deposit(t.Context(), 1); !errors.Is(err, shard.ErrNoHost) || shard.OutcomeOf(err) != shard.NotExecuted {
		t.Errorf("an unknown entity: %v", err)
	}
	c.Put("User", "ann", &auction.Auction{})
	if err := users.Ref("ann").Deposit(t.Context(), 1); !errors.Is(err, shard.ErrMismatch) {
		t.Errorf("another type: %v", err)
	}
	ann := &auction.User{Auctions: auction.NewAuctionClient(c)}
	c.Put("User", "ann", ann)
	c.Put("Auction", "vase", &auction.Auction{})
	c.Fail("User", "ann", shard.Unknown, shard.ErrLost)
	if err := errors.Join(users.Ref("ann").Deposit(t.Context(), 1), users.Tell("ann").Deposit(t.Context(), 1)); !errors.Is(err, shard.ErrLost) || ann.Money != 0 {
		t.Errorf("a failure: %v, %d", err, ann.Money)
	}
	c.Fail("User", "ann", shard.Unknown, nil)
	if err := errors.Join(users.Ref("ann").Deposit(t.Context(), 1), users.Tell("ann").Deposit(t.Context(), 1)); err != nil || ann.Money != 1 {
		t.Errorf("a call and a tell: %v, %d", err, ann.Money)
	}
	if err := users.Ref("ann").Bid(t.Context(), "vase", 2); !errors.Is(err, auction.ErrNotCovered) {
		t.Errorf("the method's error: %v", err)
	}
	if n := len(c.Calls()); n != 8 {
		t.Errorf("%d calls, want 8: %v", n, c.Calls())
	}
}
