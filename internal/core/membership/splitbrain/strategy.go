package splitbrain

import (
	"slices"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

// A Strategy decides a split, as pure functions of the voters and of one side.
type Strategy interface {
	// Decide returns the verdict of one side on a split that is due to be judged.
	Decide(s Split) Verdict
	// Quorum returns the sets of voters that must vouch for a node for it to run turns. Every side
	// for which Decide returns GoOn has a voter in each of these sets. Otherwise the members that
	// it downs would go on running turns.
	Quorum(v Electorate) Quorum
}

// An Electorate is the members with a vote, as one node knows them.
type Electorate struct {
	// Voters are the Up and Leaving members, and the Down ones that may still run turns, by
	// address. If DowningRole is set, only members with that role vote. Of the members that came Up
	// since the last converged view, a side counts only those of the other side.
	Voters []transport.Address
	// Oldest are the oldest voter of the last converged view known to this node, and the oldest of
	// the present voters. They differ only while the oldest leaves. A side must have both to win.
	// Otherwise two sides could both win, if one of them has an older view.
	Oldest []transport.Address
}

// A Split is one side of a partition, which may be only apparent.
type Split struct {
	Electorate
	Side []transport.Address // the members on this side, this node included, by address
}

// Votes returns the number of voters on this side.
func (s Split) Votes() int {
	n := 0
	for _, node := range s.Voters {
		if gossip.HasAddress(s.Side, node) {
			n++
		}
	}
	return n
}

func (s Split) holdsOldest() bool {
	return len(s.Oldest) > 0 && !slices.ContainsFunc(s.Oldest, func(a transport.Address) bool { return !gossip.HasAddress(s.Side, a) })
}

// Majority reports whether this side has more than half of the voters, or half of
// them and the oldest.
func (s Split) Majority() bool {
	return 2*s.Votes() > len(s.Voters) || 2*s.Votes() == len(s.Voters) && s.holdsOldest()
}

// A Verdict is the decision of a side of a split.
type Verdict uint8

// The verdicts of a [Strategy].
const (
	Wait     Verdict = iota // do nothing yet
	GoOn                    // this side downs the others
	Stop                    // this side stops
	StopAll                 // all members stop
	AskFirst                // take the lease, and go on if it is taken
	AskLater                // like AskFirst, but after MinorityDelay
)

// String returns the name of the verdict.
func (v Verdict) String() string {
	return [...]string{"wait", "go on", "stop", "stop all", "ask first", "ask later"}[v]
}

// MostVoters returns the maximum of voters that a strategy allows; bounded is false if it allows
// any number.
func MostVoters(s Strategy) (most int, bounded bool) {
	q, ok := s.(staticQuorum)
	return q.most(), ok
}

// autoDown lets every side down the members of the other sides. The downed members lose their vote
// at once, so two sides may run turns at once, which [Quorum] should prevent. autoDown is safe only
// if just one node was paused: that node lacks a majority in its own view, and runs no turns before
// it learns that it is down.
type autoDown struct{}

func (autoDown) Decide(Split) Verdict { return GoOn }

func (autoDown) Quorum(v Electorate) Quorum { return keepMajority{}.Quorum(v) }

// downAll lets no side go on. A side with a majority may run turns until all its members have
// stopped.
type downAll struct{}

func (downAll) Decide(Split) Verdict { return StopAll }

func (downAll) Quorum(v Electorate) Quorum { return keepMajority{}.Quorum(v) }

// keepMajority lets the larger half go on. DowningBroker uses it for members that are not gone.
//
// A node runs turns if more than half of the voters vouch for it. A side with just half and the
// oldest goes on too, and runs turns once the other half is fenced.
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

// leaseMajority lets the side that takes a lease go on. The larger side asks first, so it usually
// wins.
//
// A node runs turns if more than half of the voters vouch for it. If a smaller side takes the
// lease, it does not learn from votes when the turns of the others have ended. So it first waits:
// see LeaseHold of package lease.
type leaseMajority struct{}

func (leaseMajority) Decide(s Split) Verdict {
	switch {
	case s.Votes() == 0:
		return Stop
	case s.Majority():
		return AskFirst
	}
	return AskLater
}

func (leaseMajority) Quorum(v Electorate) Quorum { return keepMajority{}.Quorum(v) }
