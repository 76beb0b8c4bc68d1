// Package shop is the first of three packages whose entities call each other; see package hops. It
// does not import the last, package stock.
package shop

import (
	"context"
	"errors"

	"github.com/shardgen/shardgen/internal/gen/hops/cart"
)

//go:generate go tool shardgen

// ErrSoldOut has the same name as an error of package stock.
//
//shard:error
var ErrSoldOut = errors.New("the shop is sold out")

// Shop puts goods into a cart.
//
//shard:entity
type Shop struct {
	Cart func(id string) cart.CartAPI
}

// Sell returns the error of its call to a cart, or its own ErrSoldOut.
func (s *Shop) Sell(ctx context.Context, what string) error {
	if what == "own" {
		return ErrSoldOut
	}
	return s.Cart("c").Put(ctx, what)
}
