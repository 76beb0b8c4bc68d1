// Package shop has two types of entities that call each other: orders reserve pieces of stocks, and
// stocks call orders back.
package shop

import (
	"context"
	"errors"
	"fmt"
	"slices"

	shard "github.com/shardgen/shardgen/runtime"
)

//go:generate go tool shardgen

// The ids of the entities.
type (
	SKU     string
	OrderID string
)

// ErrSoldOut: no piece is left.
var ErrSoldOut = errors.New("sold out")

// Stock is the number of pieces left of one article.
//
//shard:entity
type Stock struct {
	ID       SKU                    `shard:"id"`
	Left     int64                  `shard:"state"`
	Reserved []OrderID              `shard:"state"`
	Orders   func(OrderID) OrderAPI // cannot cross the wire, so needs no tag
}

// Restock adds pieces.
func (s *Stock) Restock(_ context.Context, pieces int64) error {
	s.Left += pieces
	return nil
}

// Reserve takes one piece for order.
func (s *Stock) Reserve(_ context.Context, order OrderID) (left int64, err error) {
	if s.Left == 0 {
		return 0, fmt.Errorf("reserve %s for %s: %w", s.ID, order, ErrSoldOut)
	}
	s.Left--
	s.Reserved = append(s.Reserved, order)
	return s.Left, nil
}

// Release gives the piece of an order back.
func (s *Stock) Release(_ context.Context, order OrderID) (left int64, err error) {
	if i := slices.Index(s.Reserved, order); i >= 0 {
		s.Reserved = slices.Delete(s.Reserved, i, i+1)
		s.Left++
	}
	return s.Left, nil
}

// Recall takes the article off every order that has it.
func (s *Stock) Recall(ctx context.Context) (recalled []OrderID, err error) {
	for _, order := range s.Reserved {
		if err := s.Orders(order).Drop(ctx, s.ID); err != nil {
			return recalled, fmt.Errorf("recall %s: %w", s.ID, err)
		}
		recalled = append(recalled, order)
	}
	s.Reserved = nil
	return recalled, nil
}

// Order is one customer's purchase.
//
//shard:entity
type Order struct {
	ID     OrderID            `shard:"id"`
	Lines  map[SKU]int64      `shard:"state"` // how many of each article
	Stocks func(SKU) StockAPI // cannot cross the wire, so needs no tag
}

// Buy reserves one piece of each article.
func (o *Order) Buy(ctx context.Context, articles ...SKU) (left map[SKU]int64, err error) {
	left = make(map[SKU]int64)
	for _, sku := range articles {
		if left[sku], err = o.Stocks(sku).Reserve(ctx, o.ID); err != nil {
			return nil, err
		}
		if o.Lines == nil {
			o.Lines = make(map[SKU]int64)
		}
		o.Lines[sku]++
	}
	return left, nil
}

// Drop takes an article off the order.
func (o *Order) Drop(_ context.Context, sku SKU) error {
	delete(o.Lines, sku)
	return nil
}

// Show returns the order's lines.
func (o *Order) Show(context.Context) (lines map[SKU]int64, err error) { return o.Lines, nil }

// Undo recalls an article of this order from all orders, this one included: the
// call comes back to an order that waits for it.
func (o *Order) Undo(ctx context.Context, sku SKU) error {
	_, err := o.Stocks(sku).Recall(ctx)
	return err
}

// Host makes n host both entities.
func Host(n *shard.Node) error {
	stocks, orders := NewStockClient(n), NewOrderClient(n)
	return errors.Join(
		HostStock(n, func() *Stock { return &Stock{Orders: orders.API} }),
		HostOrder(n, func() *Order { return &Order{Stocks: stocks.API} }),
	)
}
