package splitbrain

// autoDown downs members that were missed for long enough, on every side. It breaks the promise of
// [Quorum] that two sets share a voter: Down members lose their vote at once, so every side becomes
// a cluster of its own. One protection remains: a single node that stood still has no majority in
// its own view, so it runs no turns before it learns of the decision.
type autoDown struct{}

func (autoDown) Decide(Split) Verdict { return GoOn }

func (autoDown) Quorum(v Electorate) Quorum { return keepMajority{}.Quorum(v) }
