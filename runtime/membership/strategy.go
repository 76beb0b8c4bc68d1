package membership

import (
	"slices"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// A strategy is a way of downing as pure functions of who there is.
type strategy interface {
	// decide judges a split whose time has come, as one of this side.
	decide(s split) verdict
	// quorum says who must count on a node for it to run turns. Every side for
	// which decide says goOn has a voter in each set that is enough: else what it
	// downs would run on.
	quorum(v electorate) quorum
}

// An electorate is who has a vote, in the eyes of one node.
type electorate struct {
	// voters by address: Up and Leaving members, and the Down ones that may still
	// run; with a role only those that have it.
	voters []transport.Address
	// oldest are the oldest of the voters: of those of the last view that this node
	// knows to have converged, and of those that it knows now. They are two only
	// while the oldest leaves. Who asks for both cannot be answered yes by a side
	// that knows less and by one that knows more.
	oldest []transport.Address
}

// A split is what one side of a partition, or of what looks like one, knows.
type split struct {
	electorate
	side []transport.Address // who is on this side, this node included, by address
}

// votes is how many voters are on this side.
func (s split) votes() int {
	n := 0
	for _, node := range s.voters {
		if gossip.HasAddress(s.side, node) {
			n++
		}
	}
	return n
}

// holdsOldest tells whether the oldest are on this side.
func (s split) holdsOldest() bool {
	return len(s.oldest) > 0 && !slices.ContainsFunc(s.oldest, func(a transport.Address) bool { return !gossip.HasAddress(s.side, a) })
}

// majority tells whether this side has more than half of the voters, or half of
// them and the oldest.
func (s split) majority() bool {
	return 2*s.votes() > len(s.voters) || 2*s.votes() == len(s.voters) && s.holdsOldest()
}

// A verdict is what a side of a split has to do.
type verdict uint8

const (
	// wait: nothing yet.
	wait verdict = iota
	// goOn: this side downs the others.
	goOn
	// stop: this side stops.
	stop
	// stopAll: everybody stops.
	stopAll
	// askFirst and askLater: what a lease says that this side asks for, now or
	// after MinorityDelay.
	askFirst
	askLater
)

// String names the verdict.
func (v verdict) String() string {
	return [...]string{"wait", "go on", "stop", "stop all", "ask first", "ask later"}[v]
}

// strategyOf makes the way of downing that is configured.
func strategyOf(c Config) strategy {
	switch c.Downing {
	case DowningStaticQuorum:
		return staticQuorum{size: c.QuorumSize}
	case DowningKeepOldest:
		return keepOldest{alone: c.KeepOldestAlone}
	case DowningAll:
		return downAll{}
	case DowningLeaseMajority:
		return leaseMajority{}
	case DowningAuto:
		return autoDown{}
	case DowningBroker, DowningByHand, DowningKeepMajority:
	}
	return keepMajority{}
}
