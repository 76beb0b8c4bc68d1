// Package admin lets operators look at a cluster and command it, from a process that is not a
// member: list members, shards, moves and turns; join, leave, down, place and rebalance.
//
// A [Client] asks over the control channel and gets an answer for each request. A request for any
// member goes to a shared subject, and the broker gives it to one serving member. A request for
// one process goes to that process's subject. A name that no member has in its view is looked for
// by a broadcast.
//
// An operator is who the broker's permissions say. One called ann publishes to
// sh.<cluster>.o.ann.>, or to sh.<cluster>.o.ann.get.> if she may only look, and subscribes to
// sh.<cluster>.r.o.ann.>. Members take queries from the first word and commands from the other
// only, and log each command that they carry out with the operator's name.
//
// The members' side is in internal/driver/control and in package shard. Package internal/ops/operator has the
// messages and their form on the wire.
package admin
