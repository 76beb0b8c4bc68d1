// Package durable runs the core of durable shards, internal/core/durable, in virtual time over its
// own faulty store.
//
// Several homes drive the core. A coordinator places the shards and may be wrong. Callers send a
// command again until it is answered. The faults are crashes, pauses, partitions, cancelled moves,
// lost term records, and clocks that differ and jump. The store is slow, unavailable or restarted,
// loses answers and returns stale reads. One seed is one run. In a quarter of the runs the shards
// are those of singletons, which claim an epoch above the head; these runs have journals and
// versions of the state like others.
//
// A judge sees everything that the store applies or that leaves a home. It reads the log with its own
// code, and checks after every step:
//
//  1. Appends that count belong to claims of growing epochs. Nothing is appended
//     under a claim that is not the highest.
//  2. Commits that count can be recovered: from a record, or from the log after the
//     head's since.
//  3. Versions of an entity grow by one, in records too. A record has only
//     committed state. A command is applied once.
//  4. An answer leaves a home only if the log has the state behind it.
//  5. Only the home that wrote the head changes records.
//  6. The memory of the core is bounded. Within a stated time after the last fault
//     every entity answers, and every tell has arrived once.
//  7. Events are numbered in the order of their log. A follower reads each event as
//     the log has it, and none is deleted before the journal's settings allow that.
//  8. A turn sees the state of the commit before it, unless the entity has ended or,
//     by the clock of a home, expired; then the turn sees nothing. So an expired
//     entity never comes back with its old state, and nothing acknowledged is lost
//     before its time.
//  9. A state never replaces one of a later version, because a program refuses
//     later versions.
//  10. A tell is committed by one turn only.
//  11. The stream gets each message that was published in a committed turn once, those of an entity
//     in order, and no others.
//
// The history of each entity is linearizable: a call that began after another had been answered
// sees the same state or a later one. shardtest/linear also checks the histories of some seeds with
// porcupine.
package durable
