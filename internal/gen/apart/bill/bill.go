// Package bill has the entity Bill. Orders charge bills, and bills call orders, so their clients
// are in packages of their own.
package bill

import (
	"context"

	"github.com/shardgen/shardgen/internal/gen/apart/orderapi"
)

//go:generate go tool shardgen

// Bill is a debt of one customer.
//
//shard:entity client=github.com/shardgen/shardgen/internal/gen/apart/billapi
type Bill struct {
	Total  int64 `shard:"state"`
	Orders func(orderapi.ID) orderapi.OrderAPI
}

// Charge adds amount to the bill and returns the total.
func (b *Bill) Charge(_ context.Context, amount int64) (total int64, err error) {
	b.Total += amount
	return b.Total, nil
}

// Check asks an order for its lines, and returns the sum of their prices.
func (b *Bill) Check(ctx context.Context, id orderapi.ID) (owed int64, err error) {
	lines, _, err := b.Orders(id).Show(ctx)
	for _, line := range lines {
		owed += line.Price
	}
	return owed, err
}

// Repeat places an order by passing on its message.
func (b *Bill) Repeat(ctx context.Context, m orderapi.PlaceOrder) error {
	_, err := b.Orders(m.Order).Place(ctx, m)
	return err
}
