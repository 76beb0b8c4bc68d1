package spread

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// A Spreader sends changes of the gossiped state to others, and receives theirs.
type Spreader struct {
	*core.Node
	Broadcaster *Broadcaster
}

// Spread sends the changes of this step to other members at once, without waiting for a round of
// gossip. In a small cluster the author of a version sends it to all members, and each receiver
// informs the leader. When all have seen the version, the leader acts, and informs all members of
// the convergence. A change thus takes two round trips and about three messages per member. For
// large clusters see broadcast.go.
func (s *Spreader) Spread(before *gossip.State) {
	if s.Phase != core.Joined {
		return
	}
	if !s.Small() {
		s.Broadcaster.spreadLarge()
		return
	}
	s.Broadcaster.forgetBroadcasts()
	if s.Gossip == before {
		return
	}
	leader := s.Local().Speaker()
	newVersion := before == nil || s.Local().Digest != before.Summary(s.Rule()).Digest
	switch {
	case s.Own:
		s.PushToAll()
	case leader != s.Config.Self:
		if newVersion {
			s.tell(leader)
		}
	case s.Local().Why == "":
		for _, node := range s.Audience() {
			s.tell(node)
		}
	case newVersion && s.Gossip.Seen.Count() == 1:
		// The version was merged from concurrent ones. Only one member sends it to
		// all; otherwise every member would send every intermediate version to
		// every other.
		s.PushToAll()
	}
}

// tell sends the state if the node has not seen the version, and else the status. In a large
// cluster it always sends the status: mostly the node has the state from the leader, and otherwise
// it asks.
func (s *Spreader) tell(node transport.Address) {
	if node.IsZero() || node == s.Config.Self {
		return
	}
	if s.Gossip.SeenBy(node) || !s.Small() {
		s.Send(node, s.Status(message.TargetOf(node)))
	} else {
		s.Send(node, message.Gossip{Target: message.TargetOf(node), State: s.Gossip})
	}
}

// RunGossip runs the rounds of gossip: one per GossipInterval, or GossipSpeedup while less than
// half of the members have seen the version. In a large cluster the leader instead broadcasts its
// status while some members have not seen the version.
func (s *Spreader) RunGossip() {
	interval := s.Config.GossipInterval
	broadcasts := s.Broadcaster.broadcasts()
	if !broadcasts && 2*s.Gossip.Seen.Count() < len(s.Gossip.Members) {
		interval /= time.Duration(s.Config.GossipSpeedup)
		if limit := s.Now.Add(interval); s.Broadcaster.GossipAt.After(limit) {
			s.Broadcaster.GossipAt = limit
		}
	}
	if !s.Due(&s.Broadcaster.GossipAt, interval) {
		return
	}
	if broadcasts && !s.Broadcaster.allReachedHaveSeen() {
		s.Broadcast(s.Status(0))
		return
	}
	if node, ok := s.partner(); ok {
		s.tell(node)
	}
}

func (s *Spreader) partner() (transport.Address, bool) {
	n := len(s.Gossip.Members)
	held := s.Gossip.Records(s.Config.Self)
	other := func(i int) bool {
		r := s.Gossip.Members[i]
		return i != s.Local().Self && !r.Fenced && (len(held) == 0 || !gossip.HasRecord(held, r.Address))
	}
	if s.Gossip.Seen.Count() < n {
		var unseen []int
		for i := range n {
			if !s.Gossip.Seen.Has(i) && other(i) {
				unseen = append(unseen, i)
			}
		}
		if len(unseen) > 0 && s.Random.Float64() < s.ToUnseen() {
			return s.Gossip.Members[unseen[s.Random.IntN(len(unseen))]].Address, true
		}
	}
	// The search begins at a random member and takes the first that may be chosen. So members after
	// one that may not be chosen are chosen a little more often.
	for k, from := 0, s.Random.IntN(n); k < n; k++ {
		if i := (from + k) % n; other(i) {
			return s.Gossip.Members[i].Address, true
		}
	}
	return transport.Address{}, false
}

// ToUnseen returns the share of rounds sent to a member that has not seen the version. It is lower
// in a large cluster, where many members would pick the same few.
func (s *Spreader) ToUnseen() float64 {
	share := s.Config.GossipToUnseen
	low := share / 4
	many := s.Config.GossipManyMembers
	switch n := len(s.Gossip.Members); {
	case n <= many:
		return share
	case n >= 4*many:
		return low
	default:
		return share - (share-low)*float64(n-many)/float64(3*many)
	}
}

// acceptable reports whether this node may use gossip from the given sender. The gossip must be of
// this cluster and for this node, and this node must have no record against the sender. The sender
// need not be a member in this node's view: the member that admitted the sender may have died
// before it spread its view.
func (s *Spreader) acceptable(from transport.Address, target uint32, founder transport.Address) bool {
	_, lost := s.Gossip.Record(s.Config.Self, from)
	switch {
	case target != message.TargetOf(s.Config.Self) && target != 0:
		s.Refuse(core.RefusedTarget)
	case founder != s.Gossip.Founder:
		s.Refuse(core.RefusedCluster)
	case lost:
		s.Refuse(core.RefusedUnreachable)
	default:
		return true
	}
	return false
}

// OnGossip compares a received state with this node's state. A newer one replaces this node's
// state, and a concurrent one is merged into it. An older one is answered with this node's state.
func (s *Spreader) OnGossip(in core.Receive, msg message.Gossip) {
	if in.Waited > s.Config.GossipMaxWait {
		s.Refuse(core.RefusedLate)
		return
	}
	if msg.State.CheckUnder(s.Rule()) != nil {
		s.Refuse(core.RefusedMalformed)
		return
	}
	if !s.acceptable(in.From, msg.Target, msg.State.Founder) || !s.comparable(in.From, msg.State) {
		return
	}
	if t, ok := msg.State.Tombstone(s.Config.Self); ok {
		s.EndRemoved(t.Left, in.From, in.From.Name+" says that this node was removed")
		return
	}
	mine, ok := msg.State.Member(s.Config.Self)
	if !ok {
		s.Refuse(core.RefusedStale)
		s.introduce(in.From, msg.Target)
		return
	}
	// An unknown member that was Up was removed long ago: its tombstone is forgotten. A member not
	// yet Up may be known to nobody, because its admitting member died: this member joins, or
	// leaves, by this very message.
	if sender, ok := msg.State.Member(in.From); !ok ||
		(sender.UpNumber != 0 || sender.Status > gossip.Leaving) && s.Gossip.Forgotten(in.From) {
		s.Refuse(core.RefusedStranger)
		return
	}
	merged, order := s.Gossip.Join(msg.State)
	s.Gossip = merged.WithSeen(s.Config.Self)
	if mine.Status == gossip.Down {
		s.EndDowned(in.From.Name + " says that this node was downed")
		return
	}
	if mine.Quarantined {
		s.EndMember(false, in.From.Name+" says that required messages could not be delivered to this node")
		return
	}
	switch {
	case order == gossip.Same || order == gossip.Before:
	case !s.Small() && (msg.Target == 0 || in.From == s.Broadcaster.broadcastNode()):
		s.Broadcaster.progress.owed = true // the state is sent to it soon, or is on the way already
	default:
		s.Send(in.From, message.Gossip{Target: message.TargetOf(in.From), State: s.Gossip})
	}
}

// introduce sends this node's state, if this node was never Up, to a member that does not know this
// node. The member that admitted this node may have died before it sent the new state to others.
// introduce answers only messages sent to this node alone.
func (s *Spreader) introduce(to transport.Address, target uint32) {
	if target != 0 && s.Self().UpNumber == 0 {
		s.Send(to, message.Gossip{Target: message.TargetOf(to), State: s.Gossip})
	}
}

// comparable reports whether the sender's state g is recent enough to be merged. If g is too old,
// comparable answers the sender. Tombstones are kept for MaxTombstones removals, so an old g may
// hold members whose removal this node has forgotten. If this node's own state is too old, g
// replaces it, unless this node is Down or missing in g. Only a process that was paused falls so
// far behind.
func (s *Spreader) comparable(from transport.Address, g *gossip.State) bool {
	switch {
	case g.RemovalCounter+gossip.MaxTombstones <= s.Gossip.RemovalCounter:
		s.Refuse(core.RefusedStale)
		if _, ok := s.Gossip.Member(from); ok {
			s.Send(from, message.Gossip{Target: message.TargetOf(from), State: s.Gossip})
		} else {
			s.Send(from, message.Removal{Target: message.TargetOf(from)})
		}
		return false
	case s.Gossip.RemovalCounter+gossip.MaxTombstones <= g.RemovalCounter:
		if r, ok := g.Member(s.Config.Self); ok && r.Status != gossip.Down {
			s.Gossip = g.WithSeen(s.Config.Self) // the own state is the old one
		}
	}
	return true
}

// OnStatus compares this node's version of the state with the sender's. If the two are equal, this
// node learns which members have seen the version. If the sender's version has more changes, this
// node answers with its own status, which asks for the sender's state. Otherwise it answers with
// its state, except while a broadcast of that state is on its way.
func (s *Spreader) OnStatus(from transport.Address, msg message.Status) {
	if !s.acceptable(from, msg.Target, s.Gossip.Founder) {
		return
	}
	f := s.Local()
	switch {
	case f.Digest == msg.Version:
		if msg.All {
			msg.Seen, msg.Members = gossip.FullSeenSet(len(s.Gossip.Members)), len(s.Gossip.Members)
		}
		if msg.Members == len(s.Gossip.Members) && msg.Seen.Fits(msg.Members) {
			s.Gossip = s.Gossip.WithAllSeen(msg.Seen)
		}
	case f.Changes < msg.Changes:
		s.Send(from, s.Status(message.TargetOf(from))) // the sender's is later, or concurrent
	case !s.Small() && s.Now.Sub(s.Broadcaster.progress.version) < broadcastAnswers && !s.Broadcaster.broadcastNode().IsZero():
		// The leader has just told all, or is about to.
	default:
		s.Send(from, message.Gossip{Target: message.TargetOf(from), State: s.Gossip})
	}
}
