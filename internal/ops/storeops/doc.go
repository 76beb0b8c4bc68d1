// Package storeops reads and changes the durable entities in a store without a cluster, for
// operators: it verifies, exports, imports and repairs them, and deletes the remembered ids and
// the terms of a cluster.
//
// Reading claims nothing, so nodes may run meanwhile: each entity is then exported as it was
// at some moment of the export. Writing claims shards under a term of its own, as a new
// coordinator would. No node may host the type meanwhile, which the caller checks.
package storeops
