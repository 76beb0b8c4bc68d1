package codegen

import (
	"context"
	"iter"
)

// A Listing says which ids of a type to list.
type Listing struct {
	Prefix string // what the ids begin with, as on the wire
	After  string // only ids above this one; "" means all
	Active bool   // only entities that are active
}

// A Lister is an Invoker that can list the entities of its kind.
type Lister interface {
	// List yields the ids, in the order of their bytes. It ends after the first error.
	List(ctx context.Context, l Listing) iter.Seq2[string, error]
}

// ParseStringID returns s as an id of a string type.
func ParseStringID[T ~string](s string) (T, error) { return T(s), nil }
