// Package hops holds three packages of entities that call each other in a row: an error
// that one declares crosses the others on its way to the caller.
package hops
