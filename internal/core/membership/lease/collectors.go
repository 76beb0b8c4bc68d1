package lease

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/detector"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

// The collectors of votes follow from the view: the first reachable full members on the ring. All
// members choose the same ones. If fewer than three are reachable, unreachable ones follow: when a
// partition ends, accusations of the other side may make all members unreachable. The ring spreads
// collectors over the cluster: members of one rack, which have consecutive names, are not all of
// the collectors.
//
// A partition may cut off all collectors before the view shows it. Then each member skips the
// collectors that do not answer, until three answer. All members on one side of the partition skip
// the same ones, and so meet at the same collectors again. That takes some seconds; leases outlast
// it if one of the three is on their side.

const (
	// collectors is the number of members that collect votes. With more than one, leases survive a
	// collector's death.
	collectors = 3
	// maxCollectors bounds the members that may collect votes. If a random majority survives, it
	// lacks all of these with probability 2^-24.
	maxCollectors = 24
	// collectorMute is how long a collector may leave a vote unanswered before it is skipped. It is
	// short compared with QuorumTimeout.
	collectorMute = 1500 * time.Millisecond
	// VoteInterval is the time between two votes of a member to one collector.
	VoteInterval = 3 * time.Second
)

type collector struct {
	node transport.Address
	due  time.Time // when to vote there; zero means never yet
	// asked is when this collector was sent the first of its unanswered votes; zero means there are
	// none.
	asked time.Time
	// answered is when this collector last answered.
	answered time.Time
}

// Collectors chooses the members to which this node sends its votes.
type Collectors struct {
	*core.Node
	Echo  *detector.Echo
	Peers *detector.Peers
	list  []collector // the members that may collect, the first to be asked first
	// chosen is the view for which list was made.
	chosen *gossip.Summary
}

func (cs *Collectors) walk() {
	g, f := cs.Gossip, cs.Local()
	if cs.chosen == f.Summary {
		return
	}
	cs.chosen = f.Summary
	old := cs.list
	cs.list = nil
	add := func(unreachable bool) {
		f.Ring.Walk(func(i int) bool {
			if !f.Full.Has(i) || (f.Evidence[i] != gossip.NoEvidence && i != f.Self) != unreachable {
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
	add(false)
	if len(cs.list) < collectors {
		add(true)
	}
}

// mute reports whether to skip a collector because it does not answer. If not, at is when it will
// count as mute, or zero if no answer is due. No collector is skipped while this node's echoes do
// not return, because then no answer could arrive.
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

// inUse returns the beginning of list up to the third collector that answers. Mute collectors
// before that one are included, because they may answer again.
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

// Forgive makes all collectors count as answering until they are asked again.
func (cs *Collectors) Forgive() {
	for i := range cs.list {
		cs.list[i].asked = time.Time{}
	}
}

// Hub returns the first collector that answers this node; zero if there is none. Members on one
// side of a partition mostly get the same hub.
func (cs *Collectors) Hub() transport.Address {
	for i := range cs.list {
		c := &cs.list[i]
		if !c.answered.IsZero() && cs.Now.Sub(c.answered) <= cs.Config.QuorumTimeout {
			if mute, _ := cs.mute(c); !mute {
				return c.node
			}
		}
	}
	return transport.Address{}
}
