package codegen

// An Activation is the reason for an entity's activation, passed to OnActivate.
type Activation int

// The reasons for an activation, as OnActivate gets them.
const (
	// Fresh: the entity has no state; it is as the factory made it.
	Fresh Activation = iota
	// Reactivated: the entity, passivated on this node, was called again.
	Reactivated
	// Moved: the shard came from another node with the entity's state.
	Moved
	// Recovered: the entity is of a durable type, and its state comes from the store. Since its
	// last turn its node or all nodes may have ended, its shard may have moved, or it was idle.
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

// A Passivation is the reason for an entity's end in memory, passed to OnPassivate.
type Passivation int

// The reasons for a passivation, as OnPassivate gets them.
const (
	// Idle: the entity was not called for the idle time of its type, it asked to be passivated, or
	// more entities of the type were active than its bound allows.
	Idle Passivation = iota
	// Moving: the shard moves to another node.
	Moving
	// Stopping: the node shuts down and no other node takes the shard.
	Stopping
	// Forgotten: the entity was ended for good, and its state is dropped.
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
