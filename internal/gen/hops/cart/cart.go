// Package cart is the second of three packages whose entities call each other; see package hops. It
// declares no error.
package cart

import (
	"context"
	"fmt"

	"github.com/shardgen/shardgen/internal/gen/hops/stock"
)

//go:generate go tool shardgen

// Cart takes goods from a stock.
//
//shard:entity
type Cart struct {
	Stock func(id string) stock.StockAPI
}

// Put calls a stock and returns the call's error.
func (c *Cart) Put(ctx context.Context, what string) error {
	if err := c.Stock("s").Take(ctx, what); err != nil {
		return fmt.Errorf("put: %w", err)
	}
	return nil
}
