// Package stock is the last in the row of package hops.
package stock

import (
	"context"
	"errors"
	"fmt"
	"io"
)

//go:generate go tool shardgen

// ErrSoldOut is recognized by its identity.
//
//shard:error
var ErrSoldOut = errors.New("sold out")

//shard:error
var _ = io.EOF

// Short is recognized by its type.
//
//shard:error
type Short struct{ Missing int }

func (s *Short) Error() string { return fmt.Sprintf("%d short", s.Missing) }

// ErrSecret is not declared.
var ErrSecret = errors.New("secret")

// Stock is an entity that fails.
//
//shard:entity
type Stock struct{}

// Take fails in the way that its argument names.
func (s *Stock) Take(_ context.Context, what string) error {
	switch what {
	case "sentinel":
		return ErrSoldOut
	case "type":
		return fmt.Errorf("take: %w", &Short{Missing: 2})
	case "foreign":
		return io.EOF
	case "panic":
		panic("broken")
	}
	return ErrSecret
}
