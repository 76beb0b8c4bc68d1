// Package coordinator chooses the home of each shard, for all entity types of a cluster, as a pure
// state machine.
//
// One [Coordinator] runs in a cluster, on its oldest Up or Leaving member (by runtime/singleton),
// and decides during one [placement.Term]. It writes the table; every process follows it with a
// [Follower]. The steady path of calls never asks the coordinator. All messages are idempotent and
// sent again until their effect shows, so the control channel may lose, repeat and reorder.
//
// A coordinator must not be started twice within one term, because it would assign the same epochs
// twice. So a node whose coordinator ends by a bug ends with it.
//
// # Recovery
//
// A new coordinator announces its term by [TableStatus]. Every member with hosted types answers
// with [Register]: it promises to refuse everything of lower terms and lists its shards and their
// moves. Until the first table of the term arrives, the member registers again whenever one of its
// moves makes progress. The coordinator gives and moves nothing until every member with types
// announced at joining has registered or is Down. There is no timeout, because downing decides
// about silent members. Known shards keep working meanwhile.
//
// Then it decides shard by shard. The claim with the highest epoch decides (for a move, the move's
// epoch); lower claims are outdated, and their nodes give the shard up when they see the table. For
// a move from N1 to N2 at epoch m:
//
//	row  claims of the highest epoch                  decision
//	1    a live node is active                        it is the home, under that epoch
//	2    N1 draining or sent; N1 and N2 live          the move goes on, watched by this coordinator
//	3    N1 draining or sent; N2 gone                 ask N1 to cancel; then N1 resumes above m
//	4    N1 forwarding; N2 lives                      N2 is the home: under m when it reports the
//	                                                  shard preparing or prepared, else above m
//	5    N1 forwarding; N2 gone                       the shard was lost with N2: allocate anew, above m
//	6    N1 gone; N2 preparing or prepared, or N1     N2 is the home, above m, as prepared
//	     registered the move before it was lost
//	7    all its claimants are gone                   allocate anew, above all
//	8    nobody claims it                             allocate when it is asked for; list one of a pool
//	                                                  without a home, above what a former term gave
//
// With Config.Anew a home of row 1 or 4 keeps the shard under a new epoch, because another cluster
// with the same store may have claimed it.
//
// N1 claims a shard whose calls it forwards only until the table shows the move and N1's callers
// have flushed. Without that claim, N2's claim decides alone: by row 1, or by row 6 if N2 has not
// opened the shard yet. If N2 is gone, row 8 holds.
//
// # Allocation
//
// [Ask] makes a type wanted. All its shards get a home at once, for a shard without entities costs
// nothing. The first time at least MinMembers hosting members must be Up. Only Up, reachable
// members that registered the type as hosted are given shards. Shards of a Down or removed node are
// given to others in the step that learns of it.
//
// The [placement.Strategy] of a type, by the name that its hosts registered last, decides where its
// shards go. A type has its own bound of moves and its own minimum of hosts. Members may differ in
// these, so that a change can be rolled out.
//
// [placement.LoadWeighted] looks at the loads that members report ([MemberLoad]). Registrations do
// not have them: each report replaces the one before, and a coordinator moves nothing by load until
// each home has reported in the last three intervals. The shards of a type that is placed by
// [placement.Beside] follow those of another type, which gets its homes and moves first.
//
// Pins ([SetPins], [Pins]) come before the strategy: a shard pinned to a node moves there as soon
// as this node hosts the type and the view has converged, and is not offered to the strategy. The
// coordinator sends all pins of a type together, numbered like epochs, to all registered members,
// until they confirm that they keep the pins. Only then is the request answered. Members register
// with their pins, and the next coordinator goes on with the highest number.
//
// [Balance] pauses the strategy's moves, ends the pause, or asks for a plan at once. The
// coordinator sends the pause to all members until they keep it, as it does with pins, and members
// register with it. During a pause shards without a home get one, and move by pins and away from
// members that leave.
//
// # Pools
//
// A type with a [Pool] has one instance a shard. The coordinator sets their number n: what failures
// and load need, or what operators ask for with their pins in place of the load, within the pool's
// bounds and the room of its members. Shards from n on have no home. Instances are placed round the
// members, beginning behind the member that got the last one, at the member with the fewest, in the
// zone with the fewest. A join moves instances only to spread them over members and zones as far as
// failures need. A loss gives only the lost instances new homes. An instance also moves if its
// member has too many, because one was to end there and is needed again.
//
// An instance above n ends by a move to no home: N1 gets MoveBegin without a node, ends its turns and
// the instance, and answers MoveDone. Then the table shows no home at m. If N1 gives up, it resumes
// above m, and ends the instance later. Such moves begin when the other instances have their homes.
//
// # Moves
//
// N1 is the home of a shard under e, and it moves to N2 under m, the next epoch:
//
//	coordinator      to N1: MoveBegin          every 500 ms while the move lasts
//	N1, N2           Init, Ready, Open         on the data lanes; internal/core/region
//	N2               MoveDone                  the table shows N2 at m: committed
//
// Failures, and how they end, always with one home:
//
//	N1 gives up      MoveAborted; MoveCancel to N2; MoveCancelled      N1 resumes above m
//	                 (or N2 is gone; or MoveDone, which commits)
//	N1 is gone       the table shows N2 above m                       N2 opens as prepared
//	N2 is gone       MoveCancel to N1; MoveCancelled                  N1 resumes above m
//	                 MoveCancel to N1; MoveStatus(forwarding)         lost: allocated anew
//	both are gone                                                     lost: allocated anew
//
// If N2 is gone, an older MoveStatus does not show whether N1 has sent Open, so N1 is asked, and
// its answer is a promise. If N1 gives up, N2 must drop the prepared shard before N1 resumes.
// Otherwise, if N1 resumed, answered calls and was lost, N2's prepared state would be adopted, and
// the answered calls undone.
//
// By default up to 32 shards at once move away from leaving members, whether or not the view has
// converged, and up to 3 at once move for balance, only while it has converged. When a move ends,
// the next begins. A shard whose move was cancelled is not moved again for a while. If no other
// member can take a leaving member's shards, they stay.
//
// # Following
//
// All messages from coordinators go through [Follower.Step]. It refuses ended terms, assembles the
// table from differences and parts, asks for missing ones, and says when to register. For each
// shard the process then acts as the documentation of [Table] says. An envelope's epoch may be
// above the shard's epoch in the receiver's table but of a lower term than the table. By the order
// of placement.Version such an epoch is outdated: the envelope is answered like one with a lower
// epoch, not kept.
package coordinator
