// Package join brings nodes into the cluster. [Joiner] is the side of a node that looks
// for a cluster, and forms one if it is its turn. [Foundings] keeps the store's record of who
// formed it. [Admission] is the side of a member that
// offers, checks and admits. [Size] refuses joiners for which the state has no room in a
// message.
//
// The package knows downing (an old incarnation that is gone is downed to make way),
// lease, detector, core, message and gossip.
package join
