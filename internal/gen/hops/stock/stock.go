// Package stock is the last in the chain of calls.
package stock

import (
	"context"
	"errors"
	"fmt"
	"io"
)

//go:generate go tool shardgen

// ErrSoldOut is told by its identity.
//
//shard:error
var ErrSoldOut = errors.New("sold out")

//shard:error
var _ = io.EOF

// Short is told by its type.
//
//shard:error
type Short struct{ Missing int }

func (s *Short) Error() string { return fmt.Sprintf("%d short", s.Missing) }

// ErrSecret is not declared.
var ErrSecret = errors.New("secret")

// Stock is what is left of one article.
//
//shard:entity
type Stock struct{}

// Take fails in the way that what says.
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
