package core

// A Refusal is the reason why a received message was not accepted. Drivers count refusals: a few
// are normal, and many indicate a node that does not belong to the cluster.
type Refusal uint8

// The reasons for refusing a message.
const (
	// NotRefused means that the message was accepted.
	NotRefused Refusal = iota
	// RefusedTarget means that the message is for another incarnation of this node.
	RefusedTarget
	// RefusedCluster means that the sender's cluster has another founder.
	RefusedCluster
	// RefusedOutcast means that the sender is Down or removed; this node has informed it.
	RefusedOutcast
	// RefusedUnreachable means that the sender is unreachable for this node.
	RefusedUnreachable
	// RefusedStranger means that the state in the message lacks its sender, or this node does not
	// know the sender, perhaps a removed one.
	RefusedStranger
	// RefusedStale means that the message was sent before this node was admitted, or has a state
	// too old to be merged.
	RefusedStale
	// RefusedLate means that the message waited too long in the driver's queue.
	RefusedLate
	// RefusedMalformed means that the content of the message is impossible.
	RefusedMalformed

	knownRefusals
)

// Refusals returns all reasons except NotRefused, in order.
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
