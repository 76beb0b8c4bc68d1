// Package placement says where shards live: shard numbers, epochs, coordinator
// terms, and the table that every process of a cluster holds. It is pure data:
// no goroutine, no clock, no I/O. The coordinator writes the table, regions and
// outside clients read it, and differences travel between them as [Diff].
//
// Three orders decide who is right when messages are late:
//
//   - A [Term] orders coordinators. Who has heard of a higher term refuses
//     everything of a lower one.
//   - A [Version] orders the tables of all coordinators: by term, then by the
//     number of the change.
//   - An [Epoch] orders the owners of one shard. Each owner has its own, also
//     when the same node owns the shard again.
//
// Within one term the epoch of a shard only grows. Across a change of
// coordinator a table may show a lower epoch than the one before it, of the same
// owner, when the old coordinator had told some processes of a new epoch but not
// the owner, and died. The table of the higher version is right: an epoch whose
// term is below that of the reader's table and which the table does not show is
// past, even if its number is higher.
package placement
