package membership

import "github.com/shardgen/shardgen/transport"

// keepOldest lets the side with the oldest member go on, which may be a small
// one, or all the others if the oldest is alone.
//
// Enough for turns is more than half with the oldest, or all but the oldest. The
// oldest alone would do for the proof that two sets share a voter; that it takes
// more keeps turns safe also while nodes differ about who is the oldest. A small
// side with the oldest runs turns again once the others are fenced, which is
// soon: without the oldest they have no set that is enough.
type keepOldest struct{ alone bool }

func (k keepOldest) decide(s split) verdict {
	if len(s.voters) == 0 {
		return stop
	}
	// Of two, the other is as alone as the oldest.
	lonely := !k.alone && len(s.voters) > 2
	switch {
	case s.holdsOldest() && (!lonely || s.votes() > 1):
		return goOn
	case lonely && len(s.oldest) == 1 && !s.holdsOldest() && s.votes() == len(s.voters)-1:
		return goOn
	}
	return stop
}

func (k keepOldest) quorum(v electorate) quorum {
	q := quorum{voters: v.voters, need: majorityOf(len(v.voters)), anchors: v.oldest}
	if !k.alone && len(v.voters) > 2 && len(v.oldest) == 1 {
		q.spare = v.oldest[0]
	}
	if len(v.oldest) == 0 {
		q.anchors = []transport.Address{{}} // nobody: no set is enough
	}
	return q
}
