package membership

import (
	"time"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// Who collects votes follows from the view: the first full members on the ring
// that can be reached. They are the same for all, and lie anywhere: members of one
// rack, named in a row, are not the collectors together.
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
	// voteInterval is the time in which a member sends one vote to each collector.
	voteInterval = 3 * time.Second
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

// walk takes the candidates from the view, and keeps what is known of them.
func (v *voting) walk(g *gossip.State, f *gossip.Local) {
	if v.chosen == f.Summary {
		return
	}
	v.chosen = f.Summary
	old := v.collectors
	v.collectors = nil
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
		v.collectors = append(v.collectors, c)
		return len(v.collectors) < maxCollectors
	})
}

// mute reports whether a collector is to be passed over, and if not, when it will be.
// While own echoes do not return no answer could.
func (m *Machine) mute(c *collector) (mute bool, at time.Time) {
	if c.asked.IsZero() || !m.echoAlive() {
		return false, time.Time{}
	}
	if p := m.detect.peers[c.node]; p != nil && !p.absent.IsZero() {
		return true, time.Time{}
	}
	at = c.asked.Add(collectorMute)
	return !m.now.Before(at), at
}

// inUse are the collectors that this node votes at: the first three that answer,
// and those before them, which may answer again.
func (m *Machine) inUse() []collector {
	v, answering := &m.voting, 0
	for i := range v.collectors {
		mute, at := m.mute(&v.collectors[i])
		if mute {
			continue
		}
		if !at.IsZero() {
			m.wakeAt(at)
		}
		if answering++; answering == collectors {
			return v.collectors[:i+1]
		}
	}
	return v.collectors
}

// forgive takes nobody for mute until it is asked again.
func (v *voting) forgive() {
	for i := range v.collectors {
		v.collectors[i].asked = time.Time{}
	}
}

// hub is the first collector that answers this node: members on one side of a cut
// have the same, mostly. Zero: there is none.
func (m *Machine) hub() transport.Address {
	for i := range m.voting.collectors {
		c := &m.voting.collectors[i]
		if !c.answered.IsZero() && m.now.Sub(c.answered) <= m.config.LeaseMajority {
			if mute, _ := m.mute(c); !mute {
				return c.node
			}
		}
	}
	return transport.Address{}
}
