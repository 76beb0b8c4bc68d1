// Package store defines the storage outside the processes: heads, logs and records of shards
// for the state of entities ([Shards]), small records with compare-and-set ([Store]), and
// leases with one holder at a time ([Lease]). A [Backend] is all three.
//
// The runtime takes one Backend, Config.Store, for all that outlives its processes: the state
// of durable entities, the ids of remembered ones, leases of singletons and of downing, and
// the coordinator's terms. store/nats is a store on JetStream, and store/memory one inside the
// process, for tests. Users may write others, which pass the suite in store/conformance.
//
// # Shards
//
// Only the home of a shard writes its log. The home claims the shard by two writes: it
// replaces the head ([Records.SetHead] at the revision that it read), and appends a claim
// of its own to the log with [Any]. After the first write no record changes under the
// former home, because its [Records.Put] names the former head's revision. After the
// second the former home's appends are refused, because each names the position of the
// one before. Then the home reads the log from the head's Since to its own claim. Neither
// write can be overtaken by one of the former home that was on its way.
//
// Reads may be stale, so a record counts only together with the head, and only from a replica
// with the home's last write. [Records.Get] takes the revision that the replica must have.
//
// The log holds the writes since the last checkpoint, and the records everything older. The
// log is needed from Head.Since on; the store trims appends below all heads.
//
// # Reads and writes
//
// A read may be stale, so no decision may rest on a read alone: read, decide, and call
// [Store.Put] with the revision of the read. Put fails if the record has changed since. A
// write ends in one of five ways:
//
//	nil             applied
//	ErrConflict     not applied: another revision or position is there
//	ErrBusy         not applied: the same may be tried again
//	ErrUnavailable  not applied: nothing was sent
//	ErrUncertain    applied, not applied, or applied later
//
// After ErrUncertain the same Put may be tried again. If it then conflicts, the record may
// be the caller's own. A caller that must know puts something of its own into the value,
// reads, and compares.
//
// # Leases and clocks
//
// Processes agree on no clock. A process that wants a lease waits for TTL plus [Margin]
// since it last saw a renewal, counted on a monotonic clock of its side (the process
// itself, or the store). A holder stops TTL less Margin after it sent the last renewal that
// was answered. So clocks may differ in their rates by almost a tenth, and a lease never
// has two holders that both keep to Held.Until. (A margin for clocks is from Gray and
// Cheriton, "Leases", SOSP 1989.) A holder that writes elsewhere under a lease sends its
// Token along, because a process may be stopped between the check and the write.
//
// # Testing
//
// store/memory implements all of it, in one process, with faults that a test commands or
// draws by a seed. It reads time by package time, so it runs in a testing/synctest
// bubble, or by the clock of a simulation.
package store
