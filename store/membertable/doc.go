// Package membertable defines the membership table: the rows of a cluster's members in a
// storage outside of them, with one version for all rows. Members read it to find each other,
// and write to it who joined, who is suspected and who is dead. The design is that of the
// cluster membership of Microsoft Orleans and its IMembershipTable.
//
// store/nats and store/memory have a table for each cluster ([Provider]). The modules
// store/membertable/postgres and store/membertable/etcd are others. Users may write more, which
// pass the suite in store/membertable/conformance; docs/guide/member-table.md shows how.
//
// # One version
//
// Each [Table.Write] and [Table.Delete] names the version that its caller has read, changes the
// rows and raises the version, all in one atomic step. If the version has changed, nothing is
// written, and the error is [store.ErrConflict]. So writes are serialized, all readers see the same
// sequence of tables, and a version names one of them. A process that stops for a minute between
// reading and writing, or whose request is delayed for as long, cannot overwrite what others wrote
// meanwhile, since the version that it names never returns.
//
// [Table.Alive] is outside of this: it changes no version, and only one process writes it.
//
// # Lost answers
//
// After [store.ErrUncertain] the write was applied, or not, or will be applied later. So the caller
// reads the table. If the version is still the one that it named, it tries the same write again: of
// the two at most one is applied. If the version has changed, the late write can never be applied
// any more, and the rows show whether it was.
//
// # Stale reads
//
// A read is a table that existed: its rows are those of its version. It may be out of date,
// also relative to an earlier read, so a reader keeps the highest version that it has seen. No
// decision rests on a read alone, because the write after it names the version.
package membertable
