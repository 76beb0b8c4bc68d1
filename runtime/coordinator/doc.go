// Package coordinator decides which node owns which shard, for all entity types
// of a cluster, as a pure core.
package coordinator
