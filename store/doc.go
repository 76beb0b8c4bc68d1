// Package store defines the interfaces of the storage outside the processes. [Shards] keeps the
// state of entities, as a head, a log and records for each shard. [Store] keeps small records, with
// compare-and-set. [Lease] grants leases, each to one holder at a time. A [Backend] has all three.
//
// The runtime takes one Backend, Config.Store, for all that outlives its processes: the state of
// durable entities, the ids of remembered entities, leases of singletons and of downing, and the
// coordinator's terms. store/nats is a store on JetStream, and store/memory one inside the process,
// for tests. Users may write their own, which must pass the suite in store/conformance.
//
// # Shards
//
// Only the home of a shard writes the shard's log. A shard's head is a small record that names the
// home. A new home claims the shard by two writes: it replaces the head ([Records.SetHead] at the
// revision that it read), and appends a claim to the log with [Any]. After the first write the
// former home can change no record, because its [Records.Put] names the former head's revision.
// After the second write the former home's appends are refused, because each names the position of
// the append before. So even delayed writes of the former home have no effect. Then the new home
// reads the log from the head's Since to its own claim.
//
// Reads may be stale. So the home uses a record only together with the head, and only from a
// replica that has the home's last write: [Records.Get] takes the revision required of the replica.
//
// The log has the writes since the last checkpoint, and the records have all older state. The log
// is needed from Head.Since on; [Logs.Trim] lets the store remove appends before that.
//
// # Reads and writes
//
// A read may be stale, so do not act on a read alone: read, decide, and call [Store.Put] with the
// revision that was read. Put fails if the record has changed since. A write with valid arguments
// ends in one of five ways:
//
//	nil             applied
//	ErrConflict     not applied: another revision or position is there
//	ErrBusy         not applied: the same write may be tried again
//	ErrUnavailable  not applied: nothing was sent
//	ErrUncertain    applied, not applied, or applied later
//
// After ErrUncertain the same Put may be tried again. If that Put fails with ErrConflict, the first
// one may have written the record. A caller that must know includes a unique mark in the value,
// reads the record, and looks for the mark.
//
// # Leases and clocks
//
// Processes share no clock. A process that wants a lease waits until TTL plus [Margin] has passed
// since it last saw a renewal, by the monotonic clock of the process or of the store. A holder
// stops TTL less Margin after it sent the last renewal that was answered. So even if the rates of
// clocks differ by almost a tenth, a lease never has two holders, if both obey Held.Until. (A
// margin for clocks is from Gray and Cheriton, "Leases", SOSP 1989.) A holder that writes to
// another system must send its Token with the write, because a process may pause between the check
// of its lease and the write.
//
// # Testing
//
// store/memory implements a Backend in one process, with faults that a test sets or draws at random
// by a seed. It uses package time, so it runs in a testing/synctest bubble, or the clock of a
// simulation.
package store
