// Package sharding runs all of sharding together, in virtual time and from a seed: membership
// (runtime/membership, in a world of internal/sim), coordinators and followers
// (runtime/coordinator) under their singleton (runtime/singleton), shards (internal/core/region),
// senders (internal/core/stream), entities that call each other, and clients. The clients are no
// members and get the table through a gateway. The package has only tests.
//
// It simulates the code that users run: shards, routes, sessions and the control planes of members
// and clients (internal/driver/shardhost, internal/driver/routing, internal/driver/peers,
// internal/driver/control), and the table of waiting calls (internal/driver/calls). The times of
// the membership (memberConfig) are shorter than the defaults, so that much happens in a run. The
// broker loses and delays.
//
// # Faults
//
// Shards move by pins, for balance, and away from hosts that leave in order, sometimes many at once
// and the coordinator's, too. Turns outlast the bound of draining. Tables come late; control
// messages are lost, repeated and reordered; connections break. Processes are killed and come back
// under their names: half of the time the coordinator's, and often in the middle of a move. Hosts
// fall silent just when a new coordinator waits for their shards. Frames repeat envelopes of
// earlier frames and add others. Bounces come twice. Processes stand still. Processes are cut off
// in one direction or both, or the broker's cluster splits in two. A removed process goes on and
// learns late that it was removed. A process cut off while joining founds another cluster, which
// gives way later.
//
// In two plans there is a pool, and loads drift: operators ask for sizes of the pool, its load changes,
// and shards move by load. The interval of reports, a shard's rest and the hour of the budget are 500
// times shorter there (loadInterval).
//
// # Invariants
//
// After every event, the numbered invariants of the cores hold, and those of the oracle
// (oracle_test.go): one activation per (shard, epoch), one home with a lease, order, no call run
// twice, no answered call undone while a copy of the state lives, true outcomes, bounds, and epochs
// and terms that grow. After the faults, every process asks every entity and gets its answer within
// answerBound; then there is one coordinator and one table, and no call or move is under way.
package sharding
