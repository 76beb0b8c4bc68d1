// Package orderapi is the part of orders that other packages import: their client, and
// the types that it is called with.
package orderapi

import "errors"

// ID names an order.
type ID string

// Line is a part of an order.
type Line struct {
	SKU   string
	Price int64
}

// PlaceOrder is a message by itself: it says which order it is for.
type PlaceOrder struct {
	Order ID `shard:"id"`
	Lines []Line
	Gift  bool
}

// ErrEmpty says that an order has no line.
//
//shard:error
var ErrEmpty = errors.New("an order of nothing")
