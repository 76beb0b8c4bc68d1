// Package order has the entity Order. Callers import orderapi; only the process that hosts orders
// imports this package.
package order

import (
	"context"
	"fmt"

	"github.com/shardgen/shardgen/internal/gen/apart/billapi"
	"github.com/shardgen/shardgen/internal/gen/apart/orderapi"
)

//go:generate go tool shardgen

// Order is a list of goods for one customer.
//
//shard:entity client=github.com/shardgen/shardgen/internal/gen/apart/orderapi
type Order struct {
	ID    orderapi.ID     `shard:"id"`
	Lines []orderapi.Line `shard:"state"`
	Gift  bool            `shard:"state"`
	Bills *billapi.BillClient
}

// Place adds the message's lines to the order and charges the customer's bill.
func (o *Order) Place(ctx context.Context, m orderapi.PlaceOrder) (total int64, err error) {
	if len(m.Lines) == 0 {
		return 0, fmt.Errorf("place %s: %w", o.ID, orderapi.ErrEmpty)
	}
	o.Lines, o.Gift = append(o.Lines, m.Lines...), m.Gift
	for _, line := range m.Lines {
		if total, err = o.Bills.Ref("b").Charge(ctx, line.Price); err != nil {
			return 0, err
		}
	}
	return total, nil
}

// Show returns the lines.
func (o *Order) Show(context.Context) (lines []orderapi.Line, gift bool, err error) {
	return o.Lines, o.Gift, nil
}
