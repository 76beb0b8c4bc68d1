package shard_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/singleton"
)

// chiefs is a cluster whose nodes host a singleton, and accounts beside it.
type chiefs struct {
	*cluster
	watch *fixture.Watch
	opts  []shard.HostOption
}

func newChiefs(t *testing.T, names ...string) *chiefs {
	c := &chiefs{cluster: emptyCluster(t), watch: fixture.NewWatch()}
	for _, name := range names {
		c.start(name)
	}
	return c
}

func (c *chiefs) start(name string) *shard.Node {
	c.t.Helper()
	n := c.cluster.add(name)
	self := fixture.NewChiefClient(n).API()
	require.NoError(c.t, fixture.HostChief(n, func() *fixture.Chief {
		return &fixture.Chief{Node: name, Watch: c.watch, Self: self}
	}, c.opts...))
	require.NoError(c.t, n.Start(testContext(c.t)))
	return n
}

func (c *chiefs) chief(caller string) fixture.ChiefRef {
	return fixture.NewChiefClient(c.nodes[caller]).Ref()
}

// next calls the singleton, and returns the number of its calls and its node.
func (c *chiefs) next(caller fixture.ChiefRef) (int64, string) {
	c.t.Helper()
	n, node, err := caller.Next(testContext(c.t))
	require.NoError(c.t, err)
	return n, node
}

func (c *chiefs) leave(name string) {
	c.t.Helper()
	require.NoError(c.t, c.nodes[name].Shutdown(testContext(c.t)))
	delete(c.nodes, name)
}

func TestSingletonLivesOnTheOldest(t *testing.T) {
	c := newChiefs(t, "a", "b", "c")
	saver := c.cluster.start("saver") // does not host the singleton
	conn := c.dial("client")
	for i, caller := range []shard.Caller{c.nodes["a"], c.nodes["b"], c.nodes["c"], saver, conn} {
		n, node := c.next(fixture.NewChiefClient(caller).Ref())
		require.Equal(t, "a", node)
		require.EqualValues(t, i+1, n)
	}
	require.Equal(t, []string{"a"}, c.watch.Started())
	require.Equal(t, 1, c.watch.Most())
}

// TestSingletonIsHandedOver: the oldest node leaves while all nodes call. No call fails or runs
// twice, and the state moves with the instance.
func TestSingletonIsHandedOver(t *testing.T) {
	t.Parallel()
	c := newChiefs(t, "a", "b", "c")
	conn := c.dial("client")
	ctx, stop := context.WithCancel(context.Background())
	type tally struct {
		calls int64
		err   error
	}
	results := make(chan tally)
	callers := []shard.Caller{c.nodes["b"], c.nodes["c"], conn}
	for _, caller := range callers {
		go func() {
			var r tally
			for ctx.Err() == nil && r.err == nil {
				if _, _, r.err = fixture.NewChiefClient(caller).Ref().Next(context.Background()); r.err == nil {
					r.calls++
				}
			}
			results <- r
		}()
	}
	chief := c.chief("c")
	waitFor(t, func() bool { n, _ := c.next(chief); return n > 200 })
	c.leave("a")
	waitFor(t, func() bool { _, node := c.next(chief); return node == "b" })
	time.AfterFunc(100*time.Millisecond, stop)
	var total int64
	for range callers {
		r := <-results
		require.NoError(t, r.err)
		total += r.calls
	}
	n, node := c.next(chief)
	require.Equal(t, "b", node)
	require.Greater(t, n, total, "the state did not go along")
	require.Equal(t, 1, c.watch.Most(), "instances at once")
	c.leave("b")
	again, node := c.next(chief)
	require.Equal(t, "c", node)
	require.Equal(t, n+1, again)
	require.Equal(t, []string{"a", "b", "c"}, c.watch.Started())
}

func TestSingletonAfterACrash(t *testing.T) {
	t.Parallel()
	c := newChiefs(t, "a", "b", "c")
	conn := c.dial("client")
	outside := fixture.NewChiefClient(conn).Ref()
	_, node := c.next(outside)
	require.Equal(t, "a", node)
	require.NoError(t, c.nodes["a"].Close())
	delete(c.nodes, "a")
	begin := time.Now()
	for _, ref := range []fixture.ChiefRef{c.chief("c"), c.chief("b"), outside} {
		waitFor(t, func() bool {
			_, node, err := ref.Next(testContext(t))
			return err == nil && node == "b"
		})
	}
	t.Logf("answered again after %v", time.Since(begin))
	require.Equal(t, 1, c.watch.Most())
}

// TestSingletonDies: whatever ends an instance, a new instance starts on the same node. Other
// entities are not affected.
func TestSingletonDies(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(*chiefs, context.Context) error{
		"panic":      func(c *chiefs, ctx context.Context) error { return c.chief("b").Panic(ctx, "ouch") },
		"panic near": func(c *chiefs, ctx context.Context) error { return c.chief("a").Panic(ctx, "ouch") },
		"goexit":     func(c *chiefs, ctx context.Context) error { return c.chief("b").Exit(ctx) },
		"goexit near": func(c *chiefs, ctx context.Context) error {
			return c.chief("a").Exit(ctx)
		},
		"task fails": func(c *chiefs, _ context.Context) error {
			c.watch.Break(func() error { return errors.New("broken") })
			return shard.ErrPanic
		},
		"task panics": func(c *chiefs, _ context.Context) error {
			c.watch.Break(func() error { panic("ouch") })
			return shard.ErrPanic
		},
		"task exits": func(c *chiefs, _ context.Context) error {
			c.watch.Break(func() error { runtime.Goexit(); return nil })
			return shard.ErrPanic
		},
		"refuses to start again": func(c *chiefs, ctx context.Context) error {
			c.watch.Refuse(2)
			return c.chief("b").Panic(ctx, "ouch")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChiefs(t, "a", "b")
			_, node := c.next(c.chief("b"))
			require.Equal(t, "a", node)
			neighbour := fixture.NewAccountClient(c.nodes["b"])
			for _, id := range []string{"x", "y", "z"} {
				_, err := neighbour.Ref(id).Add(testContext(t), 1)
				require.NoError(t, err)
			}
			require.ErrorIs(t, kill(c, testContext(t)), shard.ErrPanic)
			waitFor(t, func() bool { return len(c.watch.Started()) == 2 })
			n, node := c.next(c.chief("b"))
			require.Equal(t, "a", node)
			require.EqualValues(t, 1, n, "a new instance begins anew")
			for _, id := range []string{"x", "y", "z"} {
				balance, err := neighbour.Ref(id).Get(testContext(t))
				require.NoError(t, err)
				require.EqualValues(t, 1, balance)
			}
			require.Equal(t, 1, c.watch.Most())
			require.Equal(t, []string{"a", "a"}, c.watch.Started())
		})
	}
}

// TestSingletonStays: a method cannot passivate or forget the instance, because its task would run
// beside that of the next instance.
func TestSingletonStays(t *testing.T) {
	c := newChiefs(t, "a", "b")
	for name, end := range map[string]func(context.Context) error{"passivate": shard.Passivate, "forget": shard.Forget} {
		c.watch.OnNote(end)
		err := c.chief("b").Note(testContext(t))
		require.ErrorContains(t, err, name+" Chief: a singleton lives as long as")
	}
	n, node := c.next(c.chief("b"))
	require.Equal(t, "a", node)
	require.EqualValues(t, 3, n, "its state is there")
	require.Equal(t, []string{"a"}, c.watch.Started())
	waitFor(t, func() bool { return c.watch.Most() == 1 }) // the task begins concurrently with the calls
}

func TestSingletonCallsItself(t *testing.T) {
	c := newChiefs(t, "a", "b")
	err := c.chief("b").Circle(testContext(t))
	require.ErrorContains(t, err, "circular call: Chief/singleton → Chief/singleton")
	require.Equal(t, shard.Executed, shard.OutcomeOf(err))
}

func TestSingletonBuffer(t *testing.T) {
	c := &chiefs{cluster: emptyCluster(t), watch: fixture.NewWatch()}
	c.tune = func(cfg *shard.Config) { cfg.Limits.SingletonBuffer = new(2) }
	saver := c.cluster.start("saver") // no node hosts the singleton yet
	chief := fixture.NewChiefClient(saver).Ref()
	type answer struct {
		i   int
		err error
	}
	answers := make(chan answer, 4)
	for i := range 4 {
		go func() {
			_, _, err := chief.Next(testContext(t))
			answers <- answer{i, err}
		}()
		waitFor(t, func() bool { return saver.Counters()["buffered"] == uint64(i+1) })
	}
	for i := range 2 { // the oldest calls are dropped, in order
		a := <-answers
		require.Equal(t, i, a.i)
		require.ErrorIs(t, a.err, shard.ErrBufferFull)
		require.Equal(t, shard.NotExecuted, shard.OutcomeOf(a.err))
	}
	require.EqualValues(t, 2, saver.Counters()["shed"])
	c.start("a")
	for range 2 {
		require.NoError(t, (<-answers).err)
	}
}

func TestSingletonWithoutABuffer(t *testing.T) {
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.Limits.SingletonBuffer = new(0) }
	saver := c.start("saver")
	_, _, err := fixture.NewChiefClient(saver).Ref().Next(testContext(t))
	require.ErrorIs(t, err, shard.ErrBufferFull)
	require.ErrorIs(t, fixture.NewChiefClient(saver).Tell().Note(testContext(t)), shard.ErrBufferFull)
}

func TestSingletonNobodyHosts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "saver")
	for _, caller := range []shard.Caller{c.nodes["saver"], c.dial("client")} {
		_, _, err := fixture.NewChiefClient(caller).Ref(shard.Timeout(300 * time.Millisecond)).Next(context.Background())
		require.ErrorContains(t, err, "Host")
		require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
	}
}

func TestSingletonRole(t *testing.T) {
	c := &chiefs{cluster: emptyCluster(t), watch: fixture.NewWatch(), opts: []shard.HostOption{shard.HostRole("chief")}}
	c.start("a") // lacks the role
	c.tune = func(cfg *shard.Config) { cfg.Roles = []string{"chief"} }
	c.start("b")
	_, node := c.next(c.chief("a"))
	require.Equal(t, "b", node)
}

func TestSingletonIsRefused(t *testing.T) {
	factory := func() *fixture.Chief { return &fixture.Chief{} }
	for name, test := range map[string]struct {
		opt  shard.HostOption
		want string
	}{
		"allocation": {shard.Allocation(shard.LeastShards{}), "oldest member"},
		"idle":       {shard.IdleAfter(time.Minute), "never idle"},
		"moves":      {shard.MaxMoves(3), "not for a singleton"},
		"lease":      {shard.Singleton(singleton.Options{LeaseRetry: 1}), "at least 10ms"},
		"retry":      {shard.Singleton(singleton.Options{HandoffRetry: 1}), "at least 10ms"},
		"retries":    {shard.Singleton(singleton.Options{MaxHandoffRetries: -1}), "singleton.Options.MaxHandoffRetries is -1"},
		"margin":     {shard.Singleton(singleton.Options{RemovalMargin: -1}), "singleton.Options.RemovalMargin is -1ns"},
		"back-off":   {shard.Singleton(singleton.Options{RestartBackoff: 2, MaxRestartBackoff: 1}), "want at least 2ns"},
		"handoff":    {shard.Handoff(shard.HandoffDropState), "always handed off in order"},
		"count":      {shard.MaxActive(1), "never passivated"},
		"inline":     {shard.Inline(true), "callers' goroutines"},
		"supervisor": {shard.Supervise(func(error) shard.SupervisorAction { return shard.ActionRestart }), "Singleton"},
		"restarts":   {shard.RestartBackoff(time.Second, time.Minute), "singleton.Options.RestartBackoff"},
	} {
		t.Run(name, func(t *testing.T) {
			n := shard.New(emptyCluster(t).config("a"))
			require.ErrorContains(t, fixture.HostChief(n, factory, test.opt), test.want)
		})
	}
	n := shard.New(emptyCluster(t).config("a"))
	require.ErrorIs(t, fixture.HostAccount(n, func() *fixture.Account { return nil }, shard.Singleton(singleton.Options{})), shard.ErrNotSingleton)
	n = shard.New(emptyCluster(t).config("b"))
	require.NoError(t, fixture.HostChief(n, factory))
	require.ErrorContains(t, fixture.HostChief(n, factory), "hosted already")
	c := newChiefs(t, "a")
	require.ErrorIs(t, fixture.HostChief(c.nodes["a"], factory), shard.ErrStarted)
	require.ErrorIs(t, shard.Go(t.Context(), nil), shard.ErrNotSingleton)
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(testPatience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("what the test waits for does not hold after %v", testPatience)
		}
		<-time.After(testTick)
	}
}

// TestSingletonThatDoesNotStop: a turn outlasts the node's patience, and its method ignores its
// context. The node leaves without waiting for it, and nothing else of the instance runs from then
// on.
func TestSingletonThatDoesNotStop(t *testing.T) {
	t.Parallel()
	c := &chiefs{cluster: emptyCluster(t), watch: fixture.NewWatch()}
	c.tune = func(cfg *shard.Config) { cfg.Membership.LeaveTimeout = time.Second }
	c.start("a")
	c.start("b")
	chief := c.chief("b")
	c.next(chief)
	held, holding := make(chan error, 1), make(chan bool)
	c.watch.OnNote(func(context.Context) error {
		close(holding)
		<-c.watch.Release
		return nil
	})
	go func() { held <- chief.Note(context.Background()) }()
	<-holding
	left := make(chan error, 1)
	go func() { left <- c.nodes["a"].Shutdown(testContext(t)) }()
	waitFor(t, func() bool { return c.watch.Tasks() == 0 })
	var n int64
	waitFor(t, func() (ok bool) { // calls that wait behind the turn are lost with the node
		var node string
		var err error
		n, node, err = chief.Next(testContext(t))
		return err == nil && node == "b"
	})
	require.EqualValues(t, 1, n, "nothing was handed off")
	close(c.watch.Release)
	require.NoError(t, receive(t, left, "a has left"))
	receive(t, held, "the call has ended")
	require.Equal(t, 1, c.watch.Most())
}
