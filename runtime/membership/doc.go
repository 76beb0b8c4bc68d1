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
// for time alone. docs/adr/0016 to 0019 have the reasoning; strategy_test.go tries all
// splits.
//
// # Removed members
//
// A removed member leaves a tombstone, and its entry in the vector clock stays as long
// as the tombstone: for the last 128 removals, counted and not timed, because clocks
// need not agree. Pruning the entry at once, as the specification says, makes merging
// non-associative. When states are merged, a member that only one side has is dropped
// if the other side has its tombstone, and not for being Down or Exiting.
//
// A state that lacks 128 removals or more is not merged, because it may contain members
// whose tombstones are forgotten. Its sender hears that it was removed, or gets the
// newer state if it still is a member. A node that is itself so far behind takes the
// newer state in place of its own. Once tombstones may have been forgotten, heartbeats
// of nodes that are no members are not answered.
//
// # The first members
//
// In the specification the leader acts when every Up and Leaving member has seen the
// view. Before anybody is Up that condition is empty, and with a minimum number of
// members two joining members could each make the others Up. So until somebody was Up
// the founder leads, if it can be reached, and the first joining member only after it;
// and the view converges only when all joining members have seen it. A member that
// never was Up has no endless lease beside others. If the founder is lost, the joining
// members judge each other by majority. Joining members whose full members have all
// been lost admit nobody, or a dead cluster would live on in its joiners.
//
// # Testing
//
// The transcripts in testdata drive several machines over a simulated broker in
// virtual time; go test -update rewrites them.
package membership
