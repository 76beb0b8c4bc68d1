package splitbrain

// keepMajority lets the larger half go on. DowningBroker uses it for those that
// are not gone.
//
// A set that is enough for turns has more than half of the voters. The side with
// just half and the oldest goes on too, and runs turns again once the other half
// is fenced.
type keepMajority struct{}

func (keepMajority) Decide(s Split) Verdict {
	if len(s.Voters) > 0 && s.Majority() {
		return GoOn
	}
	return Stop
}

func (keepMajority) Quorum(v Electorate) Quorum {
	return Quorum{voters: v.Voters, Need: MajorityOf(len(v.Voters))}
}
