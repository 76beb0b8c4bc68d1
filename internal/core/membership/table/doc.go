// Package table is the membership of one node by a table, after the cluster membership of Orleans:
// members probe each other directly, and agree by rows that are written with compare-and-set.
//
// The table (package rows) has a row for each member and one version for all. Each write changes one
// row, or those of several joiners, and makes a later version, if the version is the one that the
// writer knows. So all views are in one total order. The writer broadcasts what it wrote; a read every
// [core.Table.Refresh] is behind that. Changes that arrive in another order wait for each other. The
// driver carries requests to the store: see core.TableRead, core.TableWrite and core.TableAlive. A
// write whose outcome is unknown may still happen; no decision rests on its not happening.
//
// # The parts
//
//   - machine.go: inputs, messages, the connection
//   - client.go: requests to the table, what this node wants written, and adopting a version
//   - join.go: a joiner makes a row, proves both ways to every active member, and becomes active
//   - admit.go: a guide writes for a crowd of joiners, which prove to fewer
//   - probe.go: probes of successors on the ring, indirect probes, and the broker's word
//   - vote.go: suspicions, and the declaration of a death
//   - health.go: this node's judgement of itself
//   - lease.go: until when this node may run turns
//   - fence.go: when a dead member's shards may be given to others
//   - view.go: what the layers above see
//
// # Leases and fences
//
// The table declares members dead that may be alive, because they are cut off from others or from
// the table. A dead member's shards may be given to others only when it certainly runs no more
// turns: then its row is fenced. Gossip has a quorum of voters for that. Here the table decides, so
// no majority is needed, and a side of any size goes on if it reaches the table.
//
// A member runs turns until QuorumTimeout after a proof, and until SelfHeartbeatTimeout after it
// sent the last echo that came back. A proof is a moment at which the table certainly did not have
// it dead. There are two kinds:
//
//   - The table itself: the version that this node knows was made by its write of its own row, in a
//     request that began at that moment. A read proves nothing, because the table may answer with an
//     earlier state.
//   - All members: since that moment every member that is not dead, this one included, has stood at
//     the version that this node knows. To stand at a version is to know none that is later, and to
//     have begun no declaration of a death, of known or unknown outcome. Who declares a death either
//     was a member at that version, and had not begun; or became one later, for which it needed an
//     answer of each active member that knew its row, and so stood at that version no more. In a
//     crowd it needs none of those that became active after its row was made: they have known its
//     row, and waited for its stand, since they are active.
//
// Members exchange proofs through guides, the three oldest. A member sends its stand, and the guide
// answers with the age of the latest proof that it has. Above SmallCluster members only the oldest
// guide gets stands, while it answers and proofs are young. The member counts from the sending of its
// stand, and the guide counts a stand from the sending of that answer of its own which the stand
// names. So no delay of a message or a process makes a lease longer. While the table is out of
// reach, all go on by the second kind; while members are silent, the rest goes on by the first. If
// both fail, leases end: somebody may be declaring deaths. A stand names the members that its
// sender may have declared dead; the others go on.
//
// After a connection was made again, a lease is prolonged only by a request to the table that began
// later, of this node or of a guide, and only when the own row names the broker instance of the
// connection, unless there is one only. So a member whose connection breaks while the table is out
// of reach stops until the table is back.
//
// A member fences a dead one by one of three rules. K is when it first knew of the death:
//
//  1. By time: QuorumTimeout after K, and SelfHeartbeatTimeout. Proofs of the first kind are older
//     than K. For one of the second kind the fencer would have had to stand at an earlier version
//     after K. If the dead member was silent for long before K, the time runs from an earlier
//     moment: QuorumTimeout after the latest one of which it may have a proof (provenAt). For that
//     each source of proofs is bounded. A write of its own shows in its row, because only a write of
//     the own row is a proof. Each active member says in its stands when it last exchanged stands
//     with the dead one; it knows of the death, and gives it no proof any more. Dead members may
//     have given each other their proofs, so the time is the latest for any of them. What a fenced
//     member may have given is not later than the time found for it; a member that has left may have
//     given a proof just before. A fencer that the dead member left out stood less than
//     QuorumTimeout-SelfHeartbeatTimeout before it lost its connection, so its echoes have ended by
//     then, and without them it does not fence.
//  2. By the broker: SelfHeartbeatTimeout after it answered, to a message sent after K, that nobody
//     listens for the dead member at the server that its row names, or at a later instance of that
//     server, which begins when the earlier one has ended. Then the member had lost its connection
//     after it died, or before and had not read the table since. Its lease ended with the last echo,
//     and to go on it has to read the table, which has it dead. If the broker has said so before K,
//     in answer to a message sent after provenAt, the time runs from that answer: since then the
//     member has got no proof, which it needs for each connection. A node at another server asks
//     the member's server through a connection of its own.
//  3. By silence: see below.
//
// A member that the broker calls gone cannot stand, and should not stop the others while the table
// is out of reach. A guide leaves it out if it stood less than QuorumTimeout-SelfHeartbeatTimeout
// before the broker's answer, and its latest stand or probe came through that broker. It then had
// fenced nobody by time that is not dead at that version, and has lost its connection. After it
// makes a connection again, it fences by time only when it has met all members that may not know of
// the death: each has answered a probe through that connection, and so leaves it out no more; the
// time runs from the last of these answers.
//
// A fencer by time must be one that the dead member counts for unanimity (metSince). Members that
// were active when it became active count it, because each answered it then; one that was dead by
// then may never have heard of it.
//
// There remains the cluster that is cut off as a whole from the table and from those that reach it,
// and that newcomers skipped because its rows were stale. No newcomer has met its members, so none
// may fence them by time. Its members go on until Outage after the last I-am-alive write that any
// of them knows of; the newcomers fence them Outage after the last such write in the table.
//
// Every duration that a fencer waits is 2 % longer, because clocks may differ in rate.
package table
