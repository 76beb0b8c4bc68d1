package membership

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// spreading is what telling others needs.
type spreading struct {
	memberSince time.Time
	gossipAt    time.Time // when the next round is due
}

const (
	// pushed is how many members of a large cluster are told of a change at once,
	// beside the leader; the rounds do the rest.
	pushed = 3
	// manyMembers and veryManyMembers are between which the share of rounds that
	// go to members that have not seen the version falls to a quarter.
	manyMembers, veryManyMembers = 400, 1600
)

// spread tells others at once what this step changed, so that a small cluster
// does not wait for the rounds. Who makes a version tells all; who is told it
// tells the leader, which acts when all have seen it; and the leader tells all
// that they have. So a change takes two ways there and back and about three
// messages a member.
func (m *Machine) spread(before *Gossip) {
	if m.phase != member || m.gossip == before {
		return
	}
	leader := m.facts().leader
	newVersion := before == nil || m.gossip.Version.Compare(before.Version) != Same
	switch {
	case m.own:
		m.pushToAll()
	case leader != m.config.Self:
		if newVersion {
			m.tell(leader)
		}
	case m.facts().why == "":
		m.tellAll()
	case newVersion && len(m.gossip.Seen) == 1:
		// Merged of concurrent ones. Only the leader tells all of it, or every
		// member would tell every member of every step on the way.
		m.pushToAll()
	}
}

// pushToAll sends the state to all that have not seen it, or to a few in a large
// cluster.
func (m *Machine) pushToAll() {
	unseen := slices.DeleteFunc(m.audience(), m.gossip.seenBy)
	if len(m.gossip.Members) > smallCluster {
		m.random.Shuffle(len(unseen), func(i, j int) { unseen[i], unseen[j] = unseen[j], unseen[i] })
		unseen = unseen[:min(pushed, len(unseen))]
		if leader := m.facts().leader; leader != m.config.Self && !slices.Contains(unseen, leader) {
			unseen = append(unseen, leader)
		}
	}
	for _, node := range unseen {
		m.send(node, GossipMessage{node, m.gossip})
	}
}

// tellAll sends the status to all in a small cluster.
func (m *Machine) tellAll() {
	if len(m.gossip.Members) > smallCluster {
		return
	}
	for _, node := range m.audience() {
		m.tell(node)
	}
}

// tell sends what the node needs: the status if it has seen the version, and
// otherwise the state.
func (m *Machine) tell(node transport.Address) {
	if node.IsZero() || node == m.config.Self {
		return
	}
	if m.gossip.seenBy(node) {
		m.send(node, m.status(node))
	} else {
		m.send(node, GossipMessage{node, m.gossip})
	}
}

func (m *Machine) status(node transport.Address) GossipStatus {
	return GossipStatus{node, m.gossip.Founder, m.gossip.Version, m.gossip.Seen}
}

// audience are the others that this node can reach, those just downed included:
// they should know.
func (m *Machine) audience() []transport.Address {
	var nodes []transport.Address
	for _, r := range m.gossip.Members {
		if _, lost := m.gossip.record(m.config.Self, r.Address); !lost && r.Address != m.config.Self && !r.Fenced {
			nodes = append(nodes, r.Address)
		}
	}
	return nodes
}

// runGossip does the rounds: one an interval, three while under half of the
// members have seen the version.
func (m *Machine) runGossip() {
	interval := m.config.GossipInterval
	if 2*len(m.gossip.Seen) < len(m.gossip.Members) {
		interval /= 3
		if limit := m.now.Add(interval); m.spreading.gossipAt.After(limit) {
			m.spreading.gossipAt = limit
		}
	}
	if !m.due(&m.spreading.gossipAt, interval) {
		return
	}
	nodes := m.audience()
	unseen := slices.DeleteFunc(slices.Clone(nodes), m.gossip.seenBy)
	if len(unseen) > 0 && m.random.Float64() < m.toUnseen() {
		nodes = unseen
	}
	if len(nodes) > 0 {
		m.tell(nodes[m.random.IntN(len(nodes))])
	}
}

// toUnseen is the share of rounds that go to a member that has not seen the
// version. In a large cluster many members would pick the same few.
func (m *Machine) toUnseen() float64 {
	share := m.config.GossipToUnseen
	low := share / 4
	switch n := len(m.gossip.Members); {
	case n <= manyMembers:
		return share
	case n >= veryManyMembers:
		return low
	default:
		return share - (share-low)*float64(n-manyMembers)/(veryManyMembers-manyMembers)
	}
}

// acceptable tells whether gossip of that sender may be read: the state is of this
// cluster, and the sender is a member that this node can reach. Or it is one
// that nobody here knows, because the member that admitted it died before it told
// anybody else; removed nodes, which are unknown too, do not get here.
func (m *Machine) acceptable(from, target, founder transport.Address) bool {
	_, lost := m.gossip.record(m.config.Self, from)
	switch {
	case target != m.config.Self:
		m.refuse(RefusedTarget)
	case founder != m.gossip.Founder:
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
func (m *Machine) onGossip(in Receive, msg GossipMessage) {
	if in.Waited > m.config.GossipMaxWait {
		m.refuse(RefusedLate)
		return
	}
	if msg.State.check() != nil {
		m.refuse(RefusedMalformed)
		return
	}
	if !m.acceptable(in.From, msg.Target, msg.State.Founder) {
		return
	}
	if t, ok := msg.State.tombstone(m.config.Self); ok {
		m.endMember(t.Left, in.From.Name+" says that this node was removed")
		return
	}
	mine, ok := msg.State.member(m.config.Self)
	if !ok {
		m.refuse(RefusedStale)
		return
	}
	if sender, ok := msg.State.member(in.From); !ok || sender.Status != Joining && m.gossip.forgotten(in.From) {
		m.refuse(RefusedStranger)
		return // it was removed so long ago that its tombstone is forgotten
	}
	merged, order := m.gossip.join(msg.State)
	m.gossip = merged.withSeen(m.config.Self)
	if mine.Status == Down {
		m.endMember(false, in.From.Name+" says that this node was downed")
		return
	}
	if mine.Quarantined {
		m.endMember(false, in.From.Name+" says that messages which had to arrive could not be delivered to this node")
		return
	}
	if order == After || order == Concurrent {
		m.send(in.From, GossipMessage{in.From, m.gossip})
	}
}

// onStatus compares versions: who has less asks with its status, who has more
// or something else answers with its state.
func (m *Machine) onStatus(from transport.Address, msg GossipStatus) {
	if msg.check() != nil {
		m.refuse(RefusedMalformed)
		return
	}
	if !m.acceptable(from, msg.Target, msg.Founder) {
		return
	}
	switch m.gossip.Version.Compare(msg.Version) {
	case Same:
		next := *m.gossip
		next.Seen = mergeAddresses(m.gossip.Seen, slices.DeleteFunc(slices.Clone(msg.Seen), m.gossip.removed))
		if len(next.Seen) != len(m.gossip.Seen) {
			m.gossip = &next
		}
	case Before:
		m.send(from, m.status(from))
	case After, Concurrent:
		m.send(from, GossipMessage{from, m.gossip})
	}
}
