package shard_test

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/store"
	memorystore "github.com/shardgen/shardgen/store/memory"
)

// A lodgers is a cluster of nodes that host savers and wallets, over one store.
type lodgers struct {
	*wallets
	wakes atomic.Pointer[func(context.Context, *bank.Saver) error]
}

func newLodgers(t *testing.T) *lodgers {
	g := &lodgers{wallets: newWallets(t)}
	g.made = func(n *shard.Node) {
		client := bank.NewWalletClient(n)
		require.NoError(t, bank.HostSaver(n, func() *bank.Saver {
			return &bank.Saver{Others: client.API, Wakes: func(ctx context.Context, saver *bank.Saver) error {
				if wakes := g.wakes.Load(); wakes != nil {
					return (*wakes)(ctx, saver)
				}
				return nil
			}}
		}))
	}
	return g
}

// onActivate sets the function that OnActivate of every saver calls.
func (g *lodgers) onActivate(f func(context.Context, *bank.Saver) error) { g.wakes.Store(&f) }

func saverOf(n shard.Caller, id string, opts ...shard.CallOption) bank.SaverRef {
	return bank.NewSaverClient(n).Ref(id, opts...)
}

func (g *lodgers) counts(n shard.Caller, id string) [3]int64 {
	g.t.Helper()
	total, stays, rests, err := saverOf(n, id).Get(testContext(g.t))
	require.NoError(g.t, err)
	return [3]int64{total, stays, rests}
}

// isAppend reports whether an operation appends to a log.
func isAppend(op memorystore.Op) bool { return op.Name == "append" }

// TestPassivationIsStoredBeforeTheEnd: the last node of a cluster ends only when the store has the
// changes of OnPassivate, however slow the store is.
func TestPassivationIsStoredBeforeTheEnd(t *testing.T) {
	t.Parallel()
	g := newLodgers(t)
	a := g.start("a")
	for _, id := range []string{"x", "y"} {
		_, err := saverOf(a, id).Add(testContext(t), 1)
		require.NoError(t, err)
	}
	g.own["a"].Fault(func(op memorystore.Op) memorystore.Fault {
		if isAppend(op) {
			return memorystore.Fault{Delay: 500 * time.Millisecond}
		}
		return memorystore.Fault{}
	})
	require.NoError(t, a.Shutdown(testContext(t)))
	b := g.start("b")
	require.Equal(t, [3]int64{1, 2, 1}, g.counts(b, "x"))
	require.Equal(t, [3]int64{1, 2, 1}, g.counts(b, "y"))
}

// TestSecondShutdownWaitsForTheFirst: a second Shutdown does not end the node before the store has
// the changes of OnPassivate.
func TestSecondShutdownWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	g := newLodgers(t)
	a := g.start("a")
	_, err := saverOf(a, "x").Add(testContext(t), 1)
	require.NoError(t, err)
	g.own["a"].Fault(func(op memorystore.Op) memorystore.Fault {
		if isAppend(op) {
			return memorystore.Fault{Delay: 500 * time.Millisecond}
		}
		return memorystore.Fault{}
	})
	again := make(chan error, 1)
	go func() { again <- a.Shutdown(testContext(t)) }()
	require.NoError(t, a.Shutdown(testContext(t)))
	require.NoError(t, receive(t, again, "Shutdown returns"))
	require.Equal(t, [3]int64{1, 2, 1}, g.counts(g.start("b"), "x"))
}

// TestPassivationThatIsNotStoredIsLogged: if a node's time to end is over and the store lacks the
// changes of OnPassivate, this is logged with the entity.
func TestPassivationThatIsNotStoredIsLogged(t *testing.T) {
	book := newLogBook()
	g := newLodgers(t)
	g.tune = func(cfg *shard.Config) { cfg.Logger = slog.New(book) }
	a := g.start("a")
	_, err := saverOf(a, "x").Add(testContext(t), 1)
	require.NoError(t, err)
	at, err := a.Locate(testContext(t), "Saver", "x")
	require.NoError(t, err)
	log := store.Shard{Type: "Saver", Number: int(at.Shard)}.String()
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	g.own["a"].Fault(func(op memorystore.Op) memorystore.Fault {
		if isAppend(op) && op.Key == log { // the append of OnPassivate's changes; other shards may still claim
			cancel()
			return memorystore.Fault{Loss: memorystore.LoseConnection}
		}
		return memorystore.Fault{}
	})
	require.Error(t, a.Shutdown(ctx))
	<-a.Done()
	for _, l := range book.take() {
		if l.text == "passivation failed" {
			require.Contains(t, l.String(), "entity=x")
			require.Contains(t, l.String(), "not in the store")
			return
		}
	}
	t.Error("nothing is logged")
}

// TestChangesOfOnActivateAreCommitted: changes made by OnActivate are committed before a read shows
// them.
func TestChangesOfOnActivateAreCommitted(t *testing.T) {
	t.Parallel()
	g := newLodgers(t)
	a := g.start("a")
	require.Equal(t, [3]int64{0, 1, 0}, g.counts(a, "x"))
	require.Equal(t, [3]int64{0, 1, 0}, g.counts(a, "x"))
	g.kill("a")
	require.Equal(t, [3]int64{0, 2, 0}, g.counts(g.start("b"), "x"))
}

// TestCallsOfOnActivateAreNotTheCommands: a command runs again on an entity that another call has
// activated. The command's nested call is recognized, because calls made by OnActivate do not
// count.
func TestCallsOfOnActivateAreNotTheCommands(t *testing.T) {
	g := newLodgers(t)
	a := g.start("a")
	g.onActivate(func(ctx context.Context, saver *bank.Saver) error {
		_, err := saver.Others("v").Add(ctx, 1)
		return err
	})
	var breaks atomic.Bool
	breaks.Store(true)
	bank.Broken.Store(&breaks)
	defer bank.Broken.Store(nil)
	give := func() (int64, error) {
		return saverOf(a, "x", shard.CommandID("k")).Give(testContext(t), "v", 5)
	}
	_, err := give()
	require.ErrorContains(t, err, "broken")
	breaks.Store(false)
	_, err = saverOf(a, "x").Add(testContext(t), 1) // activates it
	require.NoError(t, err)
	_, err = give()
	require.NoError(t, err)
	total(t, a, "v", 5+2)
}

// TestOnActivateSeesWhatIsStored: an activation that follows a panic begins when the log has the
// commits before it, because OnActivate may tell other entities of them.
func TestOnActivateSeesWhatIsStored(t *testing.T) {
	t.Parallel()
	book := newLogBook()
	g := newLodgers(t)
	g.tune = func(cfg *shard.Config) { cfg.Logger = slog.New(book) }
	a := g.start("a")
	ctx := testContext(t)
	_, err := saverOf(a, "x").Add(ctx, 1)
	require.NoError(t, err)
	var held, early atomic.Bool
	var lost atomic.Int64
	g.onActivate(func(_ context.Context, saver *bank.Saver) error {
		if held.Load() && saver.Total > 1 {
			early.Store(true)
		}
		return nil
	})
	held.Store(true)
	g.own["a"].Fault(func(op memorystore.Op) memorystore.Fault {
		if isAppend(op) && held.Load() {
			lost.Add(1)
			return memorystore.Fault{Loss: memorystore.LoseConnection}
		}
		return memorystore.Fault{}
	})
	answers := make(chan error, 3)
	begin := func(call func() error) { go func() { answers <- call() }() }
	begin(func() error { _, err := saverOf(a, "x").Add(ctx, 1); return err })
	waitFor(t, func() bool { return lost.Load() > 0 })
	begin(func() error {
		if err := saverOf(a, "x").Break(ctx); err == nil {
			return context.Canceled
		}
		return nil
	})
	waitFor(t, func() bool {
		return slices.ContainsFunc(book.take(), func(l logLine) bool { return l.text == "panic in an entity's turn" })
	})
	begin(func() error { _, err := saverOf(a, "x").Add(ctx, 1); return err })
	many := lost.Load() + 6
	waitFor(t, func() bool { return lost.Load() >= many })
	held.Store(false)
	for range 3 {
		require.NoError(t, <-answers)
	}
	require.False(t, early.Load(), "OnActivate has seen a change that was not in the store")
}
