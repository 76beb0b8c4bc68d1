// Package durable runs the core of durable shards, internal/core/durable, in virtual
// time over a faulty store of its own.
// Several homes drive the core. A coordinator places the shards and may be wrong.
// Callers send a command again until it is answered. The faults are crashes,
// pauses, partitions, moves that are cancelled, lost term records, clocks that differ
// and are set forward and back, and a store that is slow, unavailable or restarted,
// loses answers, and returns stale reads.
// One seed is one run. In a quarter of them the shards are those of singletons, which claim
// above the head that they find; with journals and versions of the state as in the others.
//
// A judge sees everything that the store applies and everything that leaves a
// home. It has its own reading of the log, and tests after every step:
//
//  1. Appends that count belong to claims of growing epochs; nothing is appended
//     under a claim that is not the highest.
//  2. Commits that count can be recovered: from the log from the head's since on, or from
//     a record.
//  3. Versions of an entity grow by one, in records too, and a record has only
//     committed state; a command is applied once.
//  4. Nothing leaves a home before the log has the state that it saw.
//  5. Only the writer of the head changes records.
//  6. The memory of the core is bounded; after the last fault every entity answers,
//     and every tell has arrived once, within a stated time.
//  7. Events have numbers in the order of their log. A follower reads each one as the
//     log has it, and none is deleted before the settings of the journal allow that.
//  8. A turn sees the state of the commit before it, unless that has ended or has expired by the
//     clock of a home; then it sees nothing. So an entity that has expired never comes
//     back with its old state, and nothing that was acknowledged is lost before its time.
//  9. No state is replaced by one of an earlier version: a program refuses states of later ones.
//
// The history of each entity is linearizable: a call that began after another
// had been answered sees at least the same state. shardtest/linear gives the histories of
// some seeds to porcupine as well.
package durable
