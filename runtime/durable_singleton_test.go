package shard_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/store"
	memorystore "github.com/shardgen/shardgen/store/memory"
)

// treasuries are a cluster whose nodes host a durable singleton, over one store.
type treasuries struct {
	*wallets
	watch *bank.TreasuryWatch
	opts  []shard.HostOption
}

func newTreasuries(t *testing.T, task func(context.Context, *bank.Treasury) error, names ...string) *treasuries {
	s := &treasuries{wallets: newWallets(t), watch: &bank.TreasuryWatch{Task: task}}
	s.made = func(n *shard.Node) {
		self := bank.NewTreasuryClient(n).API()
		require.NoError(t, bank.HostTreasury(n, func() *bank.Treasury {
			return &bank.Treasury{Node: n.Name(), Watch: s.watch, Self: self}
		}, s.opts...))
	}
	for _, name := range names {
		s.start(name)
	}
	return s
}

func (s *treasuries) ref(node string, opts ...shard.CallOption) bank.TreasuryRef {
	return bank.NewTreasuryClient(s.nodes[node]).Ref(opts...)
}

func (s *treasuries) add(node string, n, want int64, opts ...shard.CallOption) (at string) {
	s.t.Helper()
	total, at, err := s.ref(node, opts...).Add(testContext(s.t), n)
	require.NoError(s.t, err)
	require.Equal(s.t, want, total)
	return at
}

func (s *treasuries) leave(name string) {
	s.t.Helper()
	require.NoError(s.t, s.nodes[name].Shutdown(testContext(s.t)))
	delete(s.nodes, name)
}

// TestDurableSingletonSurvives: the singleton's node ends, and later all nodes do, in order or by a
// crash. Each new instance has all acknowledged state, is activated as recovered, and has a higher
// epoch than all earlier instances.
func TestDurableSingletonSurvives(t *testing.T) {
	t.Parallel()
	s := newTreasuries(t, nil, "a", "b")
	ctx := testContext(t)
	var last uint64
	higher := func(node string) {
		t.Helper()
		epoch, err := s.ref(node).Epoch(ctx)
		require.NoError(t, err)
		require.Greater(t, epoch, last)
		last = epoch
	}
	why, err := s.ref("b").Activated(ctx)
	require.NoError(t, err)
	require.Equal(t, "fresh", why)
	require.Equal(t, "a", s.add("b", 5, 5, shard.CommandID("a request")))
	higher("b")
	s.kill("a")
	require.Equal(t, "b", s.add("b", 2, 7))
	require.Equal(t, "a", s.add("b", 5, 5, shard.CommandID("a request")), "the first answer")
	higher("b")
	why, err = s.ref("b").Activated(ctx)
	require.NoError(t, err)
	require.Equal(t, "recovered", why)

	s.kill("b") // the last one
	s.start("c")
	s.add("c", 1, 8)
	higher("c")
	s.leave("c") // the last one, in order
	s.start("d")
	total, lives, err := s.ref("d").Get(ctx)
	require.NoError(t, err)
	require.Equal(t, []int64{8, 4}, []int64{total, lives}, "the changes of OnActivate stand too")
	rests, err := s.ref("d").Rested(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, rests, "and those of OnPassivate")
	s.kill("d") // at d, only OnActivate has changed the state
	s.start("e")
	_, lives, err = s.ref("e").Get(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 5, lives, "the changes of OnActivate do not wait for a call that changes something")
	higher("e")
}

// TestDurableSingletonIsHandedOver: the oldest node leaves while all nodes call. No call fails, and
// each is applied once.
func TestDurableSingletonIsHandedOver(t *testing.T) {
	s := newTreasuries(t, nil, "a", "b", "c")
	sum, stop := s.calls("b", "c")
	s.waitCalls(sum, 50)
	s.leave("a")
	s.waitCalls(sum, 50)
	want := stop()
	total, _, err := s.ref("b").Get(testContext(t))
	require.NoError(t, err)
	require.Equal(t, want, total)
	require.Equal(t, "b", s.add("c", 1, want+1))
	rests, err := s.ref("c").Rested(testContext(t))
	require.NoError(t, err)
	require.EqualValues(t, 1, rests, "the change of OnPassivate stands")
}

// TestDurableSingletonLosesNothing: the singleton's node dies again and again during calls, and no
// call is lost.
func TestDurableSingletonLosesNothing(t *testing.T) {
	t.Parallel()
	s := newTreasuries(t, func(ctx context.Context, _ *bank.Treasury) error { <-ctx.Done(); return ctx.Err() }, "a", "b", "c", "client")
	sum, stop := s.calls("client")
	for _, name := range []string{"a", "b", "c"} {
		s.waitCalls(sum, 50)
		s.kill(name)
	}
	s.waitCalls(sum, 50)
	want := stop()
	total, lives, err := s.ref("client").Get(testContext(t))
	require.NoError(t, err)
	require.Equal(t, want, total)
	require.EqualValues(t, 4, lives)
	require.Equal(t, 1, s.watch.Most())
}

// calls makes the nodes call the singleton until stop, which returns how much was added. No call
// may fail.
func (s *treasuries) calls(nodes ...string) (sum *atomic.Int64, stop func() int64) {
	sum = new(atomic.Int64)
	ctx, end := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, node := range nodes {
		treasury := s.ref(node)
		for range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					if _, _, err := treasury.Add(context.Background(), 1); err != nil {
						s.t.Error(err)
						return
					}
					sum.Add(1)
				}
			})
		}
	}
	return sum, func() int64 {
		end()
		wg.Wait()
		return sum.Load()
	}
}

// waitCalls waits until n more calls were answered.
func (s *treasuries) waitCalls(sum *atomic.Int64, n int64) {
	s.t.Helper()
	from := sum.Load()
	waitFor(s.t, func() bool { return sum.Load() >= from+n })
}

// TestDurableSingletonUndoes: the changes of a turn are undone if it panics or the store refuses
// them. The instance and its tasks end, and the next instance begins with the committed state.
func TestDurableSingletonUndoes(t *testing.T) {
	t.Parallel()
	s := newTreasuries(t, func(ctx context.Context, _ *bank.Treasury) error { <-ctx.Done(); return ctx.Err() }, "a")
	ctx := testContext(t)
	s.add("a", 5, 5)
	broken := (*shard.EntityError)(nil)
	require.ErrorAs(t, s.ref("a").Break(ctx, 100), &broken)
	require.True(t, broken.Panic)
	s.add("a", 1, 6)
	require.ErrorIs(t, s.ref("a").Fill(ctx, 2<<20), shard.ErrTooLarge)
	s.add("a", 1, 7)
	_, lives, err := s.ref("a").Get(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 3, lives)
	require.Equal(t, 1, s.watch.Most())
}

// TestDurableSingletonsTaskBeginsWithTheCommit: a task may tell others about changes of the turn
// that started it, so it begins only when these changes are in the store.
func TestDurableSingletonsTaskBeginsWithTheCommit(t *testing.T) {
	s := newTreasuries(t, nil, "a")
	ctx := testContext(t)
	s.add("a", 1, 1)
	held := make(chan struct{})
	var appends atomic.Int64
	s.own["a"].Fault(func(op memorystore.Op) memorystore.Fault {
		if op.Name == "append" {
			appends.Add(1)
			<-held
		}
		return memorystore.Fault{}
	})
	answered := make(chan error, 1)
	go func() { answered <- s.ref("a").Begin(ctx, 1) }()
	waitFor(t, func() bool { return appends.Load() > 0 })
	select {
	case err := <-answered:
		t.Errorf("answered with %v before the append", err)
	case <-time.After(20 * time.Millisecond): // too short a wait may only miss a fault
	}
	require.Zero(t, s.watch.Running(), "the task runs before the append")
	close(held)
	require.NoError(t, <-answered)
	waitFor(t, func() bool { return s.watch.Running() == 1 })
}

// TestStuckSingletonIsInTheHealth: a singleton whose shard cannot be claimed has a home, so no
// other check finds a fault. The node's health names the shard, its epoch and the remedy.
func TestStuckSingletonIsInTheHealth(t *testing.T) {
	t.Parallel()
	s := newTreasuries(t, nil, "a")
	s.add("a", 1, 1)
	s.kill("a")
	held := make(chan struct{})
	var heads atomic.Int64
	s.tune = func(*shard.Config) {
		s.own["b"].Fault(func(op memorystore.Op) memorystore.Fault {
			if op.Name == "head" {
				heads.Add(1)
				<-held
			}
			return memorystore.Fault{}
		})
	}
	s.start("b")
	waitFor(t, func() bool { return heads.Load() > 0 })
	reasons := func() string {
		return strings.Join(s.nodes["b"].HealthAt(time.Now().Add(10*time.Second)).Reasons, "\n")
	}
	require.Regexp(t, `durable shard Treasury/1 has not opened for 1\d.*s: its claim under epoch 0\.0\.1 is not confirmed.*shardctl doctor`, reasons())
	close(held)
	s.add("b", 2, 3)
	require.NotContains(t, reasons(), "has not opened")
}

// TestDurableSingletonsTaskChangesByCalls: if a task changes the state itself, the change is undone
// and the instance ends. Changes that a task makes by calls are committed.
func TestDurableSingletonsTaskChangesByCalls(t *testing.T) {
	t.Parallel()
	var strayed atomic.Bool
	changed := make(chan struct{}, 1)
	s := newTreasuries(t, func(ctx context.Context, self *bank.Treasury) error {
		if strayed.CompareAndSwap(false, true) {
			self.Total += 100
			changed <- struct{}{}
		} else if _, _, err := self.Self.Add(ctx, 10); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}, "a")
	<-changed
	ctx := testContext(t)
	waitFor(t, func() bool {
		total, lives, err := s.ref("a").Get(ctx)
		require.NoError(t, err)
		return total == 10 && lives == 2
	})
	s.kill("a")
	s.start("b")
	waitFor(t, func() bool {
		total, _, err := s.ref("b").Get(ctx)
		require.NoError(t, err)
		return total == 20
	})
}

// TestDurableSingletonLeavesWithoutStrayChanges: state changed by a task itself is not committed
// either when the instance is handed over.
func TestDurableSingletonLeavesWithoutStrayChanges(t *testing.T) {
	t.Parallel()
	changed := make(chan struct{}, 2)
	s := newTreasuries(t, func(ctx context.Context, self *bank.Treasury) error {
		self.Total += 100
		changed <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}, "a")
	<-changed
	s.leave("a")
	s.watch.Task = nil
	s.start("b")
	total, _, err := s.ref("b").Get(testContext(t))
	require.NoError(t, err)
	require.Zero(t, total)
}

// TestDurableSingletonWaitsForItsStore: while the store does not answer, calls fail with its error.
// They succeed when it answers again.
func TestDurableSingletonWaitsForItsStore(t *testing.T) {
	t.Parallel()
	s := newTreasuries(t, nil, "a")
	client := s.own["a"]
	s.add("a", 1, 1)
	client.Cut(true)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, _, err := s.ref("a").Add(ctx, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, shard.Unknown, shard.OutcomeOf(err))
	client.Cut(false)
	total, _, err := s.ref("a").Add(testContext(t), 1)
	require.NoError(t, err)
	require.Contains(t, []int64{2, 3}, total)
}

// TestDurableSingletonWhoseShardIsTaken: another process claims its shard in the store, as the other half
// of a split cluster may. The instance and its task end before this process claims the shard again,
// and a call that was under way is applied once.
func TestDurableSingletonWhoseShardIsTaken(t *testing.T) {
	t.Parallel()
	s := newTreasuries(t, func(ctx context.Context, _ *bank.Treasury) error { <-ctx.Done(); return ctx.Err() }, "a")
	ctx := testContext(t)
	s.add("a", 1, 1)
	waitFor(t, func() bool { return s.watch.Running() == 1 })
	place, client := store.Shard{Type: "Treasury", Number: 1}, s.store.Client()
	var wg sync.WaitGroup
	defer wg.Wait()
	other := durablehost.New(durablehost.Config{
		Shard: place, Store: client.Shards(), Node: "other", Incarnation: 77,
		Host: &durablehost.Process{Ctx: ctx, Spawn: wg.Go, Log: logger("other")},
	})
	other.Open(1 << 40)
	_, err := other.Tenure(ctx)
	require.NoError(t, err)
	taken, err := client.Shards().Head(ctx, place)
	require.NoError(t, err)
	other.Close()

	answered := make(chan error, 1)
	go func() {
		_, _, err := s.ref("a", shard.Timeout(testPatience)).Add(context.Background(), 1)
		answered <- err
	}()
	waitFor(t, func() bool { return s.watch.Running() == 0 })
	head, err := client.Shards().Head(ctx, place)
	require.NoError(t, err)
	require.Equal(t, taken.Revision, head.Revision, "it was claimed again while the task ran")
	require.NoError(t, <-answered)
	total, lives, err := s.ref("a").Get(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2, total)
	require.GreaterOrEqual(t, lives, int64(2))
	require.Equal(t, 1, s.watch.Most())
}

// TestDurableSingletonNeedsAStore: a node without a store cannot host a durable singleton.
func TestDurableSingletonNeedsAStore(t *testing.T) {
	err := bank.HostTreasury(shard.New(emptyCluster(t).config("a")), func() *bank.Treasury { return &bank.Treasury{} })
	require.EqualError(t, err, "host Treasury: the type is durable, but Config.Store is nil (set it to the result of natsstore.Open)")
}
