package gossip

// Evidence is the reason why an observer cannot reach a member. A higher value is
// stronger.
type Evidence uint8

// The kinds of evidence.
const (
	// NoEvidence means that the member is reachable.
	NoEvidence Evidence = iota
	// EvidenceSilent means that the member does not answer, and the broker does not
	// report why.
	EvidenceSilent
	// EvidenceCut means that the broker knows of no subscription of the member, but
	// the member was last connected to another server than the observer: the route
	// between the servers may be broken, and the member alive.
	EvidenceCut
	// EvidenceGone means that the broker server of both the member and the observer has lost the
	// member's connection.
	EvidenceGone
)

// String returns the name of the evidence.
func (e Evidence) String() string {
	switch e {
	case NoEvidence:
		return "none"
	case EvidenceSilent:
		return "silent"
	case EvidenceCut:
		return "cut"
	case EvidenceGone:
		return "gone"
	}
	return "unknown"
}
