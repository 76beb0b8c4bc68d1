package membership

import (
	"time"

	"github.com/shardgen/shardgen/internal/membership/message"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// spreading is what telling others needs.
type spreading struct {
	memberSince time.Time
	gossipAt    time.Time // when the next round is due
	casting     casting   // of large clusters
}

// spread tells others at once what this step changed, so that they need not wait
// for the rounds. In a small cluster who makes a version tells all; who is told
// it tells the leader, which acts when all have seen it; and the leader tells all
// that they have. So a change takes two ways there and back and about three
// messages a member. For large ones see cast.go.
func (m *Machine) spread(before *gossip.State) {
	if m.phase != member {
		return
	}
	if !m.small() {
		m.spreadLarge()
		return
	}
	m.spreading.casting = casting{}
	if m.state == before {
		return
	}
	leader := m.local().Leader
	newVersion := before == nil || m.local().Digest != before.Summary(m.rule()).Digest
	switch {
	case m.own:
		m.pushToAll()
	case leader != m.config.Self:
		if newVersion {
			m.tell(leader)
		}
	case m.local().Why == "":
		for _, node := range m.audience() {
			m.tell(node)
		}
	case newVersion && m.state.Seen.Count() == 1:
		// Merged of concurrent ones. Only the leader tells all of it, or every
		// member would tell every member of every step on the way.
		m.pushToAll()
	}
}

// pushToAll sends the state to all that have not seen it, in a large cluster to
// all.
func (m *Machine) pushToAll() {
	if !m.small() {
		m.broadcast(message.Gossip{State: m.state})
		return
	}
	for _, node := range m.audience() {
		if !m.state.SeenBy(node) {
			m.send(node, message.Gossip{Target: message.TargetOf(node), State: m.state})
		}
	}
}

// tell sends what the node needs: the status if it has seen the version, and
// otherwise the state. In a large cluster it may ask for that, for it will most
// often have it from the leader.
func (m *Machine) tell(node transport.Address) {
	if node.IsZero() || node == m.config.Self {
		return
	}
	if m.state.SeenBy(node) || !m.small() {
		m.send(node, m.status(message.TargetOf(node)))
	} else {
		m.send(node, message.Gossip{Target: message.TargetOf(node), State: m.state})
	}
}

func (m *Machine) status(target uint32) message.Status {
	f := m.local()
	s := message.Status{
		Target: target, Version: f.Digest, Changes: f.Changes,
		Members: len(m.state.Members), Seen: m.state.Seen,
	}
	if s.Seen.Count() == s.Members {
		s.All, s.Members, s.Seen = true, 0, nil
	}
	return s
}

// audience are the others that this node can reach, those just downed included:
// they should know.
func (m *Machine) audience() []transport.Address {
	nodes := make([]transport.Address, 0, len(m.state.Members))
	held := m.state.Records(m.config.Self)
	for _, r := range m.state.Members {
		if r.Address != m.config.Self && !r.Fenced && (len(held) == 0 || !gossip.HasRecord(held, r.Address)) {
			nodes = append(nodes, r.Address)
		}
	}
	return nodes
}

// runGossip does the rounds: one an interval, and GossipSpeedup while under half of
// the members have seen the version. The leader of a large cluster tells all at once
// as long as some have not seen it.
func (m *Machine) runGossip() {
	interval := m.config.GossipInterval
	casts := m.casts()
	if !casts && 2*m.state.Seen.Count() < len(m.state.Members) {
		interval /= time.Duration(m.config.GossipSpeedup)
		if limit := m.now.Add(interval); m.spreading.gossipAt.After(limit) {
			m.spreading.gossipAt = limit
		}
	}
	if !m.due(&m.spreading.gossipAt, interval) {
		return
	}
	if casts && !m.allReachedHaveSeen() {
		m.broadcast(m.status(0))
		return
	}
	if node, ok := m.partner(); ok {
		m.tell(node)
	}
}

// partner is whom the round goes to: any member that can be reached, or most often
// one that has not seen the version, if there is one.
func (m *Machine) partner() (transport.Address, bool) {
	n := len(m.state.Members)
	held := m.state.Records(m.config.Self)
	other := func(i int) bool {
		r := m.state.Members[i]
		return i != m.local().Self && !r.Fenced && (len(held) == 0 || !gossip.HasRecord(held, r.Address))
	}
	if m.state.Seen.Count() < n {
		var unseen []int
		for i := range n {
			if !m.state.Seen.Has(i) && other(i) {
				unseen = append(unseen, i)
			}
		}
		if len(unseen) > 0 && m.random.Float64() < m.toUnseen() {
			return m.state.Members[unseen[m.random.IntN(len(unseen))]].Address, true
		}
	}
	// One after the other from anywhere: only those behind the few that cannot be
	// chosen are chosen a little more often.
	for k, from := 0, m.random.IntN(n); k < n; k++ {
		if i := (from + k) % n; other(i) {
			return m.state.Members[i].Address, true
		}
	}
	return transport.Address{}, false
}

// toUnseen is the share of rounds that go to a member that has not seen the
// version. In a large cluster many members would pick the same few.
func (m *Machine) toUnseen() float64 {
	share := m.config.GossipToUnseen
	low := share / 4
	many := m.config.GossipManyMembers
	switch n := len(m.state.Members); {
	case n <= many:
		return share
	case n >= 4*many:
		return low
	default:
		return share - (share-low)*float64(n-many)/float64(3*many)
	}
}

// acceptable reports whether gossip of that sender may be read: the state is of this
// cluster, and the sender is a member that this node can reach. Or it is one
// that nobody here knows, because the member that admitted it died before it told
// anybody else; removed nodes, which are unknown too, do not get here.
func (m *Machine) acceptable(from transport.Address, target uint32, founder transport.Address) bool {
	_, lost := m.state.Record(m.config.Self, from)
	switch {
	case target != message.TargetOf(m.config.Self) && target != 0:
		m.refuse(RefusedTarget)
	case founder != m.state.Founder:
		m.refuse(RefusedCluster)
	case lost:
		m.refuse(RefusedUnreachable)
	default:
		return true
	}
	return false
}

// onGossip takes a newer state, merges a concurrent one, and answers an older one
// with its own.
func (m *Machine) onGossip(in Receive, msg message.Gossip) {
	if in.Waited > m.config.GossipMaxWait {
		m.refuse(RefusedLate)
		return
	}
	if msg.State.CheckUnder(m.rule()) != nil {
		m.refuse(RefusedMalformed)
		return
	}
	if !m.acceptable(in.From, msg.Target, msg.State.Founder) || !m.comparable(in.From, msg.State) {
		return
	}
	if t, ok := msg.State.Tombstone(m.config.Self); ok {
		m.endRemoved(t.Left, in.From, in.From.Name+" says that this node was removed")
		return
	}
	mine, ok := msg.State.Member(m.config.Self)
	if !ok {
		m.refuse(RefusedStale)
		return
	}
	// A member that was Up and is unknown was removed so long ago that its tombstone is
	// forgotten. One that was not may be known to nobody, because who admitted it died:
	// it joins, or leaves, by this very message.
	if sender, ok := msg.State.Member(in.From); !ok ||
		(sender.UpNumber != 0 || sender.Status > gossip.Leaving) && m.state.Forgotten(in.From) {
		m.refuse(RefusedStranger)
		return
	}
	merged, order := m.state.Join(msg.State)
	m.state = merged.WithSeen(m.config.Self)
	if mine.Status == gossip.Down {
		m.endMember(false, in.From.Name+" says that this node was downed")
		return
	}
	if mine.Quarantined {
		m.endMember(false, in.From.Name+" says that messages which had to arrive could not be delivered to this node")
		return
	}
	switch {
	case order == gossip.Same || order == gossip.Before:
	case !m.small() && (msg.Target == 0 || in.From == m.caster()):
		m.spreading.casting.owed = true // it is told soon, and perhaps on the way already
	default:
		m.send(in.From, message.Gossip{Target: message.TargetOf(in.From), State: m.state})
	}
}

// comparable reports whether a state can be merged with this node's. Of two that are
// more removals apart than there are tombstones the older one may hold members that
// the newer has forgotten to have removed. It belongs to a process that stood
// still: no full member falls so far behind.
func (m *Machine) comparable(from transport.Address, g *gossip.State) bool {
	switch {
	case g.RemovalCounter+gossip.MaxTombstones <= m.state.RemovalCounter:
		m.refuse(RefusedStale)
		if _, ok := m.state.Member(from); ok {
			m.send(from, message.Gossip{Target: message.TargetOf(from), State: m.state})
		} else {
			m.send(from, message.Removal{Target: message.TargetOf(from)})
		}
		return false
	case m.state.RemovalCounter+gossip.MaxTombstones <= g.RemovalCounter:
		if r, ok := g.Member(m.config.Self); ok && r.Status != gossip.Down {
			m.state = g.WithSeen(m.config.Self) // the own state is the old one
		}
	}
	return true
}

// onStatus compares versions: who has less asks with its status, who has more
// or something else answers with its state.
func (m *Machine) onStatus(from transport.Address, msg message.Status) {
	if !m.acceptable(from, msg.Target, m.state.Founder) {
		return
	}
	f := m.local()
	switch {
	case f.Digest == msg.Version:
		if msg.All {
			msg.Seen, msg.Members = gossip.FullSeenSet(len(m.state.Members)), len(m.state.Members)
		}
		if msg.Members == len(m.state.Members) && msg.Seen.Fits(msg.Members) {
			m.state = m.state.WithAllSeen(msg.Seen)
		}
	case f.Changes < msg.Changes:
		m.send(from, m.status(message.TargetOf(from))) // the sender's is later, or concurrent
	case !m.small() && m.now.Sub(m.spreading.casting.version) < castAnswers && !m.caster().IsZero():
		// The leader has just told all, or is about to.
	default:
		m.send(from, message.Gossip{Target: message.TargetOf(from), State: m.state})
	}
}
