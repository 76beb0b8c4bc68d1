package splitbrain

// staticQuorum lets a side of a fixed size go on. The leader lets no more than 2*size-1
// voters up, so no two sides have the size, and the quorum for turns is the same as that
// for going on. If there are more nevertheless, because members have different settings,
// all stop, because no side can be sure to be the only one.
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

// most returns the largest number of voters.
func (q staticQuorum) most() int { return 2*q.size - 1 }

func (q staticQuorum) Quorum(v Electorate) Quorum {
	// If there are too many voters, the quorum is more than half of them.
	return Quorum{voters: v.Voters, Need: max(q.size, MajorityOf(len(v.Voters)))}
}
