// Package routing drives a sender's routes: the way of the calls for each shard, their waiting, and
// the messages to the old and the new home on a change. Package stream decides that; a Route does
// it, on the sessions with the homes and at shards of this process.
//
// A Route has locks and nothing else of the outside world: no goroutine, no clock and no I/O. Those
// belong to its Env: package shard in a real process, and the sharding simulation in a test. So
// both run the same code.
//
// # Locks
//
// A Route's Mu comes first, then the lock of a local shard, then that of a session. All of
// a Route's methods take Mu, except those named …Locked.
package routing
