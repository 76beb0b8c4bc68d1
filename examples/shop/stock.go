// Package shop is the example of the guide in docs/guide: the stock of articles,
// and orders that reserve it.
package shop

import (
	"context"
	"errors"

	shard "github.com/shardgen/shardgen/runtime"
)

//go:generate go tool shardgen

// ErrSoldOut is returned by Reserve when too few pieces are left.
//
//shard:error
var ErrSoldOut = errors.New("sold out")

// A SKU is the number of an article.
type SKU string

// A Warehouse knows how many pieces of an article there were at the last count.
type Warehouse interface {
	Count(ctx context.Context, sku SKU) (int64, error)
}

// Stock is the number of pieces that are left of one article.
//
//shard:entity
type Stock struct {
	SKU       SKU       `shard:"id"`
	Left      int64     `shard:"state"`
	Warehouse Warehouse `shard:"-"` // set by the factory
}

// OnActivate loads the count for a new entity. After passivation or a move the entity already has
// its state.
func (s *Stock) OnActivate(ctx context.Context, why shard.Activation) (err error) {
	if why == shard.Fresh && s.Warehouse != nil {
		s.Left, err = s.Warehouse.Count(ctx, s.SKU)
	}
	return err
}

// Restock adds n pieces.
func (s *Stock) Restock(_ context.Context, n int64) error {
	s.Left += n
	return nil
}

// Reserve takes n pieces.
func (s *Stock) Reserve(_ context.Context, n int64) (left int64, err error) {
	if n > s.Left {
		return 0, ErrSoldOut
	}
	s.Left -= n
	return s.Left, nil
}
