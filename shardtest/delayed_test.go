package shardtest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/shardtest"
)

type delayer struct{ n, acts int64 }

func delayerKind(name string) codegen.Kind {
	return codegen.Kind{
		Name: name, Package: "delayer", Shards: 4, HashName: "xxh64", Methods: []string{"Later", "Now", "Send"},
		Stateful: true, Durable: name != "Volatile", Contract: "390757a60e384754",
	}
}

func delayerHost(name string, dispatch map[string]codegen.Method) codegen.Host {
	return codegen.Host{
		Kind: delayerKind(name), New: func() any { return &delayer{} }, Dispatch: dispatch,
		AppendState: func(b []byte, e any) ([]byte, error) {
			b = codegen.AppendInt(b, 1, e.(*delayer).n)
			return codegen.AppendInt(b, 2, e.(*delayer).acts), nil
		},
		DecodeState: func(e any, b []byte) (bool, error) {
			r := e.(*delayer)
			d := codegen.NewDecoder(b)
			for d.Next() {
				switch d.Field() {
				case 1:
					codegen.ReadInt(&d, &r.n)
				case 2:
					codegen.ReadInt(&d, &r.acts)
				}
			}
			return d.Skipped(), d.Err("delayer")
		},
		StateFields: func(num int) (bool, codegen.Fields) { return num == 1 || num == 2, nil },
	}
}

func tellDelayer(ctx context.Context, c shard.Caller, kind, id, method string, opts ...shard.CallOption) error {
	r := codegen.NewRef(c.ShardInvoker(delayerKind(kind)), id, nil, opts...)
	return r.Invoker.Send(ctx, r, method, codegen.NewArgs())
}

func askDelayer(ctx context.Context, c shard.Caller, kind, id, method string, opts ...shard.CallOption) error {
	r := codegen.NewRef(c.ShardInvoker(delayerKind(kind)), id, nil, opts...)
	if err := r.Invoker.Check(ctx, r, method); err != nil {
		return err
	}
	_, err := r.Invoker.Do(ctx, r, method, codegen.NewArgs())
	return err
}

// TestDelayedTellToOldHost: in a rollout a turn tells an entity whose home does not know the method
// yet. A plain tell waits for the new program, and so does a delayed one.
func TestDelayedTellToOldHost(t *testing.T) {
	for _, target := range []string{"Target", "Volatile"} {
		t.Run(target, func(t *testing.T) { testDelayedTellToOldHost(t, target) })
	}
}

func testDelayedTellToOldHost(t *testing.T, to string) {
	var plain, delayed atomic.Int64
	var upgraded atomic.Bool
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ctx := t.Context()
		require.NoError(t, askDelayer(ctx, c.Client(), "Sender", "s", "Send"))
		c.Advance(5 * time.Second)
		upgraded.Store(true)
		c.Restart("n1")
		c.Advance(10 * time.Minute)
		require.Equal(t, int64(1), plain.Load(), "the plain tell ran after the rollout")
		require.Equal(t, int64(1), delayed.Load(), "the delayed tell ran after the rollout")
	}, shardtest.Nodes(1), shardtest.Host(func(n *shard.Node) error {
		n.ShardInvoker(delayerKind(to))
		later := func(_ context.Context, e any, _, out []byte) ([]byte, error) {
			e.(*delayer).n++
			delayed.Add(1)
			return out, nil
		}
		now := func(_ context.Context, e any, _, out []byte) ([]byte, error) {
			e.(*delayer).n++
			plain.Add(1)
			return out, nil
		}
		target := map[string]codegen.Method{"Send": now}
		if upgraded.Load() {
			target = map[string]codegen.Method{"Later": later, "Now": now}
		}
		if err := n.Host(delayerHost(to, target)); err != nil {
			return err
		}
		return n.Host(delayerHost("Sender", map[string]codegen.Method{"Send": func(ctx context.Context, e any, _, out []byte) ([]byte, error) {
			e.(*delayer).n++
			if err := tellDelayer(ctx, n, to, "u", "Now"); err != nil {
				return out, err
			}
			return out, tellDelayer(ctx, n, to, "t", "Later", shard.In(time.Minute))
		}}))
	}))
}

// TestForgottenWhileDue: an entity's reminder falls due while a turn runs that forgets the entity. The
// reminder does not begin a new entity.
func TestForgottenWhileDue(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ctx := t.Context()
		require.NoError(t, askDelayer(ctx, c.Client(), "Target", "t", "Set"))
		require.NoError(t, askDelayer(ctx, c.Client(), "Target", "t", "End"))
		c.Advance(time.Minute)
		l := c.Client().ShardInvoker(delayerKind("Target")).(codegen.Lister)
		for id, err := range l.List(ctx, codegen.Listing{}) {
			require.NoError(t, err)
			t.Errorf("entity %q was forgotten and not called since, but exists", id)
		}
	}, shardtest.Nodes(1), shardtest.Host(func(n *shard.Node) error {
		h := delayerHost("Target", map[string]codegen.Method{
			"Set": func(ctx context.Context, e any, _, out []byte) ([]byte, error) {
				e.(*delayer).n++
				return out, tellDelayer(ctx, n, "Target", "t", "Ring", shard.In(2*time.Second))
			},
			"End": func(ctx context.Context, e any, _, out []byte) ([]byte, error) {
				time.Sleep(4 * time.Second) // for example a call
				return out, shard.Forget(ctx)
			},
			"Ring": func(ctx context.Context, e any, _, out []byte) ([]byte, error) { return out, nil },
		})
		h.Activate = func(_ context.Context, e any, _ codegen.Activation) error {
			e.(*delayer).acts++
			return nil
		}
		return n.Host(h)
	}))
}
