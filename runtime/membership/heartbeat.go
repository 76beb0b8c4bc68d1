package membership

import (
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/membership/message"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// detection is what this node knows of the others by its own senses.
type detection struct {
	peers   map[transport.Address]*peer
	watched []transport.Address // the neighbours on the ring
	// interest are the members to which anything may be due, by address: all others
	// are left alone at every step. It is made for the shape watches, and stale once
	// somebody else may have to be looked at.
	interest []subject
	watches  *gossip.Summary
	stale    bool
	suspect  float64   // the y of the threshold
	cleared  time.Time // when all evidence was last dropped

	echoAt   time.Time
	echoSeq  uint64
	echoes   []echo // on their way, through this connection
	echoSent time.Time
	// echoGood: an echo came back through this connection.
	echoGood bool
	// muffled is when echoes last came back after they had stayed away for longer than
	// LeaseEcho.
	muffled time.Time

	aliveAt time.Time
	beatSeq uint64
	// loose is when this node last sent a word that is not bound.
	loose time.Time
}

// A subject is a member that this node has to look at.
type subject struct {
	*peer
	node    transport.Address
	place   int // in Members
	watched bool
	accused bool // by anybody
}

// An echo is one that was sent.
type echo struct {
	seq  uint64
	sent time.Time
}

// maxEchoes bounds the echoes on their way: more than a lease holds.
const maxEchoes = 64

// A peer is another member as this node's connection shows it.
type peer struct {
	vouched time.Time // its last word for the lease of this node; see word.go
	company time.Time // since when it certainly counted on this node last
	word    wordGiven
	asked   []sentBeat // the heartbeats that it may still answer, the oldest first
	acked   time.Time  // when it last answered a heartbeat
	heard   time.Time  // when anything last came from it
	// beaten: it is sent heartbeats, and phi judges its answers.
	beaten bool
	phi    phiDetector
	beat   time.Time // when the next heartbeat is due
	// server is the broker instance that its last heartbeat or answer named, and
	// via the own one through which that came.
	server, via message.ServerMark
	// absent is since when the broker has known nobody who listens for it, and
	// absentLast and absentCount when it last said so, and how often.
	absent, absentLast time.Time
	absentCount        int
	marked             time.Time // when the own record was last made
}

func newDetection(threshold float64) detection {
	return detection{peers: make(map[transport.Address]*peer), suspect: phiInverse(threshold)}
}

func (m *Machine) heartbeatInterval() time.Duration {
	switch n := len(m.state.Members); {
	case m.config.HeartbeatInterval != 0:
		return m.config.HeartbeatInterval
	case n <= 50:
		return 500 * time.Millisecond
	case n <= 200:
		return time.Second
	case n <= 600:
		return 2 * time.Second
	}
	return 3 * time.Second
}

// firstAck is how long after the first heartbeat its answer counts as expected.
// Without that a peer that never answers would never be suspected.
const firstAck = time.Second

// peer returns what is known of a node.
func (m *Machine) peer(node transport.Address) *peer {
	p := m.detect.peers[node]
	if p == nil {
		p = &peer{}
		m.detect.peers[node] = p
	}
	return p
}

// beat sends a heartbeat. The first one's answer is expected within firstAck.
func (m *Machine) beat(node transport.Address, p *peer) {
	if !p.beaten {
		p.beaten, m.detect.stale = true, true
		p.phi = newPhiDetector(m.now.Add(firstAck), m.heartbeatInterval())
	}
	m.detect.beatSeq++
	p.ask(m.detect.beatSeq, m.now)
	if !m.bound() {
		m.detect.loose = m.now
	}
	m.send(node, message.Heartbeat{
		Target: message.TargetOf(node), Seq: m.detect.beatSeq, Server: m.mark, Heard: p.word.heard, Bound: m.bound(),
	})
}

// heard notes a sign of life, which ends what the broker said before.
func (m *Machine) heard(node transport.Address) {
	if p := m.detect.peers[node]; p != nil {
		p.heard = m.now
		p.absent, p.absentLast, p.absentCount = time.Time{}, time.Time{}, 0
	}
}

// namedServer notes which broker instance a member is connected to.
func (m *Machine) namedServer(in Receive, server message.ServerMark) {
	if _, ok := m.state.Index(in.From); !ok {
		return
	}
	p := m.peer(in.From)
	p.server, p.via = server, m.mark
	if in.Server != "" && in.Server != m.conn.Server {
		p.via = message.MarkOf(in.Server)
	}
}

func (m *Machine) onHeartbeat(in Receive, msg message.Heartbeat) {
	if msg.Target != message.TargetOf(m.config.Self) {
		m.refuse(RefusedTarget)
		return
	}
	if _, ok := m.state.Member(in.From); !ok && m.state.RemovalCounter >= gossip.MaxTombstones {
		// A new member, or one whose tombstone is forgotten: it must not count on this
		// node before it is known which.
		m.refuse(RefusedStranger)
		return
	}
	m.keptCompany(in.From)
	if msg.Bound {
		m.answeredBeat(in.From, msg.Heard)
	} else {
		m.vouched(in.From)
	}
	m.namedServer(in, msg.Server)
	m.giveWord(in.From, msg.Seq)
	m.send(in.From, message.HeartbeatAck{Target: message.TargetOf(in.From), Seq: msg.Seq, Server: m.mark})
}

func (m *Machine) onHeartbeatAck(in Receive, msg message.HeartbeatAck) {
	if _, ok := m.state.Index(in.From); !ok || msg.Target != message.TargetOf(m.config.Self) {
		return
	}
	m.keptCompany(in.From)
	m.answeredBeat(in.From, msg.Seq)
	m.namedServer(in, msg.Server)
	p := m.peer(in.From)
	p.acked = m.now
	if p.beaten {
		p.phi.heartbeat(m.now, m.config.PauseAllowance)
	}
}

// lookAround makes the lists of whom this node watches and of whom anything may
// be due to: the neighbours on the ring, who is missed by anybody, so that those
// on the right server can tell more, who is suspected, and who is Down, so that
// it learns it.
func (m *Machine) lookAround() {
	f := m.local()
	if m.detect.watches == f.Summary && !m.detect.stale {
		return
	}
	if m.detect.watches != f.Summary {
		m.detect.watched = f.Ring.Neighbours(m.state.Members, m.config.Self, m.config.Watched, f.Evidence)
		slices.SortFunc(m.detect.watched, transport.Address.Compare)
		m.detect.watches = f.Summary
		m.downing.forgetRemoved(m.state)
		maps.DeleteFunc(m.voting.ballots, func(node transport.Address, _ ballot) bool {
			_, ok := m.state.Index(node)
			return !ok
		})
		//arch:order-free each peer is treated alike
		for node := range m.detect.peers {
			if _, ok := m.state.Index(node); !ok {
				delete(m.detect.peers, node)
			}
		}
	}
	m.detect.stale = false
	list := slices.Clone(m.detect.watched)
	if m.lease.doubt && m.small() {
		list = m.state.Addresses(placesOf(len(m.state.Members)))
	}
	list = append(list, m.state.Addresses(f.Accused)...)
	list = append(list, m.state.Addresses(f.Down)...)
	//arch:order-free the list is sorted
	for node, p := range m.detect.peers {
		if p.beaten || !p.absent.IsZero() {
			list = append(list, node)
		}
	}
	slices.SortFunc(list, transport.Address.Compare)
	m.detect.interest = m.detect.interest[:0:0]
	for _, node := range slices.Compact(list) {
		i, ok := m.state.Index(node)
		if !ok || i == f.Self || m.state.Members[i].Fenced {
			continue
		}
		_, accused := slices.BinarySearch(f.Accused, i)
		m.detect.interest = append(m.detect.interest, subject{m.peer(node), node, i, m.watches(node), accused})
	}
}

// placesOf are the first n places.
func placesOf(n int) []int {
	places := make([]int, n)
	for i := range places {
		places[i] = i
	}
	return places
}

// runBeats sends the heartbeats that are due, and often to whom this node
// suspects.
func (m *Machine) runBeats() {
	m.lookAround()
	own := m.state.Records(m.config.Self)
	for _, p := range m.detect.interest {
		r := &m.state.Members[p.place]
		suspected := r.Status == gossip.Down && m.tellsDown(own, p.node) || m.suspected(p.peer)
		if !suspected && !m.beats(own, p, r.Status) {
			if p.beaten {
				p.beaten, m.detect.stale = false, true
			}
			continue
		}
		interval := m.heartbeatInterval()
		if suspected {
			interval = min(interval, m.config.ProbeInterval)
			if limit := m.now.Add(interval); p.beat.After(limit) {
				p.beat = limit
			}
		}
		switch {
		case !m.due(&p.beat, interval):
		case r.Status == gossip.Down:
			// Not a heartbeat, from which it would take courage. If it is gone, the
			// broker says so.
			m.send(p.node, message.Removal{Target: message.TargetOf(p.node)})
		default:
			m.beat(p.node, p.peer)
		}
	}
}

// beats reports whether a member is sent heartbeats that nobody suspects here: a
// neighbour; whoever is asked because a lease ran out; and who is missed by
// others. In a large cluster only those look at that one who can prove that it
// is gone, and those who hold something against it themselves: nobody else can
// take that back.
func (m *Machine) beats(own []gossip.Record, p subject, status gossip.Status) bool {
	switch {
	case status == gossip.Down:
		return false
	case p.watched:
		return true
	case m.small():
		return p.accused || m.lease.doubt
	case gossip.HasRecord(own, p.node):
		return true
	}
	return p.accused && m.local().Evidence[p.place] != gossip.EvidenceGone && m.sameServer(p.peer)
}

// tellsDown reports whether it is on this node to tell a member that it is Down. In
// a large cluster it is on the leader and on those that missed it.
func (m *Machine) tellsDown(own []gossip.Record, node transport.Address) bool {
	return m.small() || m.leads() || gossip.HasRecord(own, node)
}

// sameServer reports whether the peer is connected to the very broker instance to
// which this node is, and was heard through it.
func (m *Machine) sameServer(p *peer) bool {
	return p.server != 0 && p.server == m.mark && p.via == m.mark
}

func (m *Machine) watches(node transport.Address) bool {
	return gossip.HasAddress(m.detect.watched, node)
}

// probeLong is for how many GoneAfter a suspected member is probed often.
const probeLong = 5

// suspected reports whether the peer is to be probed often.
func (m *Machine) suspected(p *peer) bool {
	long := probeLong * m.config.GoneAfter
	if !p.absent.IsZero() && m.now.Sub(p.absent) < long {
		return true
	}
	at := m.suspectAt(p)
	return p.beaten && !m.now.Before(at) && m.now.Sub(at) < long
}

// suspectAt is when the peer's silence becomes suspicious.
func (m *Machine) suspectAt(p *peer) time.Time {
	return p.phi.suspectAt(m.detect.suspect, m.config.PauseAllowance)
}

// suspect probes a member now, whoever watches it.
func (m *Machine) suspect(node transport.Address) {
	p := m.peer(node)
	p.beat = m.now.Add(m.config.ProbeInterval)
	m.beat(node, p)
	m.detect.stale = true
}
