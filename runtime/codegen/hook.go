package codegen

// An Activation is the reason that OnActivate gets for the activation of its entity.
type Activation int

// The reasons of an activation.
const (
	// Fresh: the entity has no state; it is as the factory made it.
	Fresh Activation = iota
	// Reactivated: it was passivated on this node and called again.
	Reactivated
	// Moved: its shard came from another node and brought its state.
	Moved
	// Recovered: it is of a durable type, and its state comes from the store. Its node
	// or all nodes may have ended since, its shard may have moved, or it has rested.
	Recovered
)

// String names the activation.
func (a Activation) String() string {
	switch a {
	case Fresh:
		return "fresh"
	case Reactivated:
		return "reactivated"
	case Moved:
		return "moved"
	case Recovered:
		return "recovered"
	}
	return "unknown"
}

// A Passivation is the reason that OnPassivate gets for the end of its entity in memory.
type Passivation int

// The reasons of a passivation.
const (
	// Idle: nobody called it for the idle time of its type, or it asked for it.
	Idle Passivation = iota
	// Moving: its shard moves to another node.
	Moving
	// Stopping: its node shuts down and no other takes the shard.
	Stopping
	// Forgotten: it was ended for good, and its state is dropped.
	Forgotten
)

// String names the passivation.
func (p Passivation) String() string {
	switch p {
	case Idle:
		return "idle"
	case Moving:
		return "moving"
	case Stopping:
		return "stopping"
	case Forgotten:
		return "forgotten"
	}
	return "unknown"
}
