// Package coordinator decides which node owns which shard, for all entity types
// of a cluster, as a pure core.
//
// One [Coordinator] runs in a cluster, on its oldest Up or Leaving member (by
// runtime/singleton), and decides during one [placement.Term]. It writes the
// table; every process follows it with a [Follower]. The steady path of calls
// never asks the coordinator. All messages are idempotent and sent again until
// their effect shows, so the control channel may lose, repeat and reorder.
//
// A coordinator must not be started twice within one term: it would give out
// epochs again. A node whose coordinator ends by a bug ends with it.
//
// # Recovery
//
// A new coordinator announces its term by [TableStatus]. Every member that hosts
// types answers with [Register]: it promises to refuse everything of lower terms
// and says what it owns and what is moving. Until the first table of the term
// has come it registers anew whenever one of its moves gets further. The
// coordinator gives and moves nothing until every member that is not Down and
// announced at joining that it hosts has registered; there is no time-out, for
// downing decides about the silent. Known shards keep working meanwhile.
//
// Then it decides shard by shard. The highest epoch that a claim names decides
// (of a move, the move's); lower claims are of the past, and their nodes give up
// when they see the table. Rows of the table, for a move from N1 to N2 at m:
//
//	row  claims of the highest epoch                  decision
//	1    a live node is active                        it is the owner, under that epoch
//	2    N1 draining or sent; N1 and N2 live          the move goes on, watched by this coordinator
//	3    N1 draining or sent; N2 gone                 ask N1 to cancel; then N1 resumes above m
//	4    N1 forwarding; N2 lives                      N2 is the owner: under m when it reports the
//	                                                  shard preparing or prepared, else above m
//	5    N1 forwarding; N2 gone                       the shard was lost with N2: allocate anew, above m
//	6    N1 gone; N2 preparing or prepared, or N1     N2 is the owner, above m, with what it prepared
//	     registered the move before it was lost
//	7    all who claim it are gone                    allocate anew, above all
//	8    nobody claims it                             allocate when it is asked for
//
// N1 claims a shard that it forwards for only until the table shows the move and its
// callers have flushed. Without that claim, N2 decides alone: by row 1, or by row 6 if it
// has not opened yet; and when N2 is gone, row 8 holds.
//
// # Allocation
//
// [Ask] makes a kind wanted. All its shards get a home at once, for a shard
// without entities costs nothing. The first time at least MinMembers hosting
// members must be Up. Only Up, reachable members that registered the kind as
// hosted are given shards. Shards of a node that is Down or removed are given to
// others in the step that learns of it.
//
// Where shards go, a [Strategy] says for each kind, by the name that its hosts
// registered last; a kind has its own bound of moves and its own minimum of hosts.
// Members that differ are no fault: so a change is rolled out.
//
// Wishes ([Place], [Pins]) come before the strategy: a shard that was wished to be
// at a node goes there as soon as that node hosts the kind and the view has
// converged, and the strategy is not offered it. The coordinator sends the wishes
// of a kind, as a whole and numbered like epochs, to all who registered, until
// they say that they keep them; only then is the asker answered. They register
// with what they keep, and the next coordinator goes on with the highest number.
//
// # Moves
//
// N1 owns a shard under e, and it moves to N2 under m, the next epoch:
//
//	coordinator      to N1: MoveBegin          every 500 ms while the move lasts
//	N1, N2           Init, Ready, Open         on the data lanes; runtime/region
//	N2               MoveDone                  the table shows N2 at m: committed
//
// What goes wrong, and how it ends, always with one owner:
//
//	N1 gives up      MoveAborted; MoveCancel to N2; MoveCancelled      N1 resumes above m
//	                 (or N2 is gone; or MoveDone, which commits)
//	N1 is gone       the table shows N2 above m                       N2 opens with what it prepared
//	N2 is gone       MoveCancel to N1; MoveCancelled                  N1 resumes above m
//	                 MoveCancel to N1; MoveStatus(forwarding)         lost: allocated anew
//	both are gone                                                     lost: allocated anew
//
// That N1 has sent Open cannot be known from an older MoveStatus: so N1 is
// asked, and its answer is a promise. The same holds for N2 before N1 resumes:
// what N2 prepared must be gone, for it would be adopted, and answered calls
// undone, if N1 resumed, ran on and was lost.
//
// Shards move away from members that leave (32 at once by default), whether or
// not the view has converged; and for balance (3 at once), only while it has.
// The next begins when one ends. A shard whose move was cancelled rests. Where
// nobody can take a leaving member's shards, they stay.
//
// # Following
//
// All messages from coordinators go through [Follower.Step]. It refuses terms
// that are over, keeps the table whole (differences, parts, gaps), and says when
// to register. Per shard the process then obeys, as the doc of [Table] says. It
// follows from the order of placement.Version that an envelope's epoch which is
// above the shard's epoch in the receiver's table, but of a lower term than the
// table's, is of the past: it is answered like an older one, not kept.
package coordinator
