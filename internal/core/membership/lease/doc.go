// Package lease computes until when a node may run turns.
//
// [Lease.RenewLease] is called at the end of each step. A lease rests on the last returned echo and
// on a quorum of voters vouching for the node. In a small cluster [Lease] counts the vouchers that
// package detector keeps. In a large one each member sends its vote to a few [Collectors], and
// [Votes] holds the answers. [Voters] are the members whose vote decides; package downing uses them
// too.
//
// The package knows detector, splitbrain (for the quorums), core, message and gossip.
package lease
