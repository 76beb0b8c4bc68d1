package shardtest_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/measure"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/shardtest"
)

func hostCrew(s *fixture.Shift, opts ...shard.HostOption) shardtest.Option {
	return shardtest.Host(func(n *shard.Node) error {
		return fixture.HostCrew(n, func() *fixture.Crew { return &fixture.Crew{Node: n.Name(), Shift: s} }, opts...)
	})
}

// awaitCrew waits until the pool has n instances with running tasks, and returns their nodes.
func awaitCrew(c *shardtest.Cluster, s *fixture.Shift, n int) (at map[int]string) {
	c.Until(fmt.Sprint(n, " instances run"), func() bool {
		s.With(func(now map[int]string) { at = maps.Clone(now) })
		return len(at) == n
	})
	return at
}

// TestPool: instances are active without a call, each at a node of its own. A join moves no
// instance. Instances of a node that leaves or is killed start elsewhere. Each runs at one node at
// a time, with its task.
func TestPool(t *testing.T) {
	s := &fixture.Shift{}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		at := awaitCrew(c, s, 2)
		require.ElementsMatch(t, []string{"n1", "n2"}, slices.Collect(maps.Values(at)))
		c.Start("n3")
		c.Settle()
		require.Equal(t, at, awaitCrew(c, s, 2), "a join moves none")
		c.Shutdown(at[0])
		now := awaitCrew(c, s, 2)
		require.Equal(t, at[1], now[1])
		require.Equal(t, "n3", now[0])
		c.Kill("n3")
		c.Settle()
		require.Equal(t, map[int]string{0: at[1]}, awaitCrew(c, s, 1), "one node has room for one instance")
		c.Start("n3")
		awaitCrew(c, s, 2)
		require.Empty(t, s.Faults)
		require.Equal(t, 1, s.Tasks[0])
	}, hostCrew(s, shard.PoolSize(2, 2)), shardtest.Nodes(2))
}

// TestPoolSurvives: how many instances a pool has if its size depends on the number of nodes.
func TestPoolSurvives(t *testing.T) {
	s := &fixture.Shift{}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		awaitCrew(c, s, 3)
		c.Start("n4")
		c.Start("n5")
		awaitCrew(c, s, 4)
		c.Shutdown("n4")
		c.Shutdown("n5")
		awaitCrew(c, s, 3)
		client := fixture.NewCrewClient(c.Client())
		var seen []int
		for i, ref := range client.Each() {
			index, count, _, err := ref.Where(t.Context())
			require.NoError(t, err)
			require.Equal(t, i, index)
			require.Equal(t, 3, count)
			seen = append(seen, i)
		}
		require.Equal(t, []int{0, 1, 2}, seen)
		require.Empty(t, s.Faults)
	}, hostCrew(s, shard.PoolSize(1, 8), shard.Survive(func(n int) int { return min(n-1, n/2+1) })), shardtest.Nodes(3))
}

// TestPoolClients checks which instances the client's methods choose.
func TestPoolClients(t *testing.T) {
	s := &fixture.Shift{}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		at := awaitCrew(c, s, 4)
		ctx := t.Context()
		outside := fixture.NewCrewClient(c.Client())
		used := map[int]bool{}
		for range 200 {
			i, err := outside.Any().Work(ctx, 0)
			require.NoError(t, err)
			used[i] = true
		}
		require.Len(t, used, 4, "a client uses all instances")
		near := fixture.NewCrewClient(c.Node("n1"))
		for range 20 {
			i, err := near.Any().Work(ctx, 0)
			require.NoError(t, err)
			require.Equal(t, "n1", at[i], "an idle instance at the own node is preferred")
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		count := map[string]int{}
		call := func(ref fixture.CrewRef) {
			wg.Go(func() {
				i, err := ref.Work(ctx, time.Second)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					count[at[i]]++
				}
			})
		}
		for range 3 {
			call(near.Near())
		}
		wg.Wait()
		require.Equal(t, map[string]int{"n1": 3}, count)
		for range 12 {
			call(near.Any())
		}
		wg.Wait()
		require.Len(t, count, 4, "a busy instance is not preferred")
		keys := map[int]int{}
		for i := range 400 {
			key := fmt.Sprint("key ", i)
			i, err := outside.Key(key).Work(ctx, 0)
			require.NoError(t, err)
			j, err := near.Key(key).Work(ctx, 0)
			require.NoError(t, err)
			require.Equal(t, i, j)
			keys[i]++
		}
		for i, n := range keys {
			require.Greater(t, n, 50, "instance %d has few keys", i)
		}
		for i := range 4 {
			got, err := outside.At(i).Work(ctx, 0)
			require.NoError(t, err)
			require.Equal(t, i, got)
		}
		_, err := outside.At(4, shard.Timeout(time.Second)).Work(ctx, 0)
		require.ErrorContains(t, err, "the pool has 4 instances, 0 to 3")
		require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
		_, err = outside.At(400).Work(ctx, 0)
		require.ErrorContains(t, err, "want a number from 0 to 255")
		_, err = outside.Any(shard.Timeout(-1)).Work(ctx, 0)
		require.ErrorContains(t, err, "negative")
		for range 10 {
			require.NoError(t, outside.Tell().Note(ctx, ""))
			require.NoError(t, near.Tell().Note(ctx, ""))
		}
		c.Until("the notes are there", func() bool {
			told := 0
			s.With(func(map[int]string) { told = s.Told })
			return told == 20
		})
		require.ErrorContains(t, outside.Tell(shard.In(time.Minute)).Note(ctx, ""), "has no reminders")
		require.ErrorIs(t, outside.Any().Panic(ctx), shard.ErrPanic)
		_, err = shard.Instance(ctx)
		require.ErrorContains(t, err, "pool's method")
	}, hostCrew(s, shard.PoolSize(4, 4)), shardtest.Nodes(4))
}

// A load makes calls to a pool from several processes until it is stopped.
type load struct {
	wg     sync.WaitGroup
	stop   context.CancelFunc
	mu     sync.Mutex
	calls  int
	failed []error
}

func callCrew(ctx context.Context, each time.Duration, look bool, callers ...shard.Caller) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{stop: cancel}
	for _, caller := range callers {
		client := fixture.NewCrewClient(caller)
		for range 4 {
			l.wg.Go(func() {
				for ctx.Err() == nil {
					call := client.Any().Work
					if look {
						call = client.Any().Look
					}
					_, err := call(context.WithoutCancel(ctx), each)
					l.mu.Lock()
					l.calls++
					if err != nil {
						l.failed = append(l.failed, err)
					}
					l.mu.Unlock()
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
	}
	return l
}

func (l *load) end() (calls int, failed []error) {
	l.stop()
	l.wg.Wait()
	return l.calls, l.failed
}

// TestPoolRollingRestart: no call fails while all nodes restart in turn and the pool changes its
// size.
func TestPoolRollingRestart(t *testing.T) {
	s := &fixture.Shift{}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		awaitCrew(c, s, 3)
		l := callCrew(t.Context(), 5*time.Millisecond, false, c.Client())
		for _, name := range []string{"n1", "n2", "n3"} {
			c.Shutdown(name)
			c.Start(name)
			c.Settle()
			awaitCrew(c, s, 3)
		}
		calls, failed := l.end()
		require.Empty(t, failed)
		require.Greater(t, calls, 500)
		require.Empty(t, s.Faults)
	}, hostCrew(s, shard.PoolSize(3, 3)), shardtest.Nodes(3), shardtest.Latency(0, 2*time.Millisecond))
}

// TestPoolKills: only calls that a killed node may have begun fail, with an unknown outcome. No
// call fails if the method may run twice.
func TestPoolKills(t *testing.T) {
	for _, look := range []bool{false, true} {
		s := &fixture.Shift{}
		shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
			awaitCrew(c, s, 4)
			l := callCrew(t.Context(), 20*time.Millisecond, look, c.Client())
			for range 3 {
				for _, name := range []string{"n1", "n3"} {
					c.Advance(time.Second)
					c.Restart(name)
					c.Settle()
					awaitCrew(c, s, 4)
				}
			}
			calls, failed := l.end()
			require.Greater(t, calls, 500)
			for _, err := range failed {
				require.ErrorIs(t, err, shard.ErrLost)
				require.Equal(t, shard.Unknown, shard.OutcomeOf(err))
			}
			require.LessOrEqual(t, len(failed), 6*4, "at most those that were on their way to the node")
			if look {
				require.Empty(t, failed)
			}
		}, hostCrew(s, shard.PoolSize(4, 4)), shardtest.Nodes(4), shardtest.Latency(0, 2*time.Millisecond))
	}
}

// TestPoolInAStorm: during kills, pauses and cuts, no instance runs at two nodes. All run
// afterwards.
func TestPoolInAStorm(t *testing.T) {
	s := &fixture.Shift{}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		l := callCrew(t.Context(), 5*time.Millisecond, false, c.Client())
		c.Storm(2 * time.Minute)
		awaitCrew(c, s, 3)
		calls, _ := l.end()
		require.Greater(t, calls, 1000)
		require.Empty(t, s.Faults)
	}, hostCrew(s, shard.PoolSize(3, 6), shard.PerNode(2)), shardtest.Latency(0, 5*time.Millisecond))
}

// TestPoolSlowInstance: an instance that takes ten times as long as the other three gets few calls.
func TestPoolSlowInstance(t *testing.T) {
	s := &fixture.Shift{Slow: map[int]time.Duration{}}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		awaitCrew(c, s, 4)
		s.With(func(map[int]string) { s.Slow[1] = 50 * time.Millisecond })
		client := fixture.NewCrewClient(c.Client())
		p99 := func(ref func(r *rand.Rand) fixture.CrewRef) time.Duration {
			var mu sync.Mutex
			var took []time.Duration
			var wg sync.WaitGroup
			for k := range 8 {
				r := rand.New(rand.NewPCG(c.Seed(), uint64(k)))
				wg.Go(func() {
					for range 200 {
						began := time.Now()
						_, err := ref(r).Work(t.Context(), 5*time.Millisecond)
						require.NoError(t, err)
						mu.Lock()
						took = append(took, time.Since(began))
						mu.Unlock()
						time.Sleep(time.Duration(10+r.IntN(20)) * time.Millisecond)
					}
				})
			}
			wg.Wait()
			slices.Sort(took)
			return took[len(took)*99/100]
		}
		random := p99(func(r *rand.Rand) fixture.CrewRef { return client.At(r.IntN(4)) })
		any := p99(func(*rand.Rand) fixture.CrewRef { return client.Any() })
		t.Logf("p99: random %v, Any %v", random, any)
		require.LessOrEqual(t, any, random/2)
	}, hostCrew(s, shard.PoolSize(4, 4)), shardtest.Nodes(4))
}

// TestPoolPassesOver: a call does not go to an overloaded instance that has no room for it.
func TestPoolPassesOver(t *testing.T) {
	s := &fixture.Shift{}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		awaitCrew(c, s, 2)
		ctx := t.Context()
		client, other := fixture.NewCrewClient(c.Client()), fixture.NewCrewClient(c.Node("n1"))
		var wg sync.WaitGroup
		for range 2 { // one runs, one waits
			wg.Go(func() { _, _ = other.At(0).Work(ctx, 10*time.Second) })
		}
		c.Advance(100 * time.Millisecond)
		_, err := client.At(0).Work(ctx, 0)
		require.ErrorIs(t, err, shard.ErrOverloaded)
		for range 50 {
			i, err := client.Any().Work(ctx, 0)
			require.NoError(t, err)
			require.Equal(t, 1, i)
		}
		refused := uint64(0)
		for _, name := range c.Running() {
			refused += c.Node(name).Counters()["refused"]
		}
		require.LessOrEqual(t, refused, uint64(2), "it is not asked again at once")
		wg.Wait()
	}, hostCrew(s, shard.PoolSize(2, 2), shard.MaxMailboxCalls(1)), shardtest.Nodes(2))
}

// TestPoolShrinksUnderLoad: when an instance ends, calls that wait for it go to another instance.
func TestPoolShrinksUnderLoad(t *testing.T) {
	s := &fixture.Shift{}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ctx := t.Context()
		awaitCrew(c, s, 1)
		for round := range 10 {
			require.NoError(t, c.Node("n1").SizePool(ctx, "Crew", 4))
			awaitCrew(c, s, 4)
			var wg sync.WaitGroup
			for k := range 24 {
				caller := []shard.Caller{c.Client(), c.Node("n1"), c.Node("n2")}[k%3]
				wg.Go(func() {
					within, cancel := context.WithTimeout(ctx, 20*time.Second)
					defer cancel()
					time.Sleep(time.Duration(k*round) * time.Millisecond)
					_, err := fixture.NewCrewClient(caller).Any().Work(within, 300*time.Millisecond)
					require.NoError(t, err)
				})
			}
			require.NoError(t, c.Node("n1").SizePool(ctx, "Crew", 1))
			wg.Wait()
			awaitCrew(c, s, 1)
		}
		require.Empty(t, s.Faults)
	}, hostCrew(s, shard.PoolSize(1, 4), shard.PerNode(2)), shardtest.Nodes(2), shardtest.Latency(0, 50*time.Millisecond))
}

// TestPoolWithoutInstance: Each and calls wait for the first instance, but not for ever.
func TestPoolWithoutInstance(t *testing.T) {
	s := &fixture.Shift{}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		client := fixture.NewCrewClient(c.Client())
		began := time.Now()
		for range client.Each() {
			require.Fail(t, "there is none")
		}
		require.InDelta(t, 5, time.Since(began).Seconds(), 1)
		_, err := client.Any(shard.Timeout(time.Second)).Work(t.Context(), 0)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
	}, hostCrew(s, shard.PoolSize(1, 1), shard.MinHosts(2)), shardtest.Nodes(1))
}

// TestPoolRestartsInstance: an instance that its supervisor restarts is active again without a call, and
// its next task begins when the former one has ended.
func TestPoolRestartsInstance(t *testing.T) {
	s := &fixture.Shift{}
	restart := shard.Supervise(func(error) shard.SupervisorAction { return shard.ActionRestart })
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		awaitCrew(c, s, 1)
		for n := 2; n < 5; n++ {
			require.ErrorIs(t, fixture.NewCrewClient(c.Client()).At(0).Panic(t.Context()), shard.ErrPanic)
			c.Until("it has begun again", func() (again bool) {
				s.With(func(map[int]string) { again = s.Begun == n && s.Tasks[0] == 1 })
				return again
			})
		}
		require.Empty(t, s.Faults)
	}, hostCrew(s, shard.PoolSize(1, 1), restart), shardtest.Nodes(1))
}

// TestPoolCallsAreCounted: each call counts once, wherever its instance runs and however often it
// is sent.
func TestPoolCallsAreCounted(t *testing.T) {
	s := &fixture.Shift{}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		awaitCrew(c, s, 2)
		for _, caller := range []interface {
			shard.Caller
			Calls() measure.Calls
		}{c.Client(), c.Node("n1")} {
			client := fixture.NewCrewClient(caller)
			for range 10 {
				_, err := client.Any().Work(t.Context(), 0)
				require.NoError(t, err)
			}
			_, err := client.Any(shard.Timeout(-1)).Work(t.Context(), 0)
			require.Error(t, err)
			made := map[string]uint64{}
			for _, of := range caller.Calls().Made {
				if of.Kind == "Crew" {
					made[of.Method+of.Cause] += of.Count()
				}
			}
			require.Equal(t, map[string]uint64{"Work": 10, "Workdeadline": 1}, made)
		}
	}, hostCrew(s, shard.PoolSize(2, 2)), shardtest.Nodes(2))
}

// TestPoolIntercepted: calls of a pool with interceptors are encoded, and go to idle instances, too.
func TestPoolIntercepted(t *testing.T) {
	s := &fixture.Shift{}
	var mu sync.Mutex
	seen, made := 0, 0
	intercept := shard.Intercept(func(ctx context.Context, _ shard.Info, next func(context.Context) error) error {
		mu.Lock()
		seen++
		mu.Unlock()
		return next(ctx)
	})
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		at := awaitCrew(c, s, 2)
		for range 10 {
			i, err := fixture.NewCrewClient(c.Node("n2")).Any().Work(t.Context(), 0)
			require.NoError(t, err)
			require.Equal(t, "n2", at[i])
		}
		require.Equal(t, 10, seen)
		require.Equal(t, 10, made, "interceptors of the caller")
	}, hostCrew(s, shard.PoolSize(2, 2), intercept), shardtest.Nodes(2), shardtest.Config(func(c *shard.Config) {
		c.Interceptors = []shard.Interceptor{func(ctx context.Context, _ shard.Info, next func(context.Context) error) error {
			mu.Lock()
			made++
			mu.Unlock()
			return next(ctx)
		}}
	}))
}

func TestPoolIsRefused(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		crew := func(opts ...shard.HostOption) error {
			n := shard.New(shard.Config{Cluster: "c", Name: "n", Transport: c.Broker().Transport()})
			return fixture.HostCrew(n, func() *fixture.Crew { return &fixture.Crew{} }, opts...)
		}
		require.NoError(t, crew())
		require.NoError(t, crew(shard.PoolSize(1, 256), shard.PerNode(0), shard.IdleAfter(0)))
		for text, opts := range map[string][]shard.HostOption{
			"PoolSize(0, 1)":       {shard.PoolSize(0, 1)},
			"PoolSize(3, 2)":       {shard.PoolSize(3, 2)},
			"PoolSize(1, 257)":     {shard.PoolSize(1, 257)},
			"PerNode(-1)":          {shard.PerNode(-1)},
			"1 of 1 members":       {shard.Survive(func(n int) int { return n })},
			"Allocation":           {shard.Allocation(shard.LeastShards{})},
			"IdleAfter":            {shard.IdleAfter(time.Minute)},
			"MaxActive":            {shard.MaxActive(1)},
			"Remember":             {shard.Remember(shard.RememberOptions{})},
			"shard.Singleton: not": {shard.Singleton(singleton.Options{})},
		} {
			require.ErrorContains(t, crew(opts...), text)
		}
		n := shard.New(shard.Config{Cluster: "c", Name: "n", Transport: c.Broker().Transport()})
		err := fixture.HostCashier(n, func() *fixture.Cashier { return &fixture.Cashier{} }, shard.PoolSize(1, 2))
		require.ErrorContains(t, err, "are for types with //shard:pool")
	}, shardtest.Nodes(1))
}

// TestPoolFollowsLoad: a pool whose instances are busy has more of them within a minute, no call fails
// while it grows and shrinks, and it comes back to its minimum.
func TestPoolFollowsLoad(t *testing.T) {
	s := &fixture.Shift{}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		awaitCrew(c, s, 1)
		l := callCrew(t.Context(), 20*time.Millisecond, false, c.Client()) // 4 callers, each in a call for 2/3 of the time
		began := time.Now()
		awaitCrew(c, s, 4)
		require.LessOrEqual(t, time.Since(began), 80*time.Second, "it doubles after 30 s and after 60 s")
		wanted := 0
		for _, name := range c.Running() {
			for _, of := range c.Node(name).Load().Types {
				if of.Kind == "Crew" {
					require.Equal(t, 4, of.Instances)
					wanted += of.Wanted
				}
			}
		}
		require.Equal(t, 4, wanted, "the coordinator's node tells what is wanted")
		_, failed := l.end()
		require.Empty(t, failed)
		l = callCrew(t.Context(), 0, false, c.Client())
		for n := 3; n > 0; n-- { // one instance less every five minutes
			awaitCrew(c, s, n)
		}
		_, failed = l.end()
		require.Empty(t, failed)
		require.Empty(t, s.Faults)
	}, hostCrew(s, shard.PoolSize(1, 6), shard.PerNode(2)), shardtest.Nodes(2))
}

// TestSizePool: operators set a pool's size, which the next coordinator keeps.
func TestSizePool(t *testing.T) {
	s := &fixture.Shift{}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		awaitCrew(c, s, 1)
		ctx := t.Context()
		require.NoError(t, c.Node("n2").SizePool(ctx, "Crew", 3))
		awaitCrew(c, s, 3)
		c.Shutdown("n1")
		awaitCrew(c, s, 3)
		require.NoError(t, c.Node("n3").SizePool(ctx, "Crew", 0))
		awaitCrew(c, s, 2)
		awaitCrew(c, s, 1)
		require.Empty(t, c.Node("n2").Health().Reasons, "an instance that a pool no longer has misses no home")
		require.ErrorContains(t, c.Node("n2").SizePool(ctx, "Cashier", 3), "no member hosts Cashier")
		require.ErrorContains(t, c.Node("n2").SizePool(ctx, "Crew", -1), "-1 instances")
	}, hostCrew(s, shard.PoolSize(1, 4), shard.PerNode(2)), shardtest.Nodes(3))
}
