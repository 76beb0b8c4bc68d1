package splitbrain

// autoDown downs whoever was missed for long enough, on every side. It breaks
// the promise of [quorum] that two sets share a voter: Down members lose their
// vote at once, so every side becomes a whole of its own. What remains is that a
// single node that stood still has no majority of those it knows, and so runs no
// turns before it is told.
type autoDown struct{}

func (autoDown) Decide(Split) Verdict { return GoOn }

func (autoDown) Quorum(v Electorate) Quorum { return keepMajority{}.Quorum(v) }
