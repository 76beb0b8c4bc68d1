package splitbrain

// staticQuorum lets a side with at least size votes go on. A node needs size votes to run turns.
// The leader makes at most 2*size-1 voters Up, so no two sides have size votes each. If nodes with
// different settings make more voters Up, all members stop.
type staticQuorum struct{ size int }

func (q staticQuorum) Decide(s Split) Verdict {
	switch {
	case len(s.Voters) > q.most():
		return StopAll
	case s.Votes() >= q.size:
		return GoOn
	}
	return Stop
}

// most returns the largest safe number of voters.
func (q staticQuorum) most() int { return 2*q.size - 1 }

func (q staticQuorum) Quorum(v Electorate) Quorum {
	// If there are too many voters, the quorum is more than half of them.
	return Quorum{voters: v.Voters, Need: max(q.size, MajorityOf(len(v.Voters)))}
}
