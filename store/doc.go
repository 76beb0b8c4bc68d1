// Package store says what shardgen needs of a place that outlives processes:
// heads, logs and records of shards, in which entities keep their state ([Shards]);
// small records with compare-and-set ([Store]); and leases that one holder at a
// time has ([Lease]). A [Backend] is all three.
//
// The runtime keeps which entities to remember in a Store (Remembering.Store) and
// guards singletons and the downing by a Lease. store/memory is a store inside the
// process, for tests. Others are written by users, and pass the suite
// store/conformance.
//
// # Shards
//
// Who holds a shard writes its log, and nobody else can. The home claims the shard
// by two writes: it replaces the head ([Records.SetHead] at the revision that it
// read), and appends a claim of its own to the log with [Any]. From the first on no
// record changes under the former home, whose [Records.Put] names the former head's
// revision; from the second on the former home's appends are refused, since each
// names the position of the one before. Then it reads the log from the head's Since
// to its own claim. Neither write can be overtaken by one that the former home had
// on its way.
//
// Reads may be stale, so a record counts only together with the head, and only from
// a replica that has the home's own last write: [Records.Get] takes the revision
// that it must have seen.
//
// The log holds what was written since the last checkpoint, the records all that
// is older. Head.Since says from where the log is needed, and the store trims what
// no head needs.
//
// # What to build on
//
// A read may be stale, so nothing is decided by one: read, decide, and let
// [Store.Put] with the revision that was read say whether it still holds. A
// write ends in one of five ways:
//
//	nil             applied
//	ErrConflict     not applied: another revision or position is there
//	ErrBusy         not applied: the same may be tried again
//	ErrUnavailable  not applied: nothing was sent
//	ErrUncertain    applied, not applied, or applied later
//
// After ErrUncertain the same Put may be tried again. If it conflicts the write
// that stands may be the caller's own: who must know puts something of its own
// into the value, reads, and compares.
//
// # Leases and clocks
//
// Processes agree on no clock. Who wants a lease waits for TTL plus [Margin],
// counted on a monotonic clock of the candidate's side (the process itself, or
// the store) since it last saw a renewal; a holder stops TTL less Margin after it
// sent the last renewal that was answered. So clocks may differ in their rates by
// almost a tenth, and a lease never has two holders that both keep to Held.Until.
// (A margin for clocks is from Gray and Cheriton, "Leases", SOSP 1989.) Who writes
// elsewhere under a lease sends its Token along, because a process may be stopped
// between the check and the write.
//
// # Testing
//
// store/memory is all of it, in one process, with faults that a test commands or
// draws by a seed. It reads time by package time, so it runs in a testing/synctest
// bubble, or by the clock of a simulation.
package store
