// Package orderapi is what other packages import of orders: their client, and the types of its
// arguments, results and errors.
package orderapi

import "errors"

// ID names an order.
type ID string

// Line is a part of an order.
type Line struct {
	SKU   string
	Price int64
}

// PlaceOrder is a message struct: its field tagged id names the order that the call is for.
type PlaceOrder struct {
	Order ID `shard:"id"`
	Lines []Line
	Gift  bool
}

// ErrEmpty says that an order has no line.
//
//shard:error
var ErrEmpty = errors.New("the order has no lines")
