package shard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/store"
	memorystore "github.com/shardgen/shardgen/store/memory"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// TestStateIsMigrated: a state of an earlier version is migrated to the program's version before
// any method sees it, at each read until it is changed. A program refuses a later version with an
// error that names the entity, both versions and the remedy. A state that MigrateState refuses is
// kept.
func TestStateIsMigrated(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		testMigration(t, memorystore.New().Client())
	})
	t.Run("JetStream", func(t *testing.T) {
		server := natsproc.Start(t, "-js", "-sd", t.TempDir())
		s, err := natsstore.Open(testContext(t), server.URL(), natsstore.Config{Name: "test"})
		require.NoError(t, err)
		t.Cleanup(s.Close)
		testMigration(t, s)
	})
}

func testMigration(t *testing.T, s store.Backend) {
	v := newWallets(t)
	begin := func(name string, version int) bank.TabClient {
		for other, n := range v.nodes {
			_ = n.Close()
			delete(v.nodes, other)
		}
		cfg := v.config(name)
		cfg.Store = s
		n := shard.New(cfg)
		require.NoError(t, bank.HostTab(n, func() *bank.Tab { return &bank.Tab{} }))
		n.WriteStates("Tab", version)
		require.NoError(t, n.Start(testContext(t)))
		v.nodes[name] = n
		return *bank.NewTabClient(n)
	}
	ctx := testContext(t)
	old := begin("old", 1)
	require.NoError(t, old.Ref("ann").PayDollars(ctx, 3))
	require.NoError(t, old.Ref("bob").PayDollars(ctx, -1))

	for _, name := range []string{"new", "again"} {
		tabs := begin(name, 2)
		sum, err := tabs.Ref("ann").Sum(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 300, sum)
		_, err = tabs.Ref("bob").Pay(ctx, 1)
		require.ErrorIs(t, err, shard.ErrActivation)
		require.ErrorContains(t, err, "migrate the state of Tab/bob from version 1 to 2: the tab is below zero")
		require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
	}
	tabs := begin("third", 2)
	for _, want := range []int64{305, 310} {
		sum, err := tabs.Ref("ann").Pay(ctx, 5)
		require.NoError(t, err)
		require.Equal(t, want, sum)
	}

	old = begin("back", 1)
	require.NoError(t, old.Ref("bob").PayDollars(ctx, 2), "its state is as it was")
	_, err := old.Ref("ann").Sum(ctx)
	require.ErrorIs(t, err, shard.ErrActivation)
	require.ErrorContains(t, err, "the state of Tab/ann has version 2 and this program knows versions up to 1: a newer program wrote it (run that program, or a later one, on this node too)")
	require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
	o, err := admin.Dial(ctx, admin.Options{Cluster: v.config("").Cluster, Transport: v.config("").Transport})
	require.NoError(t, err)
	defer func() { _ = o.Close() }()
	list, err := o.Unreadable(ctx, "Tab")
	require.NoError(t, err)
	require.Len(t, list, 1, "operators find such an entity")
	require.Equal(t, "ann", list[0].ID)
	require.Contains(t, list[0].Why, "a newer program wrote it")

	tabs = begin("forth", 2)
	sum, err := tabs.Ref("ann").Sum(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 310, sum)
	sum, err = tabs.Ref("bob").Pay(ctx, 1)
	require.NoError(t, err)
	require.EqualValues(t, 101, sum)
}
