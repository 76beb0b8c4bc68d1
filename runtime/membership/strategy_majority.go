package membership

// keepMajority lets the larger half go on. DowningBroker uses it for those that
// the broker does not prove dead.
//
// A set that is enough for turns has more than half of the voters. The side with
// just half and the oldest goes on too, and runs turns again once the other half
// is fenced.
type keepMajority struct{}

func (keepMajority) decide(s split) verdict {
	if len(s.voters) > 0 && s.majority() {
		return goOn
	}
	return stop
}

func (keepMajority) quorum(v electorate) quorum {
	return quorum{voters: v.voters, need: majorityOf(len(v.voters))}
}
