package shard_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/singleton"
	memorystore "github.com/shardgen/shardgen/store/memory"
)

// A built is a type with its options, as in one build of a program.
type built struct {
	kind codegen.Kind
	opts []shard.HostOption
}

func (b built) host(t *testing.T, n *shard.Node) {
	t.Helper()
	run := func(_ context.Context, _ any, _, out []byte) ([]byte, error) { return out, nil }
	require.NoError(t, n.Host(codegen.Host{
		Kind: b.kind, New: func() any { return new(int) }, Dispatch: map[string]codegen.Method{"Run": run},
		SetID: func(any, string) error { return nil },
	}, b.opts...))
}

// TestTypesMatchWhoeverAdmits: a node that differs from any member in a setting of a type that must
// be equal is refused with both names and values. The admitting member may not know the type, or
// know it only by Proxy.
func TestTypesMatchWhoeverAdmits(t *testing.T) {
	plain := codegen.Kind{Name: "Boss", Package: "p", Shards: 8, HashName: "xxh64", Methods: []string{"Run"}}
	single := plain
	single.Singleton, single.Shards = true, 1
	with := func(k codegen.Kind, change func(*codegen.Kind)) built {
		change(&k)
		return built{kind: k}
	}
	for setting, tt := range map[string]struct {
		old, next built
		proxy     bool // a proxy knows the setting
	}{
		"shards":                  {built{kind: plain}, with(plain, func(k *codegen.Kind) { k.Shards = 16 }), true},
		"hash":                    {built{kind: plain}, with(plain, func(k *codegen.Kind) { k.HashName = "p.Own" }), true},
		"package":                 {built{kind: plain}, with(plain, func(k *codegen.Kind) { k.Package = "q" }), true},
		"singleton":               {with(plain, func(k *codegen.Kind) { k.Shards = 1 }), built{kind: single}, true},
		"HostRole":                {built{kind: single}, built{single, []shard.HostOption{shard.HostRole("r")}}, false},
		"Handoff":                 {built{kind: plain}, built{plain, []shard.HostOption{shard.Handoff(shard.HandoffDropState)}}, false},
		"Remember":                {built{kind: plain}, built{plain, []shard.HostOption{shard.Remember(shard.RememberOptions{})}}, false},
		"singleton.Options.Lease": {built{kind: single}, built{single, []shard.HostOption{shard.Singleton(singleton.Options{Lease: true})}}, false},
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			for _, proxy := range []bool{false, true} {
				c := emptyCluster(t)
				c.storeAt(memorystore.New().Client())
				begin := func(name, seed string, types ...built) error {
					cfg := c.config(name)
					cfg.Seeds, cfg.Roles = []string{seed}, []string{"r"}
					n := shard.New(cfg)
					t.Cleanup(func() { _ = n.Close() })
					for _, b := range types {
						b.host(t, n)
					}
					return n.Start(testContext(t))
				}
				if proxy {
					tt.old.opts = append(tt.old.opts, shard.Proxy())
				}
				require.NoError(t, begin("plain", "plain"))
				require.NoError(t, begin("old", "plain", tt.old))
				for _, seed := range []string{"plain", "old"} {
					err := begin("next", seed, tt.next)
					if proxy && !tt.proxy {
						require.NoError(t, err)
						break
					}
					for _, want := range []string{"type Boss: " + setting + " is ", " at next and ", " at old ", "refused by " + seed} {
						require.ErrorContains(t, err, want)
					}
				}
			}
		})
	}
}

// TestDurableTypeTurnsVolatile: if the store has state of a type, no node can host the type as
// volatile, even after all members have stopped, because the entities would lose their state. A
// cluster of another name can.
func TestDurableTypeTurnsVolatile(t *testing.T) {
	t.Parallel()
	durable := codegen.Kind{Name: "Boss", Package: "p", Shards: 8, HashName: "xxh64", Methods: []string{"Run"}, Durable: true}
	volatile := durable
	volatile.Durable = false
	single := volatile
	single.Singleton, single.Shards = true, 1
	c := emptyCluster(t)
	server := memorystore.New()
	c.storeAt(server.Client())
	begin := func(cluster string, k codegen.Kind) error {
		cfg := c.config("n")
		cfg.Cluster = cluster
		n := shard.New(cfg)
		built{kind: k}.host(t, n)
		defer n.Close()
		return n.Start(testContext(t))
	}
	require.NoError(t, begin("test", durable))
	for _, k := range []codegen.Kind{volatile, single} {
		err := begin("test", k)
		require.ErrorContains(t, err, "type Boss: the store has the type in another form: it is durable there but volatile in this program")
		require.ErrorContains(t, err, "write durable in its directive")
		require.NoError(t, begin("other", k))
	}
	record, err := server.Client().Get(testContext(t), "types/Boss")
	require.NoError(t, err)
	require.NoError(t, server.Client().Delete(testContext(t), "types/Boss", record.Revision)) // as shardctl store delete does
	require.NoError(t, begin("test", volatile))
}
