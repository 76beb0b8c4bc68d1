// Package calling has the decisions of the caller of an encoded call. When an attempt has
// ended, the call is sent again after a pause, or is withdrawn, or ends with an outcome: it
// ran, it did not, or it may have. It also decides how a caller goes on whose entity's shard
// is at its own process.
//
// It has no goroutine, clock, I/O or state. Package shard's invoker runs it, and so do the
// callers of the sharding simulation, whose oracle checks each outcome against the turns
// that ran.
package calling
