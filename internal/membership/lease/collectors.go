package lease

import (
	"time"

	"github.com/shardgen/shardgen/internal/membership/core"
	"github.com/shardgen/shardgen/internal/membership/detector"
	"github.com/shardgen/shardgen/internal/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

// The collectors of votes follow from the view: the first full members on the ring that
// can be reached. They are the same for all, and lie anywhere: members of one rack, named
// in a row, are not the collectors together.
//
// A cut may take all of them away before the view says so. Then those that do not
// answer are passed over, by each member for itself, until three answer. All on
// one side of the cut pass over the same ones, and so meet at the same collectors
// again: within some seconds, and while their leases still last if one of the three
// is on their side.

const (
	// collectors is how many members collect. One would do; if it dies, the others
	// carry the leases on.
	collectors = 3
	// maxCollectors bounds the walk. A side that is a majority has none of them
	// once in 2^24 times.
	maxCollectors = 24
	// collectorMute is after how long a vote without an answer makes its collector
	// passed over. It is short beside LeaseMajority.
	collectorMute = 1500 * time.Millisecond
	// VoteInterval is the time in which a member sends one vote to each collector.
	VoteInterval = 3 * time.Second
)

// A collector is one of those that may collect, as this node knows it.
type collector struct {
	node transport.Address
	due  time.Time // when to vote there; zero: never yet
	// asked is when the first vote was sent that it has not answered; zero: none.
	asked time.Time
	// answered is when it answered last.
	answered time.Time
}

// Collectors chooses the members at which this node votes.
type Collectors struct {
	*core.Node
	Echo  *detector.Echo
	Peers *detector.Peers
	list  []collector // the members that may collect, the first to be asked first
	// chosen is the view for which list was made.
	chosen *gossip.Summary
}

// walk takes the candidates from the view, and keeps earlier knowledge of them.
func (cs *Collectors) walk() {
	g, f := cs.Gossip, cs.Local()
	if cs.chosen == f.Summary {
		return
	}
	cs.chosen = f.Summary
	old := cs.list
	cs.list = nil
	f.Ring.Walk(func(i int) bool {
		if !f.Full.Has(i) || f.Evidence[i] != gossip.NoEvidence && i != f.Self {
			return true
		}
		c := collector{node: g.Members[i].Address}
		for _, was := range old {
			if was.node == c.node {
				c = was
			}
		}
		cs.list = append(cs.list, c)
		return len(cs.list) < maxCollectors
	})
}

// mute reports whether a collector is to be passed over, and if not, when it will be.
// While own echoes do not return no answer could.
func (cs *Collectors) mute(c *collector) (mute bool, at time.Time) {
	if c.asked.IsZero() || !cs.Echo.EchoAlive() {
		return false, time.Time{}
	}
	if p := cs.Peers.Known[c.node]; p != nil && !p.Absent.IsZero() {
		return true, time.Time{}
	}
	at = c.asked.Add(collectorMute)
	return !cs.Now.Before(at), at
}

// inUse are the collectors that this node votes at: the first three that answer,
// and those before them, which may answer again.
func (cs *Collectors) inUse() []collector {
	answering := 0
	for i := range cs.list {
		mute, at := cs.mute(&cs.list[i])
		if mute {
			continue
		}
		if !at.IsZero() {
			cs.WakeAt(at)
		}
		if answering++; answering == collectors {
			return cs.list[:i+1]
		}
	}
	return cs.list
}

// Forgive takes nobody for mute until it is asked again.
func (cs *Collectors) Forgive() {
	for i := range cs.list {
		cs.list[i].asked = time.Time{}
	}
}

// Hub is the first collector that answers this node: members on one side of a cut
// have the same, mostly. Zero: there is none.
func (cs *Collectors) Hub() transport.Address {
	for i := range cs.list {
		c := &cs.list[i]
		if !c.answered.IsZero() && cs.Now.Sub(c.answered) <= cs.Config.LeaseMajority {
			if mute, _ := cs.mute(c); !mute {
				return c.node
			}
		}
	}
	return transport.Address{}
}
