package splitbrain

// leaseMajority lets the side go on that takes a lease. The larger one asks
// first, so that it mostly wins; the smaller one wins when the larger is dead or
// cannot reach the lease.
//
// Enough for turns is more than half of the voters. So a small side that goes on
// has no voter among the others, and cannot know from votes when those have
// stopped. It knows by time: see LeaseHold of package lease.
type leaseMajority struct{}

func (leaseMajority) Decide(s Split) Verdict {
	switch {
	case s.Votes() == 0:
		return Stop
	case s.Majority():
		return AskFirst
	}
	return AskLater
}

func (leaseMajority) Quorum(v Electorate) Quorum { return keepMajority{}.Quorum(v) }
