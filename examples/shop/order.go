package shop

import (
	"context"
	"fmt"

	shard "github.com/shardgen/shardgen/runtime"
)

// An OrderID is the number of an order.
type OrderID string

// An Order collects articles.
//
//shard:entity
type Order struct {
	ID    OrderID            `shard:"id"`
	Lines map[SKU]int64      `shard:"state"`
	Stock func(SKU) StockAPI // set by the factory
}

// Add reserves n pieces of an article for the order.
func (o *Order) Add(ctx context.Context, sku SKU, n int64) error {
	if _, err := o.Stock(sku).Reserve(ctx, n); err != nil {
		return fmt.Errorf("reserve %d of %s: %w", n, sku, err)
	}
	if o.Lines == nil {
		o.Lines = map[SKU]int64{}
	}
	o.Lines[sku] += n
	return nil
}

// Host makes a node host orders and stocks.
func Host(n *shard.Node) error {
	stock := NewStockClient(n).API
	if err := HostStock(n, func() *Stock { return &Stock{} }); err != nil {
		return err
	}
	return HostOrder(n, func() *Order { return &Order{Stock: stock} })
}
