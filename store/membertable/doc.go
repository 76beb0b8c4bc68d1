// Package membertable defines the membership table of a cluster: a row for each member, and one
// version for all rows, in a storage outside the members. Members read the table to find each
// other, and write to it who joined, who is suspected and who is dead. The design is that of the
// cluster membership of Microsoft Orleans and its IMembershipTable.
//
// store/nats and store/memory have a table for each cluster ([Provider]). The modules
// store/membertable/postgres and store/membertable/etcd have further tables. Users may write their
// own, which must pass the suite in store/membertable/conformance; docs/guide/member-table.md shows
// how.
//
// # One version
//
// Each [Table.Write] and [Table.Delete] names the version that its caller has read, changes the
// rows and raises the version, all in one atomic step. If the version has changed, nothing is
// written, and the error is [store.ErrConflict]. So writes are serialized, all readers see the same
// sequence of states of the table, and a version names one state. A process that stops for a minute
// between reading and writing, or whose request is delayed for as long, cannot overwrite what
// others wrote meanwhile, since the version that it names never returns.
//
// [Table.Alive] does not take part in this: it changes no version, and a member calls it only for
// its own row.
//
// # Lost answers
//
// After [store.ErrUncertain] the write was applied, or not, or will be applied later. So the caller
// reads the table. If the version is still the one that the write named, the caller tries the same
// write again: at most one of the two is applied. If the version has changed, the first write can
// never be applied any more, and the rows show whether it was.
//
// # Stale reads
//
// A read returns a state that the table has had: the rows of one version. It may be out of date,
// even older than what an earlier read returned, so a reader keeps the highest version that it has
// seen. No decision rests on a read alone, because the write that follows names the version.
package membertable
