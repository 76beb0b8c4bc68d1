// Package stock is the last of three packages whose entities call each other; see package hops.
package stock

import (
	"context"
	"errors"
	"fmt"
	"io"
)

//go:generate go tool shardgen

// ErrSoldOut is a declared error that callers test by errors.Is.
//
//shard:error
var ErrSoldOut = errors.New("sold out")

//shard:error
var _ = io.EOF

// Short is a declared error that callers test by its type.
//
//shard:error
type Short struct{ Missing int }

func (s *Short) Error() string { return fmt.Sprintf("%d short", s.Missing) }

// ErrSecret is not a declared error: callers get only its text.
var ErrSecret = errors.New("secret")

// Stock is an entity whose calls fail.
//
//shard:entity
type Stock struct{}

// Take returns the error that its argument names.
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
