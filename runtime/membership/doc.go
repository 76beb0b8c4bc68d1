// Package membership keeps the same view of a cluster at all its nodes, without a master, as a pure
// state machine. It is the membership of the Akka Cluster specification: gossip, vector clocks,
// convergence, phi-accrual detection, a leader without election. In addition its failure detection
// uses the broker's knowledge of connections.
//
// A [Machine] is driven from outside: the driver passes an [Input] and the time to [Machine.Step]
// and carries out the [Output] in order. The machine has no clock, goroutine, random source, I/O or
// log of its own, so a run can be replayed.
//
// # The life of a member
//
//	joining → (weakly up) → up → leaving → exiting → removed
//	                 any of them → down → removed
//
// Only the leader moves members along the upper line, and only when the view has converged: every
// Up, Leaving and Exiting member has seen it, and all unreachable members are Down. One unreliable
// connection therefore stalls the leader and nothing else; [ConvergedChanged] and View.Why report
// it.
//
// # Packages
//
// This package is the surface of the machine: it dispatches inputs to the parts, calls them in
// order at each step, and does the leader's duties. The parts are packages under
// internal/core/membership, where the simulator reaches them too. Each knows only packages below
// it:
//
//	join                admission: the joiner's side and the member's
//	spread   downing    changes to all members; decisions about unreachable ones
//	lease               until when this node may run turns; votes; voters
//	detector            heartbeats, phi, echoes: who can be reached, as seen from here
//	core                settings, time, gossiped state, view and output of one node
//	message  splitbrain the messages and their encoding; strategies and quorums
//	gossip              the gossiped state, its merge, and the conclusions from it
//
// # The path of a heartbeat
//
// At each step the machine runs the parts from detector to spread. The detector sends a heartbeat
// to each of its neighbours on the ring. The receiver's detector answers; this is also a vote for
// the sender's lease. The answer feeds the sender's phi detector, and at the end of the step the
// sender computes its lease from such answers. If no answer arrives, the sender's detector writes a
// record into the gossiped state, and spread sends the new version to all members. At every node
// package gossip then decides from the records of all observers whether the receiver is
// unreachable.
//
// # The path of a downing decision
//
// Package downing records since when a member has been unreachable. After the strategy's time it
// asks package splitbrain which side goes on. Under DowningBroker a gone member is downed at once.
// The side that loses stops. On the winning side, one member moves the victims to Down in the
// gossiped state, and spread sends that state to all. Members that have the state do not vote for
// the victims' leases. When enough members have the state to deny the victims a quorum, and the
// victims' leases have ended, the leader marks the victims Fenced: only then do their shards get
// new homes. At the next convergence the leader removes them.
//
// # Leases and fences
//
// A node runs turns only under a lease (see [Machine.Lease]). A Down member's shards are given to
// others only when the member is fenced (see Member.Fenced): its lease has certainly ended. Before
// that the member may still run turns, so the coordinator treats it as unreachable. So no shard
// runs at two members, even through pauses, partitions and broker outages. There are two
// exceptions: DowningAuto, and an operator who downs a member alive on the other side of a
// partition, because an operator's statement is not checked.
//
// Which sets of voters suffice for a lease depends on the strategy ([Downing]): more than half, a
// fixed number, or more than half with the oldest. Any two such sets share a voter, and the
// surviving side of a split has a voter in each such set, so its victims are always fenced in the
// end. Only a smaller side that goes on because it took the lease in the store lacks such voters,
// and waits for time alone. docs/adr has the reasoning, and the tests of package splitbrain try all
// splits.
//
// # Testing
//
// The transcripts in testdata drive several machines over a simulated broker in virtual time; go
// test -update rewrites them.
package membership
