// Package shardhost drives shards: it turns events into calls of a region.Shard, and that
// machine's effects into turns, envelopes, answers and timers. The steps of a move, the
// forwarding of calls behind it, and the barriers that keep each sender's order are all
// interpreted here.
//
// A Shard has a lock and nothing else of the outside world: no goroutine, no clock and no I/O.
// Those belong to the Host: package shard in a real process, and the sharding simulation in a test.
// So both run the same code.
//
// # Locks
//
// Mu guards Core. Methods of Shard take it, except those named …Locked. Methods of Host that are
// called with Mu held say so; they must not call the shard. Everything that may take a route's
// lock, or call the shard back, is done without Mu, in the order of the effects.
package shardhost
