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
	// EvidenceCut means that the observer's broker server knows no subscription of the member, but
	// was not the member's last server. The route between the two servers may be broken, and the
	// member alive.
	EvidenceCut
	// EvidenceLost means that the member's last server, another one than the observer's, has told
	// the observer that it has lost the member's connection. Unlike after EvidenceGone, the member
	// may have been in touch meanwhile with members that the observer cannot reach.
	EvidenceLost
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
	case EvidenceLost:
		return "lost"
	case EvidenceGone:
		return "gone"
	}
	return "unknown"
}
