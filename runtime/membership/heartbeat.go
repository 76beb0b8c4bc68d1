package membership

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// detection is what this node knows of the others by its own senses.
type detection struct {
	peers   map[transport.Address]*peer
	watched []transport.Address // the neighbours on the ring
	watches *Gossip             // for which watched was made
	suspect float64             // the y of the threshold
	cleared time.Time           // when all evidence was last dropped

	echoAt   time.Time
	echoSeq  uint64
	echoes   []echo // on their way, through this connection
	echoSent time.Time
	// echoGood: an echo came back through this connection.
	echoGood bool

	aliveAt time.Time
	beatSeq uint64
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
	vouched time.Time // since when it certainly counted on this node last
	acked   time.Time // when it last answered a heartbeat
	// beaten: it is sent heartbeats, and phi judges its answers.
	beaten bool
	phi    phiDetector
	beat   time.Time // when the next heartbeat is due
	// server is the broker instance that its last heartbeat or answer named, and
	// via the own one through which that came.
	server, via string
	// absent is since when the broker has known nobody who listens for it, and
	// absentLast and absentCount when it last said so, and how often.
	absent, absentLast time.Time
	absentCount        int
	marked             time.Time // when the own record was last made
}

func newDetection(threshold float64) detection {
	return detection{peers: make(map[transport.Address]*peer), suspect: phiInverse(threshold)}
}

// smallCluster is the number of members up to which everything happens at once
// and often.
const smallCluster = 50

func (m *Machine) heartbeatInterval() time.Duration {
	switch {
	case m.config.HeartbeatInterval != 0:
		return m.config.HeartbeatInterval
	case len(m.gossip.Members) <= smallCluster:
		return 500 * time.Millisecond
	}
	return time.Second
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
		p.beaten = true
		p.phi = newPhiDetector(m.now.Add(firstAck), m.heartbeatInterval())
	}
	m.detect.beatSeq++
	m.send(node, Heartbeat{Target: node, Seq: m.detect.beatSeq, Server: m.conn.Server})
}

// heard notes a sign of life, which ends what the broker said before.
func (m *Machine) heard(node transport.Address) {
	if _, ok := m.gossip.member(node); ok {
		p := m.peer(node)
		p.absent, p.absentLast, p.absentCount = time.Time{}, time.Time{}, 0
	}
}

// vouched notes that a member counts on this one: it would not have sent the
// message to a Down or removed one. Only that prolongs a lease.
//
// The message may have waited long for a process that stood still. All that is
// known is that it left the broker after the last returned echo came there: they
// share one connection and its order.
func (m *Machine) vouched(node transport.Address) {
	if _, ok := m.gossip.member(node); ok && m.detect.echoGood {
		p := m.peer(node)
		p.vouched = maxTime(p.vouched, m.detect.echoSent)
	}
}

// namedServer notes which broker instance a member is connected to.
func (m *Machine) namedServer(in Receive, server string) {
	if _, ok := m.gossip.member(in.From); !ok {
		return
	}
	p := m.peer(in.From)
	p.server, p.via = server, in.Server
	if in.Server == "" {
		p.via = m.conn.Server
	}
}

func (m *Machine) onHeartbeat(in Receive, msg Heartbeat) {
	if msg.Target != m.config.Self {
		m.refuse(RefusedTarget)
		return
	}
	m.vouched(in.From)
	m.namedServer(in, msg.Server)
	m.send(in.From, HeartbeatAck{Target: in.From, Seq: msg.Seq, Server: m.conn.Server})
}

func (m *Machine) onHeartbeatAck(in Receive, msg HeartbeatAck) {
	if _, ok := m.gossip.member(in.From); !ok || msg.Target != m.config.Self {
		return
	}
	m.vouched(in.From)
	m.namedServer(in, msg.Server)
	p := m.peer(in.From)
	p.acked = m.now
	if p.beaten {
		p.phi.heartbeat(m.now, m.config.PauseAllowance)
	}
}

// runBeats sends the heartbeats that are due: to the neighbours on the ring, to
// whom somebody misses, so that those on the right server can tell more, and
// often to whom this node suspects.
func (m *Machine) runBeats() {
	if m.detect.watches != m.gossip {
		m.detect.watched = m.gossip.neighbours(m.config.Self, m.config.Watched, m.facts().evidence)
		slices.SortFunc(m.detect.watched, transport.Address.Compare)
		m.detect.watches = m.gossip
		m.downing.forgetRemoved(m.gossip)
		//arch:order-free each peer is treated alike
		for node := range m.detect.peers {
			if _, ok := m.gossip.member(node); !ok {
				delete(m.detect.peers, node)
			}
		}
	}
	for _, r := range m.gossip.Members {
		if r.Address == m.config.Self || r.Fenced {
			continue
		}
		p := m.detect.peers[r.Address]
		suspected := r.Status == Down || p != nil && m.suspected(p)
		asked := m.lease.doubt && len(m.gossip.Members) <= smallCluster
		if !suspected && !asked && !m.watches(r.Address) && m.evidence(r.Address) == NoEvidence {
			if p != nil {
				p.beaten = false
			}
			continue
		}
		p = m.peer(r.Address)
		interval := m.heartbeatInterval()
		if suspected {
			interval = min(interval, m.config.ProbeInterval)
			if limit := m.now.Add(interval); p.beat.After(limit) {
				p.beat = limit
			}
		}
		switch {
		case !m.due(&p.beat, interval):
		case r.Status == Down:
			// Not a heartbeat, from which it would take courage. If it is gone, the
			// broker says so.
			m.send(r.Address, Removal{Target: r.Address})
		default:
			m.beat(r.Address, p)
		}
	}
}

func (m *Machine) watches(node transport.Address) bool { return hasAddress(m.detect.watched, node) }

// probeLong is for how many GoneAfter a suspected member is probed often.
const probeLong = 5

// suspected tells whether the peer is to be probed often.
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
}
