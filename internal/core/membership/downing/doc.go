// Package downing decides about unreachable members.
//
// The path of a decision: [Unreachables] records since when each member is unreachable according to
// the records of all observers (package gossip). [Resolver.RunDowning] is called at each step while
// the node's echoes return. With the strategy "broker", [Majority] downs gone members at once, and
// decides about other unreachable members by keep-majority, after a time. [Indirect] picks a side
// of members that reach each other only through others. [Company] ends a node that hears only a
// minority. With the other strategies, [Splits] asks package splitbrain for a verdict once a split
// is stable, and claims the lease if the strategy is "lease majority". [Execution] moves the
// victims to Down, in a large cluster all at one time, and ends this node if it is one of them. A
// Down member may still run turns until [Fence] finds that the member's lease has certainly ended;
// only then is it marked Fenced, and removed by the leader.
//
// The package knows lease, detector, splitbrain, core and gossip.
package downing
