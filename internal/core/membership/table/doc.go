// Package table is the membership of one node by a table, after the cluster membership of Orleans:
// members probe each other directly, and agree by rows that are written with compare-and-set.
//
// The table (package rows) has a row for each member and one version for all. A write changes one
// row, or those of several joiners, and makes a later version; it fails unless the writer knows the
// present version. So all views are in one total order. The writer broadcasts what it wrote; a read
// every [core.Table.Refresh] repairs lost broadcasts. A change that arrives early waits for those
// before it. The driver carries requests to the store: see core.TableRead, core.TableWrite and
// core.TableAlive. A write whose outcome is unknown may still happen; no decision assumes that it
// does not.
//
// # The parts
//
//   - machine.go: inputs, messages, the connection
//   - client.go: requests to the table, this node's next write, and adopting a version
//   - join.go: a joiner makes a row, gets an answer of every active member, and becomes active
//   - admit.go: a guide writes for a crowd of joiners, which probe fewer members
//   - probe.go: probes of successors on the ring, indirect probes, and the broker's reports
//   - vote.go: suspicions, and the declaration of a death
//   - health.go: this node's judgement of itself
//   - lease.go: until when this node may run turns
//   - fence.go: when a dead member's shards may be given to others
//   - view.go: what the layers above see
//
// # Leases and fences
//
// A member that is declared dead may be alive, but cut off from others or from the table. Its
// shards may be given to others only when it certainly runs no more turns: then its row is marked
// fenced. With gossip a quorum of voters decides that. Here the table decides, so no majority is
// needed, and a side of any size goes on if it reaches the table.
//
// A member runs turns until QuorumTimeout after its latest proof, and at most until
// SelfHeartbeatTimeout after it sent the last echo that came back. A proof is a moment at which the
// member was certainly not dead in the table. There are two kinds:
//
//   - The table itself: the member made the version that it knows, by a write of its own row. The
//     proof is the moment at which the request of that write began. A read proves nothing, because
//     the table may answer with an earlier state.
//   - All members: since that moment every member that is not dead, this one included, has stood at
//     the version that this node knows. A member stands at a version if it knows no later one, and
//     has begun no declaration of a death, of known or unknown outcome. A declarer of a death
//     either was a member at that version, and had not begun; or it became one later. For that
//     each active member had to answer it, knowing its row, and so no longer stood at that
//     version. In a crowd, members that became active after its row was made need not answer: they
//     have known its row, and waited for its stand, since they became active.
//
// Members exchange proofs through guides, the three oldest. A member sends its stand, and the guide
// answers with the age of the latest proof that it has. Above SmallCluster members only the oldest
// guide gets stands, while it answers and proofs are young. The member subtracts the age from the
// time at which it sent the stand. A guide counts a stand from when it sent the answer that the
// stand names. So no delay of a message or a process makes a lease longer. While the table is out of
// reach, proofs of the second kind suffice; while some members are silent, those of the first do. If
// both fail, leases end: somebody may be declaring deaths. A stand names the members that its
// sender may have declared dead; only these get no proof.
//
// After a reconnection, a lease is prolonged only by a write to the table that began later, of this
// node or of one that it asked. This node's row must also name the broker instance of the
// connection, unless the broker has only one server. So a member whose connection breaks while the
// table is out of reach stops until the table is back.
//
// A member fences a dead one by one of three rules. K is when the fencer first knew of the death:
//
//  1. By time: QuorumTimeout and SelfHeartbeatTimeout after K. Proofs of the first kind are
//     older than K. For one of the second kind the fencer would have had to stand at an earlier
//     version after K. If the dead member was silent for long before K, an earlier time suffices:
//     QuorumTimeout after the latest proof that the dead member may have (provenAt). For that each
//     source of proofs is bounded. The dead member's writes show in its row, because only a write
//     of the own row is a proof. Each active member says in its stands when it last exchanged
//     stands with the dead one; it knows of the death, and gives the dead one no proof any more.
//     Dead members may have given each other their proofs, so the time is the latest for any of
//     them. A fenced member can have given no proof later than the time found for it; a member that
//     has left may have given one just before. If the dead member left out the fencer, the fencer
//     had stood less than QuorumTimeout-SelfHeartbeatTimeout before it lost its connection. So the
//     fencer's echoes have ended by then, and without echoes it does not fence.
//  2. By the broker: SelfHeartbeatTimeout after the broker answered, to a message sent after K,
//     that nobody listens for the dead member at the server that its row names. A later instance of
//     that server counts too, because it begins when the earlier one has ended. So the member lost
//     its connection after its death, or lost it before and has not read the table since. Its lease
//     ended with the last echo, and to go on it has to read the table, which has it dead. If the
//     broker said so before K, in answer to a message sent after provenAt, the time runs from that
//     answer: since then the member has got no proof, which it needs for each connection. A node at
//     another server asks the member's server through a connection of its own.
//  3. By silence: see below.
//
// A member that the broker calls gone sends no stands, and should not stop the others while the
// table is out of reach. A guide leaves it out if it stood less than
// QuorumTimeout-SelfHeartbeatTimeout before the broker's answer, and its latest stand or probe came
// through that broker instance. Then it had fenced by time only members that are dead at that
// version, and has lost its connection. After it reconnects, it fences by time only when it has met
// all members that may not know of the death. Each of these has answered a probe through the new
// connection, and so leaves it out no more. The time runs from the last of these answers.
//
// The dead member must count a fencer by time for unanimity (metSince). Members that were active
// when the fencer became active count it, because each answered it then. One that was dead by then
// may never have heard of it.
//
// One case remains: a cluster that is cut off as a whole, from the table and from the members that
// reach the table. Newcomers have skipped its members because their rows were stale. No newcomer
// has met them, so none may fence them by time. They go on until Outage after the last I-am-alive
// write that any of them knows of. The newcomers wait for Outage after the last such write that
// they saw in the table, and then for the time of rule 1.
//
// Every duration that a fencer waits is 2 % longer, because clocks may differ in rate.
package table
