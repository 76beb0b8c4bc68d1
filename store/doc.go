// Package store says what shardgen needs of a place that outlives processes:
// small records with compare-and-set ([Store]), and leases that one holder at a
// time has ([Lease]). The runtime keeps which entities to remember
// in a Store (Remembering.Store) and guards singletons by a Lease (Singleton.Lease).
// It keeps nothing else there: neither membership, nor the coordinator's table, nor
// the state of entities. The one adapter that comes with the module is
// store/memory, for tests in one process; it does not survive its process. Others
// are written by users, and pass the suite store/conformance.
//
// # What to build on
//
// A read may be stale, so nothing is decided by one: read, decide, and let
// [Store.Put] with the revision that was read say whether it still holds. A
// write ends in one of four ways:
//
//	nil             applied
//	ErrConflict     not applied: another revision is there
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
// store/memory is both, in one process, with faults that a test commands. It
// reads time by package time, so it runs in a testing/synctest bubble.
package store
