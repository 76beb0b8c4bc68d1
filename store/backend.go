package store

// A Backend stores everything a cluster needs in one place.
type Backend interface {
	Store
	Lease
	// Shards returns the part that keeps the state of entities, always the same.
	Shards() Shards
}
