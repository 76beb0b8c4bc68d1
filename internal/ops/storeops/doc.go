// Package storeops lets operators read and change the durable entities in a store without a
// cluster: it verifies, exports, imports and repairs them, and deletes the remembered ids and the
// terms of a cluster.
//
// Reading claims no shard, so nodes may run meanwhile: each entity is then exported as it was at
// some moment of the export. Writing claims shards under a new term, as a new coordinator would.
// The caller checks that no node hosts the type meanwhile.
package storeops
