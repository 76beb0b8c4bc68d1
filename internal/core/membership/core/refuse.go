package core

// A Refusal is the reason why a message was not obeyed. Drivers count refusals: a few
// are normal, and many indicate a node that does not belong to the cluster.
type Refusal uint8

// The refusals.
const (
	// NotRefused means that the message was accepted.
	NotRefused Refusal = iota
	// RefusedTarget means that it is for another incarnation of this node.
	RefusedTarget
	// RefusedCluster means that its sender's cluster has another founder.
	RefusedCluster
	// RefusedOutcast means that its sender is Down or removed; the sender was
	// informed.
	RefusedOutcast
	// RefusedUnreachable means that its sender is unreachable for this node.
	RefusedUnreachable
	// RefusedStranger means that the sender is not in its own state, or is unknown here and may
	// have been removed.
	RefusedStranger
	// RefusedStale means that it was sent before this node was admitted, or its state is too old to
	// be merged.
	RefusedStale
	// RefusedLate means that it waited too long in the driver's queue.
	RefusedLate
	// RefusedMalformed means that its content is impossible.
	RefusedMalformed

	knownRefusals
)

// Refusals returns all reasons, in order.
func Refusals() []Refusal {
	var all []Refusal
	for r := NotRefused + 1; r < knownRefusals; r++ {
		all = append(all, r)
	}
	return all
}

var refusalNames = [knownRefusals]string{
	NotRefused: "not refused", RefusedTarget: "for another incarnation", RefusedCluster: "from another cluster",
	RefusedOutcast: "from a removed node", RefusedUnreachable: "from an unreachable node", RefusedStranger: "from a stranger",
	RefusedStale: "from before this node joined, or too old", RefusedLate: "waited too long", RefusedMalformed: "malformed",
}

// String returns the name of the reason.
func (r Refusal) String() string {
	if r < knownRefusals {
		return refusalNames[r]
	}
	return "unknown"
}
