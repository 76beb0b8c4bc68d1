// Package feeds reads streams for durable entities. A [Feed] belongs to one call of shard.Consume. It
// reads the partitions that have their home at this process, each with a reader of its own. A reader
// keeps its position in the store, in a small record that it writes about once a second.
//
// Nothing depends on a partition being read by one process only: receivers know each message by its
// number. The record may also be too old. Messages are then sent again, but receivers do not apply
// them twice.
package feeds
