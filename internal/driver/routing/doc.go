// Package routing drives the routes of a process that sends calls: where the calls for each shard
// go, how they wait, and the messages to the former and the new home when the home changes. Package
// stream decides these; a Route carries them out, on sessions with the homes and on shards of this
// process.
//
// A Route has locks, but no goroutine, clock or I/O. Those belong to its Env: package shard in a
// real process, the sharding simulation in a test. So both run the same code.
//
// # Locks
//
// A Route's Mu comes first, then the lock of a local shard, then that of a session. Exported
// methods of a Route may take Mu, except those named …Locked.
package routing
