// Package calling decides what the caller of an encoded call does when an attempt has ended:
// whether the call is sent again and after which pause, whether it must be withdrawn, and
// what the caller is told of it, that it ran, that it did not, or that it may have.
//
// It has no goroutine, clock, I/O or state. Package shard's invoker runs it, and so do the
// callers of the sharding simulation, whose oracle checks each outcome against the turns
// that ran.
package calling
