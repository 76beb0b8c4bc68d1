// Package yesterday is the older version of package today, which still runs on some nodes during a
// rolling upgrade.
package yesterday

import (
	"context"
	"errors"
)

//go:generate go tool shardgen

// ErrSoldOut says that too few pieces are left.
//
//shard:error
var ErrSoldOut = errors.New("sold out")

// Line is a part of an order.
type Line struct {
	SKU   string
	Count int32
	Note  string
}

// Stock is the number of pieces left of one article.
//
//shard:entity name=stock
type Stock struct {
	ID    string `shard:"id"`
	Left  int32  `shard:"state"`
	Lines []Line `shard:"state"`
}

// Reserve takes pieces for an order.
func (s *Stock) Reserve(_ context.Context, order string, line Line) (left int32, err error) {
	if line.Count > s.Left {
		return 0, ErrSoldOut
	}
	s.Left -= line.Count
	s.Lines = append(s.Lines, line)
	return s.Left, nil
}

// Restock adds pieces.
func (s *Stock) Restock(_ context.Context, n int32) error {
	s.Left += n
	return nil
}

// Orders returns the lines.
func (s *Stock) Orders(context.Context) ([]Line, error) { return s.Lines, nil }

// Old is a method that package today does not have.
func (s *Stock) Old(context.Context) error { return nil }
