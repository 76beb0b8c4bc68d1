package membership

// leaseMajority lets the side go on that takes a lease. The larger one asks
// first, so that it mostly wins; the smaller one wins when the larger is dead or
// cannot reach the lease.
//
// Enough for turns is more than half of the voters. So a small side that goes on
// has no voter among the others, and cannot know from votes when those have
// stopped. It knows by time: see leaseHold.
type leaseMajority struct{}

func (leaseMajority) decide(s split) verdict {
	switch {
	case s.votes() == 0:
		return stop
	case s.majority():
		return askFirst
	}
	return askLater
}

func (leaseMajority) quorum(v electorate) quorum { return keepMajority{}.quorum(v) }
