package durable

// State is where a shard stands.
type State uint8

// The states of a shard.
const (
	Claiming State = iota // it is claimed and recovered
	Open                  // calls may come
	Dropped               // it is not here any more, and will not be
)
