// Package join brings nodes into the cluster. [Joiner] is the part of a node that looks for a
// cluster, and forms one if it is the node's turn. [Foundings] keeps the store's record of who
// formed the cluster. [Admission] is the part of a member that answers, checks and admits joiners.
// [Size] refuses joiners with which the state would exceed the broker's limit for a message.
//
// The package knows downing (an old incarnation that is gone is downed to make way), lease,
// detector, core, message and gossip.
package join
