// Package gossip is the state that spreads among the members of a cluster, and the conclusions from
// it.
//
// A [State] holds the members, the reachability records, and the nodes that were removed lately. It
// is an immutable value with a version; two states of one cluster are joined by [State.Merge], in
// any order of arrival. All conclusions are computed once for each version: a [Summary] holds those
// common to all nodes, and a [Local] those of one node.
//
// The package has no clock, no I/O and no settings of its own. It knows nothing of messages,
// detectors or downing, which are built on it.
//
//   - member.go, description.go: a member and its description of itself
//   - evidence.go, row.go: the observations of unreachable members
//   - clock.go, seen.go: the version of a state and the members that have seen it
//   - tombstone.go: removed nodes
//   - addresses.go: lists of addresses
//   - state.go, check.go: the state and its invariants
//   - merge.go: the merge of states, and the last lease deciding a split
//   - ring.go: the ring of members, each watching the next ones
//   - accusation.go: how observations make members unreachable
//   - summary.go, local.go: the conclusions
package gossip
