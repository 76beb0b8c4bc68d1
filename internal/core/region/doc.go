// Package region has the state machine of one shard at one node, without I/O: it decides whether calls
// run or wait, also while the shard moves.
//
// A [Shard] holds its entities. A call begins a turn at once if its entity is idle and the shard is
// open. Otherwise it waits: in the entity's mailbox while the shard is open, and in the shard's own
// queue while it is not. At most one turn of an entity runs at a time.
//
// # A move, from the old home N1 to the new home N2
//
//	N1: Open --BeginMove--> Draining --Drained--> Sent --Ready--> Forwarding
//	N2: Closed --Prepare--> Preparing --(last part)--> Prepared --OpenAt--> Open
//
// The shard's state moves too, and the order per (sender, entity) holds. The steps follow the
// graceful handoff of the Akka Cluster specification with three of its options: 2b (N1 runs no more
// turns), 3b (N2 holds each sender's calls until that sender's Flush came by way of N1) and 4a (N1
// forwards).
//
// # How a message finds the shard
//
// Senders learn of moves late, and a shard may move on, or come back, before its senders' calls
// have followed it. So a node remembers its departures: the node to which it gave the shard, and
// the epoch. A call whose epoch is lower than a departure's is forwarded to that node, behind its
// sender's older calls. It has arrived when it reaches a node without a departure of a higher
// epoch. A sender's Flush names the epoch of the calls before it and is forwarded in the same way,
// until it comes to its barrier. Barriers hold in every state: if the shard has left, the calls
// that a barrier held are forwarded when it opens.
//
// A call that comes by way of an old home although its sender's barrier is open is refused. That
// happens only when an old home was lost, or cut off for longer than the barrier's timeout.
//
// # Special cases
//
// Each of these lost calls, or broke their order, in internal/sim before it was handled:
//
//   - A shard that comes back after a loss keeps its departures. A node that gave the shard away,
//     and gets it back because the new home was lost, may still have calls under way to the lost
//     home. A flush follows these calls, comes back behind them when the node learns of the loss,
//     and only then opens the barrier. Returned calls wait until the table names the home. If the
//     shard comes here by a move before that, they are refused, because younger calls may have run
//     elsewhere.
//   - A node may receive calls before the table that names it as the home. The next coordinator may
//     then give the shard to another node, because the first one has not registered it. Those calls
//     wait in a shard that never opens. A sender that learns of the other node takes its calls
//     along: they are forwarded there ahead of its Flush.
//   - A Forwarding shard ignores a table that names its node as the home under an epoch below its
//     departure's, even a table of a later term. A new coordinator may decide by an old
//     registration; opening again would give the shard two homes.
//   - An open shard whose move waits for barriers is registered with a new coordinator as Draining,
//     with the move's epoch and its new home ([Shard.Underway]). Otherwise the move would go on
//     without the new coordinator's knowledge. Draining means a begun move; turns may still run.
//   - The message Open names up to 64 processes whose calls have all arrived, because the
//     processes closed their lanes or were removed. So the new home does not wait for their flush
//     until the timeout. In a rolling restart the new home may never have known them.
//   - The latest 64 pairs of sender and old home without a flush within the timeout are kept with
//     the shard, and are sent with Open. So calls that still arrive that way are refused at the
//     next home, too.
//   - A node that leaves may receive a call under an old table after its shards have gone. The
//     node waits a second for the table that names their homes, passes such calls on, and refuses
//     the rest with Moved ([Shard.Dismiss]), before it closes its sessions.
//
// # Other ways to move
//
// A type may choose other modes ([Handoff]). With Serving, N1 stays Open after BeginMove and offers
// the shard: N2 prepares it without state, and sends Ready. N1 then ends its turns (Draining), and
// continues as above, from the message Open on. With DropCalls, N1 drops calls that arrive while it
// is Draining or Sent. With Unordered there are no barriers. With Refusing, N1 refuses calls that
// arrive while it is Forwarding, but still passes flushes on.
//
// The driver, package shardhost, owns a lock per Shard, runs turns and hooks outside of the lock,
// and sends the messages of an [Effects]. Only the fast path of a call that finds its entity idle
// needs no lock: [Shard.Look], [Entity.Enter], [Entity.Join], [Entity.Leave].
package region
