// Package placement describes where shards live: shard numbers, epochs, coordinator terms, the
// table held by every process of a cluster, and the strategies for choosing homes. It is pure: no
// goroutine, no clock, no I/O. The coordinator writes the table, regions and clients read it, and
// differences travel between them as [Diff].
//
// Three orders decide which of two messages is out of date:
//
//   - A [Term] orders coordinators. A process that knows a higher term refuses
//     messages of lower terms.
//   - A [Version] orders the tables of all coordinators: by term, then by the number of the
//     change.
//   - An [Epoch] orders the homes of one shard. Each new home gets a higher epoch, also a
//     node that was the home before.
//
// Within one term the epoch of a shard only grows. A new coordinator's first table may show a lower
// epoch, of the same home, than the previous table: the old coordinator may have died after sending
// a new epoch to some processes but not to the home. The table of the higher version is right. So
// an epoch whose term is below that of the reader's table is outdated, even if its number is
// higher, unless the table shows this epoch.
package placement
