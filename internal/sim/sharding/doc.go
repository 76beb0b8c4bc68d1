// Package sharding runs the whole of sharding together, in virtual time and from a
// seed: membership (runtime/membership, in a world of internal/sim), coordinators and
// followers (runtime/coordinator) under their singleton (runtime/singleton), shards
// (internal/core/region), senders (internal/core/stream), entities that call each other, and clients
// that are no members and get the table through a gateway. It holds tests only.
//
// Shards, routes, sessions and the control planes of members and clients run by the code
// that ships (internal/driver/shardhost, internal/driver/routing, internal/driver/peers, internal/driver/control),
// and calls wait in the table that ships (internal/driver/calls).
// The membership has the times of memberConfig, which are shorter than the defaults, so
// that much happens in a run. The broker loses and delays.
//
// # Faults
//
// Shards move by pins, for balance, and away from hosts that leave in order,
// also the coordinator's, and many of them at once. Turns outlast the bound of draining. Tables come late,
// control messages are lost, repeated and reordered, connections break. Processes
// are killed, half of the time the coordinator's and often in the middle of a move,
// and come back under their names; hosts fall silent just as a new coordinator waits
// for their shards; frames come that repeat envelopes of earlier ones and have more; bounces
// come twice; processes stand still; they are cut off, in one direction or both, or the
// broker's cluster falls in two; a removed process goes on and learns it late; a process
// that is cut off as it joins founds another cluster, which gives way later.
//
// # Invariants
//
// After every event, the numbered invariants of the cores and those of the oracle
// (oracle_test.go): one activation per (shard, epoch), one home with a lease, order,
// nothing twice, no answered call undone while a copy of the state lives, outcomes
// that are true, bounds, epochs and terms that grow. After the faults, every
// process asks every entity and has its answer within answerBound; then one
// coordinator, one table, all at rest.
package sharding
