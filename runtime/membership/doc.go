// Package membership keeps one picture of a cluster at all its nodes, without
// a master, as a pure state machine: the membership of the Akka Cluster
// specification (gossip, vector clocks, convergence, phi-accrual detection, a
// leader without election), with a failure detection that knows the broker.
//
// A [Machine] is driven from outside: the driver hands an [Input] and the time
// to [Machine.Step] and performs the [Output] in order. The machine has no
// clock, goroutine, random source, I/O or log of its own, so a run replays.
//
// # The life of a member
//
//	joining → (weakly up) → up → leaving → exiting → removed
//	                 any of them → down → removed
//
// The leader alone moves members along the upper line, and only when the view
// has converged: every Up and Leaving member has seen it, and nobody is
// unreachable who is not Down or Exiting. One flapping link therefore stalls the
// leader and nothing else; [ConvergedChanged] and View.Why make it visible.
//
// # Where things are
//
//   - clock.go, gossip.go, reachability.go, merge.go: the state and its merge
//   - spread.go: who is sent what, and when
//   - join.go, admit.go: joining and forming, the joiner's and the member's side
//   - ring.go, heartbeat.go, phi.go, echo.go, evidence.go: who is watched, and
//     what is known against them
//   - downing.go, agreed.go, split.go, tangle.go: what follows from it for members that are
//     missed; strategy*.go, quorum.go, voters.go: which side goes on; claim.go: the
//     lease of lease majority; quarantine.go: who cannot come back
//   - cast.go, votes.go, collect.go, batch.go: how large clusters tell, count and down
//   - lease.go, word.go, fence.go: until when a node may run turns, and when others
//     know that it does not
//   - leader.go, leave.go: the leader's duties, leaving
//   - message.go, input.go, event.go, view.go: what goes in and out
//   - refuse.go: why messages are not obeyed
//   - codec.go: messages as bytes
//
// # Leases and fences
//
// A node runs turns only under a lease (see [Machine.Lease]), and what a Down
// member had is given to others only once it is fenced (see Member.Fenced): once
// its lease has certainly ended. A Down member that is not fenced may still run,
// so who hands out its shards treats it as unreachable. That holds through
// pauses, cuts and broker outages, unless an operator downs a member that is
// well on the other side of a cut: his word is taken for the truth. It does not
// hold under DowningAuto.
//
// Which voters are enough for a lease depends on the way of downing ([Downing]):
// more than half, a fixed number, or more than half with the oldest. Any two such
// sets share a voter, and who goes on after a split has a voter in each, so that a
// fence always comes. Only the smaller side that goes on under a lease has to wait
// for time alone. docs/adr has the reasoning, strategy_test.go tries all splits.
//
// # Testing
//
// The transcripts in testdata drive several machines over a simulated broker in
// virtual time; go test -update rewrites them.
package membership
