// Package placement describes where shards live: shard numbers, epochs, coordinator terms, the
// table held by every process of a cluster, and the strategies for choosing homes. It is pure: no
// goroutine, no clock, no I/O. The coordinator writes the table, regions and clients read it, and
// differences travel between them as [Diff].
//
// Three orders decide which of two messages is right when one is late:
//
//   - A [Term] orders coordinators. A process that has heard of a higher term refuses
//     everything of a lower one.
//   - A [Version] orders the tables of all coordinators: by term, then by the number of the
//     change.
//   - An [Epoch] orders the homes of one shard. Each new home gets a higher one, also a
//     node that was the home before.
//
// Within one term the epoch of a shard only grows. Across a change of coordinator a table
// may show a lower epoch than the one before it, of the same home, if the old coordinator
// had sent a new epoch to some processes but not to the home, and died. The table of the
// higher version is right: an epoch is outdated, even if its number is higher, if its term is
// below that of the reader's table and the table does not show it.
package placement
