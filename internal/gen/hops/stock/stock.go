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

// Stock is the number of pieces left of one article.
//
//shard:entity
type Stock struct{}

// Take fails with the kind of error that its argument names.
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
