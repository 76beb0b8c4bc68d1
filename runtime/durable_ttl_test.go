package shard_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/store"
	memorystore "github.com/shardgen/shardgen/store/memory"
)

// TestDurableEntityExpires: an entity without a change for the type's ttl is gone, active or
// passivated, for calls and reads, before and after a restart. Changes prolong its life, reads do
// not.
func TestDurableEntityExpires(t *testing.T) {
	t.Parallel()
	v := newWallets(t)
	const ttl = 2 * time.Second
	begin := func(name string, backend store.Backend) *shard.Node {
		cfg := v.config(name)
		cfg.Store = backend
		n := shard.New(cfg)
		require.NoError(t, bank.HostVisit(n, func() *bank.Visit { return &bank.Visit{} }))
		n.Expire("Visit", ttl)
		require.NoError(t, n.Start(testContext(t)))
		v.nodes[name] = n
		return n
	}
	server := memorystore.New()
	server.SetAhead(-time.Hour) // the store's clock counts, not that of the nodes
	a := begin("a", server.Client())
	ctx := testContext(t)
	enter := func(n shard.Caller, id string, want int64) time.Time {
		t.Helper()
		began := time.Now() // the answer may come long after the commit
		got, err := bank.NewVisitClient(n).Ref(id).Enter(ctx)
		require.NoError(t, err)
		require.Equal(t, want, got, id)
		return began
	}
	counts := func(n shard.Caller, id string) [2]int64 {
		t.Helper()
		read, err := bank.NewVisitClient(n).Ref(id).Get(ctx)
		require.NoError(t, err)
		looked, err := bank.NewVisitClient(n).Ref(id).Look(ctx)
		require.NoError(t, err)
		return [2]int64{read, looked}
	}
	gone := func(n shard.Caller, id string, since time.Time) {
		t.Helper()
		waitFor(t, func() bool { return counts(n, id) == [2]int64{} })
		require.GreaterOrEqual(t, time.Since(since), ttl-100*time.Millisecond, "it has gone too early")
	}
	enter(a, "active", 1)
	changed := enter(a, "active", 2)
	gone(a, "active", changed)
	enter(a, "active", 1)

	changed = enter(a, "moves", 1)
	v.kill("a")
	b := begin("b", server.Client())
	gone(b, "moves", changed)
	changed = enter(b, "moves", 1)
	require.NoError(t, b.Shutdown(ctx)) // its record is written
	c := begin("c", server.Client())
	gone(c, "moves", changed)
	enter(c, "moves", 1)
}
