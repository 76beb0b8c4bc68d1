// Package singleton keeps one instance of something on the oldest member of a
// cluster, as a pure core. The shard coordinator runs on it.
package singleton
