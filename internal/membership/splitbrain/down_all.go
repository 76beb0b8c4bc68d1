package splitbrain

// downAll lets nobody go on: for those who would rather start everything anew
// than guess. As no side wins, turns may run by majority until all have stopped.
type downAll struct{}

func (downAll) Decide(Split) Verdict { return StopAll }

func (downAll) Quorum(v Electorate) Quorum { return keepMajority{}.Quorum(v) }
