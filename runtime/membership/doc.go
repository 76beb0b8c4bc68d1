// Package membership keeps one view of a cluster at all its nodes, without a master, as a
// pure state machine: the membership of the Akka Cluster specification (gossip, vector
// clocks, convergence, phi-accrual detection, a leader without election), with failure
// detection that also asks the broker.
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
//   - internal/membership/gossip: the gossiped state, its merge and its conclusions
//   - spread.go: recipients and times of gossip
//   - join.go, admit.go, admission.go, room.go: joining and forming, at the joiner and at
//     the member
//   - heartbeat.go, phi.go, echo.go, evidence.go: watching, and evidence against members
//   - downing.go, agreed.go, split.go: judging members that are missed;
//     strategy*.go, quorum.go, voters.go: the side that goes on; claim.go: the lease of
//     lease majority; quarantine.go: members that cannot come back
//   - cast.go, votes.go, collect.go, batch.go: broadcasts, votes and downing in large
//     clusters
//   - lease.go, fence.go: the time until which a node may run turns, and the time from
//     which others know that it does not
//   - leader.go: the leader's duties
//   - input.go, event.go, view.go, publish.go: inputs and outputs
//   - refuse.go: reasons for refusing messages
//
// # Leases and fences
//
// A node runs turns only under a lease (see [Machine.Lease]). The shards of a Down member
// are given to others only once it is fenced (see Member.Fenced), when its lease has
// certainly ended. A Down member that is not fenced may still run, so the coordinator
// treats it as unreachable. That holds through pauses, cuts and broker outages, unless an
// operator downs a member that runs on the other side of a cut, because his word is taken
// for the truth. It does not hold under DowningAuto.
//
// The strategy ([Downing]) decides which voters are enough for a lease: more than half, a
// fixed number, or more than half with the oldest. Any two such sets share a voter, and the
// side that goes on after a split has a voter in each, so that a fence always comes. Only
// the smaller side that goes on under a lease has to wait for time alone. Records 0016 to
// 0019 in docs/adr have the reasoning; strategy_test.go tries all splits.
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
