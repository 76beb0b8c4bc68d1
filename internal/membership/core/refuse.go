package core

// A Refusal is why a message was not obeyed. Drivers count them: a few are the
// ordinary course of things, many are a sign of a node that should not be there.
type Refusal uint8

// The refusals.
const (
	// NotRefused: the message was taken.
	NotRefused Refusal = iota
	// RefusedTarget: it is for another incarnation of this node.
	RefusedTarget
	// RefusedCluster: its sender's cluster has another founder.
	RefusedCluster
	// RefusedOutcast: its sender is Down or removed; it was told so.
	RefusedOutcast
	// RefusedUnreachable: this node holds its sender unreachable.
	RefusedUnreachable
	// RefusedStranger: its sender is not in the state that it sent.
	RefusedStranger
	// RefusedStale: it is from before this node was admitted.
	RefusedStale
	// RefusedLate: it waited too long in the driver's queue.
	RefusedLate
	// RefusedMalformed: its content is impossible.
	RefusedMalformed

	knownRefusals
)

// Refusals are all reasons, in order.
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
	RefusedStale: "from before this node joined", RefusedLate: "waited too long", RefusedMalformed: "malformed",
}

// String names the reason.
func (r Refusal) String() string {
	if r < knownRefusals {
		return refusalNames[r]
	}
	return "unknown"
}
