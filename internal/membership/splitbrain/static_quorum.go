package splitbrain

// staticQuorum lets a side of a fixed size go on. The leader lets no more than 2*size-1
// voters up, so no two sides have the size, and the quorum for turns is the same as that
// for going on. Too many nevertheless, which takes members of other settings: all stop,
// as no side can know.
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

// most is how many voters there may be.
func (q staticQuorum) most() int { return 2*q.size - 1 }

func (q staticQuorum) Quorum(v Electorate) Quorum {
	// More than half, should there be too many.
	return Quorum{voters: v.Voters, Need: max(q.size, MajorityOf(len(v.Voters)))}
}
