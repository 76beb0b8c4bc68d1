// Package membership keeps the same view of a cluster at all its nodes, without a master,
// as a pure state machine. It is the membership of the Akka Cluster specification (gossip,
// vector clocks, convergence, phi-accrual detection, a leader without election), with a
// failure detection that uses the broker's knowledge of connections.
//
// A [Machine] is driven from outside: the driver passes an [Input] and the time to
// [Machine.Step] and carries out the [Output] in order. The machine has no clock,
// goroutine, random source, I/O or log of its own, so a run can be replayed.
//
// # The life of a member
//
//	joining → (weakly up) → up → leaving → exiting → removed
//	                 any of them → down → removed
//
// Only the leader moves members along the upper line, and only when the view has converged:
// every Up and Leaving member has seen it, and no member is unreachable that is not Down or
// Exiting. One unreliable connection therefore stalls the leader and nothing else;
// [ConvergedChanged] and View.Why report it.
//
// # Packages
//
// This package is the surface of the machine: it dispatches inputs to the parts, calls them
// in order at each step, and does the leader's duties. The parts are packages under
// internal/core/membership, where the simulator reaches them too. Each knows only packages below
// it:
//
//	join                admission: the joiner's side and the member's
//	spread   downing    changes to all members; decisions about unreachable ones
//	lease               the time until which this node may run turns; votes; voters
//	detector            heartbeats, phi, echoes: who can be reached, as seen from here
//	core                settings, time, gossiped state, view and output of one node
//	message  splitbrain the messages and their encoding; strategies and quorums
//	gossip              the gossiped state, its merge, and the conclusions from it
//
// # The path of a heartbeat
//
// At each step the machine runs the parts from detector to spread. The detector sends a
// heartbeat to each of its neighbours on the ring. The receiver's machine passes it to its
// own detector, which answers, and so vouches for the sender's lease. The answer feeds the
// sender's phi detector, and its lease is computed from it at the end of the step. If no
// answer arrives, the detector writes a record into the gossiped state; spread brings the
// new version to all; and at every node package gossip concludes from the records of all
// observers whether the member is unreachable.
//
// # The path of a downing decision
//
// Package downing records since when the member is unreachable. After the strategy's time it asks
// package splitbrain which side goes on. Under DowningBroker a gone member is downed at once. The
// side that loses stops. On the winning side, one member moves the victims to Down in the gossiped
// state, and spread brings that to all. Members that know it no longer vouch for the victims. When
// so many know it that the victims can have no quorum, and their leases have ended, the leader
// marks them Fenced: only then are their shards given to others. At the next convergence the leader
// removes them.
//
// # Leases and fences
//
// A node runs turns only under a lease (see [Machine.Lease]), and nothing that a Down
// member hosted is given to others before the member is fenced (see Member.Fenced): before
// its lease has certainly ended. A Down member that is not fenced may still run turns, so
// the coordinator treats it as unreachable. That holds through pauses, partitions and broker
// outages, unless an operator downs a member that is alive on the other side of a partition,
// because an operator's statement is not checked. It does not hold under DowningAuto.
//
// The sets of voters that are enough for a lease depend on the strategy ([Downing]): more than
// half, a fixed number, or more than half with the oldest. Any two such sets share a voter, and the
// surviving side of a split has a voter in each, so a fence always comes. Only the smaller side
// that goes on under a lease has to wait for time alone. docs/adr has the reasoning, and the tests
// of package splitbrain try all splits.
//
// # Testing
//
// The transcripts in testdata drive several machines over a simulated broker in virtual
// time; go test -update rewrites them.
package membership
