// Package dataplane is the part of a process's data plane that handles answers, refusals,
// cancellations, the steps of a move, placements, sessions that are begun again, and processes
// that have departed. Calls that a shard takes do not pass through it. It decides which calls
// are sent again, to which route they go, which fail with an unknown outcome, and in which
// order calls and barriers learn that a process has departed.
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
