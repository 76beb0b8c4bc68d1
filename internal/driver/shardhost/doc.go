// Package shardhost drives shards: it turns events into calls of a region.Shard, and that machine's
// effects into turns, envelopes, answers and timers. That includes moving shards, forwarding calls
// after a move, and the barriers that keep each sender's calls in order.
//
// A Shard has a lock, but no goroutine, clock or I/O. Those belong to the Host: package shard in a
// real process, the sharding simulation in a test. So both run the same code.
//
// # Locks
//
// Mu guards Core. Methods of Shard take it, except those named …Locked. Methods of Host that are
// called with Mu held say so; they must not call the shard. Effects that may take a route's lock,
// or call the shard back, are carried out without Mu, in their order.
package shardhost
