// Package coordinator chooses the home of each shard, for all entity types of a cluster, as a pure
// state machine.
//
// One [Coordinator] runs in a cluster, on its oldest Up or Leaving member (by runtime/singleton),
// and decides during one [placement.Term]. It writes the table, which every process follows with a
// [Follower]. The steady path of calls never asks the coordinator. All messages are idempotent and
// sent again until their effect shows, so the control channel may lose, repeat and reorder.
//
// A coordinator must not be started twice within one term, because it would assign the same epochs
// twice. So a bug that ends the coordinator ends its node too.
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
// Then it decides shard by shard, by the claim with the highest epoch (for a move, the move's
// epoch). Lower claims are outdated: their nodes give the shard up when they see the table. For a
// move from N1 to N2 at epoch m:
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
//	8    nobody claims it                             allocate when it is asked for; list a pool's shard
//	                                                  without a home, above epochs of former terms
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
// [Ask] makes a type wanted. All its shards get a home at once: shards without entities cost
// nothing. For its first allocation at least MinMembers hosting members must be Up. Only Up,
// reachable members that registered the type as hosted are given shards. Shards of a Down or
// removed node are given to others in the step that learns of it.
//
// A type's shards are placed by the [placement.Strategy] whose name its hosts registered last. A
// type has its own bound of moves and minimum of hosts. Members may differ in these three, so that
// changes can be rolled out.
//
// [placement.LoadWeighted] looks at the loads that members report ([MemberLoad]). Registrations
// contain no loads: each report replaces the one before, and a coordinator moves nothing by load
// until each home has reported in the last three intervals. The shards of a type that is placed by
// [placement.Beside] follow another type's shards, which get their homes and moves first.
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
// A type with a [Pool] has one instance per shard. The coordinator sets their number n as failures
// and load (or, instead of load, operators' pins) require, within the pool's bounds and its
// members' room. Shards from n on have no home. Instances go to the member with the fewest; among
// equals, in the zone with the fewest; among these, to the next after the member chosen last. A
// join moves instances only to spread them over members and zones as far as failures need. A loss
// gives only the lost instances new homes. An instance also moves if its member has too many
// because one that was ending there is needed again.
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
// converged. Up to 3 at once move for rebalancing, only while it has converged. When a move ends,
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
