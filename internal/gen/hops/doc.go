// Package hops tests three entities in a row: a shop calls a cart, which calls a stock. An error
// that package stock declares must reach the shop's caller through both.
package hops
