package shard_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
	storememory "github.com/shardgen/shardgen/store/memory"
)

// alive counts the entities of a type that are active, by id.
type alive struct {
	mu  sync.Mutex
	ids map[string]int
}

type counted struct{ id string }

func (a *alive) add(id string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids[id] += n
}

// count returns the number of ids that are active, and of those that are active more than once.
func (a *alive) count() (live, twice int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.ids {
		if n > 0 {
			live++
		}
		if n > 1 {
			twice++
		}
	}
	return live, twice
}

// host makes a node host the kind.
func (a *alive) host(t *testing.T, n *shard.Node, k codegen.Kind) {
	t.Helper()
	require.NoError(t, n.Host(codegen.Host{
		Kind:  k,
		New:   func() any { return new(counted) },
		SetID: func(e any, id string) error { e.(*counted).id = id; return nil },
		Dispatch: map[string]codegen.Method{"Run": func(_ context.Context, _ any, _, out []byte) ([]byte, error) {
			return out, nil
		}},
		Activate: func(_ context.Context, e any, _ codegen.Activation) error {
			a.add(e.(*counted).id, 1)
			return nil
		},
		Passivate: func(_ context.Context, e any, _ codegen.Passivation) error {
			a.add(e.(*counted).id, -1)
			return nil
		},
	}, shard.Remember(shard.RememberOptions{})))
}

// TestRememberedAfterAnotherLayout: all members stop, and start with another number of shards or
// another shard function: the remembered entities are active again, each once, also after calls. If
// only the function's results have changed, but not its name, no entity is active twice.
func TestRememberedAfterAnotherLayout(t *testing.T) {
	const ids = 300
	plain := codegen.Kind{Name: "Vol", Package: "p", Shards: 256, HashName: "xxh64", Methods: []string{"Run"}}
	fewer, more, own, changed := plain, plain, plain, plain
	fewer.Shards, more.Shards = 16, 1024
	own.HashName, own.Hash = "p.Own", func(id string) (uint64, error) { return xxhash.Sum64String("own" + id), nil }
	changed.Hash = func(id string) (uint64, error) { return xxhash.Sum64String("changed" + id), nil }
	for name, tt := range map[string]struct {
		next     codegen.Kind
		uncalled bool // they are active without a call
	}{
		"fewer shards": {fewer, true}, "more shards": {more, true}, "another function": {own, true}, "a changed function": {changed, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := storememory.New()
			start := func(k codegen.Kind) (*cluster, *alive) {
				c, a := emptyCluster(t), &alive{ids: map[string]int{}}
				c.storeAt(server.Client())
				for _, name := range []string{"a", "b", "c"} {
					n := shard.New(c.config(name))
					a.host(t, n, k)
					require.NoError(t, n.Start(testContext(t)))
					c.nodes[name] = n
				}
				return c, a
			}
			call := func(c *cluster, k codegen.Kind) {
				caller := c.nodes["a"].ShardInvoker(k)
				for i := range ids {
					_, err := caller.Do(testContext(t), codegen.NewRef(caller, fmt.Sprint(i), nil), "Run", codegen.NewArgs())
					require.NoError(t, err)
				}
			}
			c, a := start(plain)
			call(c, plain)
			all := func() bool { // shards may be moving
				live, _ := a.count()
				return live == ids
			}
			require.Eventually(t, all, testPatience, testTick)
			for _, n := range c.nodes {
				require.NoError(t, n.Close())
			}
			for range 2 { // and once more, from the new layout
				c, a = start(tt.next)
				if tt.uncalled {
					require.Eventually(t, all, testPatience, testTick)
				}
				call(c, tt.next)
				require.Eventually(t, all, testPatience, testTick)
				_, twice := a.count()
				require.Zero(t, twice, "ids live twice")
				for _, n := range c.nodes {
					require.NoError(t, n.Close())
				}
			}
		})
	}
}
