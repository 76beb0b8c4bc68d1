// Package listing lists the ids of a type's entities. [Best] chooses the ids of a page at a shard's
// home, and [List] merges the pages of all shards at the caller's process.
package listing
