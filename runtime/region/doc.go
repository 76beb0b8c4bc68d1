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
// # The way of a message
//
// Senders learn of moves late, and a shard may move on, or come back, before its
// senders' calls have followed it. So a node remembers its departures: where it
// gave the shard, and under which epoch. A call that comes under an epoch from
// before a departure takes that way, behind its sender's older calls; it arrives
// where no departure is beyond its epoch. A sender's Flush names the epoch of the
// calls that it follows and takes the same way, until it comes to the gate that
// it is for. Gates hold in every state: where the shard has left, what a gate
// held is forwarded when it opens.
//
// A call that comes by way of an old home although its sender's gate is open is
// refused: that happens only when an old home was lost, or cut off for longer
// than [GateTimeout].
//
// # Other ways to move
//
// A type may choose other options ([Handoff]). With 2a N1 stays Open after
// BeginMove and offers the shard: N2 prepares it without state, and when it is
// Ready, N1 ends its turns (Draining) and goes on as above, from Open on. With 2c
// N1 drops what comes while it is Draining or Sent. With 3a no gates are closed.
// With 4b N1 refuses what comes while it is Forwarding; flushes it still passes on.
//
// The driver in package shard owns a lock per Shard, runs turns and hooks
// outside of it, and sends what an [Effects] says. internal/sim is another driver.
// Only the fast path of a local call needs no lock: [Shard.Look], [Entity.Enter], [Entity.Leave].
package region
