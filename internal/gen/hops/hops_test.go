package hops

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/gen/hops/cart"
	"github.com/shardgen/shardgen/internal/gen/hops/shop"
	"github.com/shardgen/shardgen/internal/gen/hops/stock"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport/memory"
)

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// shops returns clients of three shops: a plain struct, one in the caller's process, and one that
// is called from outside a cluster whose nodes each host one type.
func shops(t *testing.T) map[string]shop.ShopAPI {
	t.Helper()
	start := func(broker *memory.Broker, name string, host ...func(n *shard.Node) error) *shard.Node {
		n := shard.New(config(broker, name))
		for _, h := range host {
			if err := h(n); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.Start(within(t)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		return n
	}
	hostStock := func(n *shard.Node) error {
		return stock.HostStock(n, func() *stock.Stock { return &stock.Stock{} })
	}
	hostCart := func(n *shard.Node) error {
		return cart.HostCart(n, func() *cart.Cart { return &cart.Cart{Stock: stock.NewStockClient(n).API} })
	}
	hostShop := func(n *shard.Node) error {
		return shop.HostShop(n, func() *shop.Shop { return &shop.Shop{Cart: cart.NewCartClient(n).API} })
	}
	near := start(memory.NewBroker(memory.Options{}), "all", hostStock, hostCart, hostShop)
	far := memory.NewBroker(memory.Options{})
	start(far, "stock", hostStock)
	start(far, "cart", hostCart)
	start(far, "shop", hostShop)
	conn, err := shard.Dial(within(t), config(far, "outside"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	plain := &shop.Shop{Cart: func(string) cart.CartAPI {
		return &cart.Cart{Stock: func(string) stock.StockAPI { return &stock.Stock{} }}
	}}
	return map[string]shop.ShopAPI{
		"plain": plain, "near": shop.NewShopClient(near).API("x"), "far": shop.NewShopClient(conn).API("x"),
	}
}

func config(broker *memory.Broker, name string) shard.Config {
	return shard.Config{
		Cluster: "hops", Name: name, Transport: broker.Transport(),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// TestDeclaredErrorsCrossTwoHops checks that the shop's caller can distinguish errors that stock
// declares as if all three entities were plain structs.
func TestDeclaredErrorsCrossTwoHops(t *testing.T) {
	declared := []error{stock.ErrSoldOut, shop.ErrSoldOut, io.EOF}
	for name, api := range shops(t) {
		for what, want := range map[string]error{
			"sentinel": stock.ErrSoldOut, "own": shop.ErrSoldOut, "foreign": io.EOF, "type": nil, "secret": nil, "panic": nil,
		} {
			if what == "panic" && name == "plain" {
				continue
			}
			err := api.Sell(within(t), what)
			for _, e := range declared {
				if got := errors.Is(err, e); got != (e == want) {
					t.Errorf("%s, %s: errors.Is(%v, %v) is %t", name, what, err, e, got)
				}
			}
			var short *stock.Short
			if got := errors.As(err, &short); got != (what == "type") || got && short.Missing != 2 {
				t.Errorf("%s, %s: errors.As(%v) is %t, %+v", name, what, err, got, short)
			}
			if name == "plain" {
				continue
			}
			// The outcome and the entity are those of the caller's own call.
			if got := shard.OutcomeOf(err); got != shard.Executed {
				t.Errorf("%s, %s: outcome %v, want executed", name, what, got)
			}
			var entity *shard.EntityError
			if !errors.As(err, &entity) || entity.Kind != "Shop" {
				t.Errorf("%s, %s: got %v, want an error of the shop", name, what, err)
			}
			if errors.Is(err, stock.ErrSecret) || errors.Is(err, shard.ErrPanic) {
				t.Errorf("%s, %s: %v holds what was not declared", name, what, err)
			}
		}
	}
}
