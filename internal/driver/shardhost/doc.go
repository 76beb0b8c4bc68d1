// Package shardhost drives shards: it turns events into calls of a region.Shard, the state machine
// of one shard, and its effects into turns, envelopes, answers and timers. These effects include
// moves, forwarded calls, and barriers, which keep each sender's calls in order.
//
// A Shard has a lock, but no goroutine, clock or I/O. These belong to the Host: package shard in a
// real process, or the sharding simulation in a test. Both therefore run the same code.
//
// # Locks
//
// Mu guards Core. Methods of Shard take it, except those named …Locked. Methods of Host that are
// called with Mu held say so; they must not call the shard. Effects that may take a route's lock,
// or call the shard back, are carried out without Mu, in their order.
package shardhost
