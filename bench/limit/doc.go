// Package limit is NATS with batching by hand: what a remote call cannot be
// faster than. Benchmarks compare with it.
package limit
