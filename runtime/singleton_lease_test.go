package shard_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/store"
	storememory "github.com/shardgen/shardgen/store/memory"
)

// leasedChiefs is a cluster whose singleton has a lease.
type leasedChiefs struct {
	*chiefs
	server  *storememory.Server
	clients map[string]*storememory.Client
}

const testTTL = 600 * time.Millisecond

func newLeased(t *testing.T, names ...string) *leasedChiefs {
	l := &leasedChiefs{
		chiefs: newChiefs(t), server: storememory.New(), clients: map[string]*storememory.Client{},
	}
	l.tune = func(cfg *shard.Config) {
		l.clients[cfg.Name] = l.server.Client()
		cfg.Store = l.clients[cfg.Name]
	}
	for _, name := range names {
		l.start(name)
	}
	return l
}

func (l *leasedChiefs) start(name string) *shard.Node {
	l.opts = []shard.HostOption{shard.Singleton(singleton.Options{
		Lease: true, LeaseTTL: testTTL, LeaseRetry: 20 * time.Millisecond,
	})}
	return l.chiefs.start(name)
}

// claim returns another process's claim to the singleton's lease.
func (l *leasedChiefs) claim() (store.Lease, store.Claim) {
	return l.server.Client(), store.Claim{Name: "singleton/test/Chief", Holder: "somebody", TTL: testTTL}
}

func TestSingletonLeaseIsHandedOver(t *testing.T) {
	t.Parallel()
	l := newLeased(t, "a", "b")
	n, node := l.next(l.chief("b"))
	require.Equal(t, "a", node)
	other, claim := l.claim()
	_, err := other.Acquire(testContext(t), claim)
	require.ErrorIs(t, err, store.ErrHeld)
	begin := time.Now()
	l.leave("a")
	again, node := l.next(l.chief("b"))
	require.Equal(t, "b", node)
	require.Equal(t, n+1, again)
	require.Less(t, time.Since(begin), testTTL, "it was not given back")
	require.Equal(t, 1, l.watch.Most())
	l.leave("b")
	_, err = other.Acquire(testContext(t), claim)
	require.NoError(t, err, "who leaves last gives it back, too")
}

// TestSingletonLeaseNeedsAStore: a singleton with a lease is refused at a node without a store.
func TestSingletonLeaseNeedsAStore(t *testing.T) {
	n := shard.New(emptyCluster(t).config("a"))
	err := fixture.HostChief(n, func() *fixture.Chief { return nil }, shard.Singleton(singleton.Options{Lease: true}))
	require.EqualError(t, err, "host Chief: singleton.Options.Lease is set, and Config.Store is nil (set what natsstore.Open returns)")
}

// TestSingletonWaitsForItsLease: the singleton does not start while another process has its lease
// or the store does not answer. The callers' errors say why.
func TestSingletonWaitsForItsLease(t *testing.T) {
	t.Parallel()
	l := newLeased(t)
	other, claim := l.claim()
	claim.TTL = time.Minute
	held, err := other.Acquire(testContext(t), claim)
	require.NoError(t, err)
	l.start("a")
	saver := l.cluster.start("saver")
	for _, caller := range []shard.Caller{saver, l.dial("client")} {
		_, _, err = fixture.NewChiefClient(caller).Ref(shard.Timeout(400 * time.Millisecond)).Next(context.Background())
		require.ErrorIs(t, err, shard.ErrNoInstance)
		require.ErrorContains(t, err, "somebody")
		require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
	}
	l.clients["a"].Cut(true)
	require.NoError(t, other.Release(testContext(t), held))
	waitFor(t, func() bool {
		_, _, err = fixture.NewChiefClient(saver).Ref(shard.Timeout(100 * time.Millisecond)).Next(context.Background())
		require.ErrorIs(t, err, shard.ErrNoInstance)
		return shard.OutcomeOf(err) == shard.NotExecuted && strings.Contains(err.Error(), "store unavailable")
	})
	l.clients["a"].Cut(false)
	_, node := l.next(l.chief("a"))
	require.Equal(t, "a", node)
}

// TestSingletonLosesItsLease: the store cannot be reached for longer than the lease lasts. The
// instance stops before the lease ends, and the next instance starts only with the lease.
func TestSingletonLosesItsLease(t *testing.T) {
	t.Parallel()
	l := newLeased(t, "a", "b")
	_, node := l.next(l.chief("b"))
	require.Equal(t, "a", node)
	l.clients["a"].Cut(true)
	waitFor(t, func() bool { return l.watch.Tasks() == 0 })
	other, claim := l.claim()
	held, err := other.Acquire(testContext(t), claim)
	for ; err != nil; held, err = other.Acquire(testContext(t), claim) {
		require.ErrorIs(t, err, store.ErrHeld)
		<-time.After(testTick)
	}
	require.Zero(t, l.watch.Tasks())
	_, _, err = l.chief("b").Next(timeout(t, 100*time.Millisecond))
	require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
	require.NoError(t, other.Release(testContext(t), held))
	l.clients["a"].Cut(false)
	n, node := l.next(l.chief("b"))
	require.Equal(t, "a", node)
	require.EqualValues(t, 1, n, "it is a new instance")
	require.Equal(t, []string{"a", "a"}, l.watch.Started())
}

// TestSingletonAfterACrashWithLease: after a crash, the next instance waits until the lease of the
// dead node ends.
func TestSingletonAfterACrashWithLease(t *testing.T) {
	t.Parallel()
	l := newLeased(t, "a", "b")
	l.next(l.chief("b"))
	require.NoError(t, l.nodes["a"].Close())
	delete(l.nodes, "a")
	waitFor(t, func() bool {
		_, node, err := l.chief("b").Next(testContext(t))
		return err == nil && node == "b"
	})
	require.Equal(t, 1, l.watch.Most())
}

func timeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
