// Package region is one shard at one node, without I/O: who may run a turn, who
// waits, and what happens to both while the shard moves.
//
// A [Shard] holds its entities. A call that finds its entity idle and the shard
// open begins a turn at once; otherwise it waits, in the entity's mailbox while
// the shard is open, in the shard's own queue while it is not. At most one turn
// an entity runs at a time.
//
// # A move, from the old home N1 to the new home N2
//
//	N1: Open --BeginMove--> Draining --Drained--> Sent --Ready--> Forwarding
//	N2: Closed --Prepare--> Preparing --(last part)--> Prepared --OpenAt--> Open
//
// The steps follow the graceful handoff of the Akka Cluster specification with
// its options 2b (N1 runs no more turns), 3b (N2 holds each sender's calls until
// that sender's Flush came by way of N1) and 4a (N1 forwards): the shard's state
// travels, and the order per (sender, entity) holds.
//
// The driver in package shard owns a lock per Shard, runs turns and hooks
// outside of it, and sends what an [Effects] says. internal/sim is another driver.
package region
