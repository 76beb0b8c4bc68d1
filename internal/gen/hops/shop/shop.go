// Package shop is the first in the row of package hops. It does not import the last.
package shop

import (
	"context"
	"errors"

	"github.com/shardgen/shardgen/internal/gen/hops/cart"
)

//go:generate go tool shardgen

// ErrSoldOut has the name of another package's.
//
//shard:error
var ErrSoldOut = errors.New("the shop is sold out")

// Shop puts things into a cart.
//
//shard:entity
type Shop struct {
	Cart func(id string) cart.CartAPI
}

// Sell returns the error of its call, or one of its own.
func (s *Shop) Sell(ctx context.Context, what string) error {
	if what == "own" {
		return ErrSoldOut
	}
	return s.Cart("c").Put(ctx, what)
}
