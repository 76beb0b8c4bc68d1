// Package today is the newer version of package yesterday, which a cluster is upgraded to. It was
// made from yesterday's files with shardgen contract.
package today

import (
	"context"
	"errors"
)

//go:generate go tool shardgen

// ErrEmpty is called ErrSoldOut in package yesterday.
//
//shard:error
var ErrEmpty = errors.New("sold out")

// Line is a part of an order. Compared with package yesterday it has a new first field, a renamed
// one, and one fewer.
type Line struct {
	Gift    bool
	Article string
	Count   int64
}

// Stock is the number of pieces left of one article.
//
//shard:entity name=stock
type Stock struct {
	ID    string   `shard:"id"`
	Names []string `shard:"state"` // new
	Lines []Line   `shard:"state"`
	Rest  int64    `shard:"state"` // was Left
}

// Take is called Reserve in package yesterday. It has a new first argument and a new first result.
func (s *Stock) Take(_ context.Context, by, order string, line Line) (by2 string, left int64, err error) {
	if line.Count > s.Rest {
		return "", 0, ErrEmpty
	}
	s.Rest -= line.Count
	s.Names = append(s.Names, by)
	s.Lines = append(s.Lines, line)
	return by, s.Rest, nil
}

// Restock adds pieces.
func (s *Stock) Restock(_ context.Context, n *int64) error {
	if n != nil {
		s.Rest += *n
	}
	return nil
}

// Orders returns the lines.
func (s *Stock) Orders(context.Context) ([]Line, error) { return s.Lines, nil }

// New is a method that package yesterday does not have.
func (s *Stock) New(context.Context) error { return nil }
