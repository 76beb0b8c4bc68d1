// Package admin lets operators look at a cluster and command it, from a process that is not a
// member: list members, shards, moves and turns; join, leave, down, place and rebalance.
//
// A [Client] asks over the control channel and gets an answer to each request: from one serving
// member, or from the process that the request names. A broadcast finds processes that are in no
// member's view.
//
// An operator ann subscribes to sh.<cluster>.r.o.ann.> and publishes to sh.<cluster>.o.ann.get.>
// for queries and to sh.<cluster>.o.ann.do.> for commands. Members log each command with its
// operator. Package internal/ops/operator defines the messages and their encoding.
package admin
