package shop_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/shardgen/shardgen/examples/shop"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport/memory"
)

// reserve shows how a caller distinguishes the ways in which a call fails.
func reserve(ctx context.Context, stock shop.StockAPI) string {
	_, err := stock.Reserve(ctx, 3)
	switch {
	case err == nil:
		return "reserved"
	case errors.Is(err, shop.ErrSoldOut):
		return "the method ran and returned ErrSoldOut"
	case shard.OutcomeOf(err) == shard.NotExecuted:
		return "not reserved: the call can be made again"
	default:
		return "it may have been reserved: ask the entity before trying again"
	}
}

func Example() {
	ctx := context.Background()
	node := shard.New(shard.Config{
		Cluster:   "example",
		Transport: memory.NewBroker(memory.Options{}).Transport(),
		Logger:    slog.New(slog.DiscardHandler),
	})
	if err := shop.Host(node); err != nil {
		log.Fatal(err)
	}
	if err := node.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	stock := shop.NewStockClient(node)
	if err := stock.Ref("tea").Restock(ctx, 4); err != nil {
		log.Fatal(err)
	}
	fmt.Println(reserve(ctx, stock.Ref("tea")))
	fmt.Println(reserve(ctx, stock.Ref("tea")))

	// A one-way call returns when it is taken to be sent.
	if err := stock.Tell("tea").Restock(ctx, 5); err != nil {
		log.Fatal(err)
	}
	fmt.Println(reserve(ctx, stock.Ref("tea"))) // calls of one process run in its order
	// Output:
	// reserved
	// the method ran and returned ErrSoldOut
	// reserved
}
