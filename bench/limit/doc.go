// Package limit is NATS with batches written by hand, which a remote call cannot beat.
// Benchmarks compare with it.
package limit
