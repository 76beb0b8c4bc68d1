// Package detector finds out which members a node can reach, and writes the result into
// the gossiped state as the node's own records.
//
// The path of a heartbeat: runBeats sends one to each neighbour on the ring, and often to a
// suspected member. The receiver answers in [Heartbeats.OnHeartbeat], and thereby vouches for the
// sender's lease (vouchFor). The answer arrives in [Heartbeats.OnHeartbeatAck]. It feeds the
// phi-accrual detector of that member and records in [Peers] when the member vouched for this node.
// Package lease reads that. When an answer does not arrive, [Suspicion.RunDetection] weighs the
// silence and the broker's reports that nobody listens, and records evidence. Evidence counts only
// while the node's own [Echo] returns: otherwise the fault is at this node or at the broker.
//
// [Presence] broadcasts the node's presence, so that two clusters of one name meet.
//
// The package knows core, message and gossip. It does not draw conclusions from evidence;
// package gossip (which members count as unreachable) and package downing do.
package detector
