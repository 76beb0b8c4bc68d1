package membership

// staticQuorum lets a side of a fixed size go on. The leader lets no more than
// 2*size-1 voters up, so no two sides have the size, and what is enough for
// turns is the same as what is enough to go on. Too many nevertheless, which
// takes members of other settings: all stop, as no side can know.
type staticQuorum struct{ size int }

func (q staticQuorum) decide(s split) verdict {
	switch {
	case len(s.voters) > q.most():
		return stopAll
	case s.votes() >= q.size:
		return goOn
	}
	return stop
}

// most is how many voters there may be.
func (q staticQuorum) most() int { return 2*q.size - 1 }

func (q staticQuorum) quorum(v electorate) quorum {
	// More than half, should there be too many.
	return quorum{voters: v.voters, need: max(q.size, majorityOf(len(v.voters)))}
}
