package splitbrain

// downAll lets no side go on, for clusters that should rather be restarted than split. As
// no side wins, turns may run by majority until all have stopped.
type downAll struct{}

func (downAll) Decide(Split) Verdict { return StopAll }

func (downAll) Quorum(v Electorate) Quorum { return keepMajority{}.Quorum(v) }
