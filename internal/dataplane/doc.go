// Package dataplane is the part of a process's data plane that handles everything but calls
// that reach their shard's home and are answered: refusals, cancellations, the steps of a
// move, placements, sessions that are begun again, and processes that have departed. It decides
// which calls are sent again, to which route they go, which fail with an unknown outcome, and
// in which order calls and barriers learn of a lost process.
//
// A Plane has no goroutine, no clock and no I/O, and no state of its own. Sessions, routes,
// hosted shards and pending calls belong to its Env, which is package shard in a real process
// and the sharding simulation in a test, so that both run the same code.
//
// # Locks
//
// A Plane holds no lock. It may be used by several goroutines at once. Its methods take the
// locks of routes, shards and sessions, so that none of these may be held by the caller.
package dataplane
