package spread

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/lease"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// In a large cluster a member cannot push its changes to all others. It sends a change to the
// leader. The leader broadcasts the state, each receiver acknowledges it with a small status, and
// the leader broadcasts the convergence. Rounds of gossip repair losses. So a change costs two
// broadcasts and one small message per member, and versions that follow each other closely cost as
// much as one.
//
// A partition may separate members from the leader. A new leader needs evidence against the old
// one, and against all members that precede the new one. Until that evidence has spread, a leader
// is skipped if it stays silent for leaderMute after a message. The first collector that answers
// then gets the changes, and broadcasts them.

// A Broadcaster spreads changes in a large cluster.
type Broadcaster struct {
	*core.Node
	Collectors *lease.Collectors
	GossipAt   time.Time // when the next round is due
	progress   broadcastProgress
}

type broadcastProgress struct {
	digest        gossip.Digest // the version when spreadLarge last ran
	version       time.Time     // since when it has been the present one
	broadcastNode uint64        // the ring place of the broadcaster then
	seen          bool          // this node has acknowledged the version to the broadcaster
	owed          bool          // the state has to be sent: by the leader to all, by others to the leader
	next          time.Time     // the earliest time for the next state
	// told is when this node sent the leader its first message that is still unanswered.
	told time.Time
	// announced is the version that was last broadcast as seen by all.
	announced gossip.Digest
}

const (
	// broadcastAnswers is how long after a new version this node does not answer members with an
	// older one, because the broadcast is on its way.
	broadcastAnswers = time.Second
	// leaderMute is the time without an answer after which the leader is skipped. A working leader
	// broadcasts every second while some members have not seen its version.
	leaderMute = 2500 * time.Millisecond
)

// broadcastNode returns the node that broadcasts this node's changes. It is the leader, unless the
// leader has left a message of this node unanswered for leaderMute. Then it is the first collector
// that answers, or zero if none does.
func (b *Broadcaster) broadcastNode() transport.Address {
	leader := b.Local().Leader
	if leader == b.Config.Self || b.progress.told.IsZero() {
		return leader
	}
	if at := b.progress.told.Add(leaderMute); b.Now.Before(at) {
		b.WakeAt(at)
		return leader
	}
	return b.Collectors.Hub()
}

func (b *Broadcaster) broadcasts() bool { return !b.Small() && b.broadcastNode() == b.Config.Self }

// LeaderSpoke records a message from a member. If it is the leader's, the leader is no longer
// skipped as broadcaster.
func (b *Broadcaster) LeaderSpoke(from transport.Address) {
	if !b.progress.told.IsZero() && b.Phase == core.Joined && from == b.Local().Leader {
		b.progress.told = time.Time{}
	}
}

func (b *Broadcaster) spreadLarge() {
	f := b.Local()
	broadcastNode := b.broadcastNode()
	broadcasts := broadcastNode == b.Config.Self
	if place := gossip.RingPlace(broadcastNode); b.progress.digest != f.Digest || b.progress.broadcastNode != place {
		if b.progress.digest != f.Digest {
			b.progress.version = b.Now
		}
		b.progress.digest, b.progress.broadcastNode, b.progress.seen = f.Digest, place, false
		b.progress.owed = broadcasts || !b.Gossip.SeenBy(broadcastNode)
	}
	switch {
	case broadcastNode.IsZero():
	case b.progress.owed:
		if b.Now.Before(b.progress.next) {
			b.WakeAt(b.progress.next)
			return
		}
		b.progress.owed, b.progress.seen, b.progress.next = false, true, b.Now.Add(b.BroadcastInterval())
		if broadcasts {
			b.GossipAt = b.Now.Add(b.Config.GossipInterval)
			b.Broadcast(message.Gossip{State: b.Gossip})
		} else {
			b.tellBroadcaster(message.Gossip{Target: message.TargetOf(broadcastNode), State: b.Gossip})
		}
	case broadcasts:
		if b.progress.announced != f.Digest && b.allReachedHaveSeen() {
			b.progress.announced = f.Digest
			b.Broadcast(b.Status(0))
		}
	case !b.progress.seen:
		b.progress.seen = true
		b.tellBroadcaster(b.Status(message.TargetOf(broadcastNode)))
	}
}

func (b *Broadcaster) tellBroadcaster(msg message.Message) {
	broadcastNode := b.broadcastNode()
	if b.progress.told.IsZero() {
		b.progress.told = b.Now
		b.WakeAt(b.Now.Add(leaderMute))
	}
	b.Send(broadcastNode, msg)
}

// allReachedHaveSeen reports whether all reachable members that convergence requires have seen
// the version.
func (b *Broadcaster) allReachedHaveSeen() bool {
	f := b.Local()
	if f.Why == "" {
		return true
	}
	lacking := f.Must.Count() - b.Gossip.Seen.Common(f.Must)
	for _, i := range f.Unreachable {
		if f.Must.Has(i) && !b.Gossip.Seen.Has(i) {
			lacking--
		}
	}
	return lacking == 0
}

func (b *Broadcaster) forgetBroadcasts() {
	b.progress = broadcastProgress{}
}
