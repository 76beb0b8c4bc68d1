// Package admin lets operators look at a cluster and command it, from a process that is not a
// member: list members, shards, moves and turns; join, leave, down, place and rebalance.
//
// A [Client] asks over the control channel and gets an answer for each request. A request that any
// member can answer goes to a shared subject, and the broker passes it to one serving member. A
// request for one process goes to that process's subject. A process that no member has in its view
// is found by a broadcast.
//
// The broker's permissions decide who is an operator. An operator ann subscribes to
// sh.<cluster>.r.o.ann.> and publishes to sh.<cluster>.o.ann.get.> for queries and to
// sh.<cluster>.o.ann.do.> for commands; one who may only look lacks the right to the latter.
// Members log each command that they carry out with the operator's name.
//
// Members answer in internal/driver/control and in package shard. Package internal/ops/operator has
// the messages and their encoding.
package admin
