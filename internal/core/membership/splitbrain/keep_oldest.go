package splitbrain

import "github.com/shardgen/shardgen/transport"

// keepOldest lets the side with the oldest member go on, even if it is the smaller side. If the
// oldest member is alone on its side, all others go on instead, unless the field alone is set.
//
// A node may run turns if more than half of the voters, among them the oldest, vouch for it, or if
// all voters except the oldest do. Requiring a majority keeps this safe while nodes disagree about
// which member is the oldest. A small side with the oldest member runs turns again when all others
// are fenced.
type keepOldest struct{ alone bool }

func (k keepOldest) Decide(s Split) Verdict {
	if len(s.Voters) == 0 {
		return Stop
	}
	// Of two voters, the other one is alone too, so the oldest wins.
	lonely := !k.alone && len(s.Voters) > 2
	switch {
	case s.holdsOldest() && (!lonely || s.Votes() > 1):
		return GoOn
	case lonely && len(s.Oldest) == 1 && !s.holdsOldest() && s.Votes() == len(s.Voters)-1:
		return GoOn
	}
	return Stop
}

func (k keepOldest) Quorum(v Electorate) Quorum {
	q := Quorum{voters: v.Voters, Need: MajorityOf(len(v.Voters)), anchors: v.Oldest}
	if !k.alone && len(v.Voters) > 2 && len(v.Oldest) == 1 {
		q.spare = v.Oldest[0]
	}
	if len(v.Oldest) == 0 {
		q.anchors = []transport.Address{{}} // nobody: no set is enough
	}
	return q
}
