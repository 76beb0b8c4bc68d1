// Package lease computes until when a node may run turns.
//
// [Lease.RenewLease] is called at the end of each step. A lease rests on the last returned echo and
// on a quorum of voters that vouch for the node. In a small cluster [Lease] counts the vouching
// messages that package detector records. In a large one each member sends its vote to a few
// [Collectors], and [Votes] keeps their answers. [Voters] are the members whose vote decides;
// package downing uses them too.
//
// The package knows detector, splitbrain (for the quorums), core, message and gossip.
package lease
