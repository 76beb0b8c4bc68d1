package membership

// downAll lets nobody go on: for those who would rather start everything anew
// than guess. As no side wins, turns may run by majority until all have stopped.
type downAll struct{}

func (downAll) decide(split) verdict { return stopAll }

func (downAll) quorum(v electorate) quorum { return keepMajority{}.quorum(v) }
