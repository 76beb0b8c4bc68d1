package shop_test

import (
	"errors"
	"testing"

	"github.com/shardgen/shardgen/examples/shop"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport/memory"
)

// TestOrderMoves runs two nodes and an in-memory broker in the test process. When the first node
// leaves, the second one must have the order's state.
func TestOrderMoves(t *testing.T) {
	broker := memory.NewBroker(memory.Options{})
	start := func(name string) *shard.Node {
		node := shard.New(shard.Config{Cluster: "test", Name: name, Transport: broker.Transport()})
		if err := shop.Host(node); err != nil {
			t.Fatal(err)
		}
		if err := node.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = node.Close() })
		return node
	}
	first, second := start("first"), start("second")

	if err := shop.NewStockClient(first).Ref("tea").Restock(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := first.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	order := shop.NewOrderClient(second).Ref("o1")
	if err := order.Add(t.Context(), "tea", 1); err != nil {
		t.Fatal(err)
	}
	if err := order.Add(t.Context(), "tea", 1); !errors.Is(err, shop.ErrSoldOut) {
		t.Errorf("got %v, want ErrSoldOut", err)
	}
}
