package store

// A Backend is a store that keeps all that a cluster needs in one place.
type Backend interface {
	Store
	Lease
	// Shards returns the part that keeps the state of entities, always the same.
	Shards() Shards
}
