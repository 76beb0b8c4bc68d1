package membership

import (
	"time"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// onUnreachable: the broker knows nobody who listens for the peer. One answer
// means little (the peer may be reconnecting); it starts the probing.
func (m *Machine) onUnreachable(in Unreachable) {
	if m.phase == asking && in.Peer == m.join.asked {
		m.join.trouble = in.Peer.String() + " offered to admit this node and then was gone (start it again, or raise Config.JoinTimeout)"
		m.search(0)
	}
	if m.phase != member || in.Server != m.conn.Server {
		return
	}
	r, ok := m.state.Member(in.Peer)
	if !ok || r.Fenced || in.Peer == m.config.Self {
		return
	}
	p := m.peer(in.Peer)
	if p.absent.IsZero() {
		p.absent, m.detect.stale = m.now, true
	}
	p.absentLast = m.now
	p.absentCount++
}

// clearEvidence drops everything that is held against others, because it may
// have come from this node's own connection or from its own standing still.
func (m *Machine) clearEvidence() {
	m.detect.cleared = m.now
	//arch:order-free each peer is treated alike
	for _, p := range m.detect.peers {
		p.absent, p.absentLast, p.absentCount = time.Time{}, time.Time{}, 0
		p.server, p.via = 0, 0
		p.phi.last = m.now
	}
	m.voting.forgive()
	m.downing.reset()
	if m.lease.doubt {
		m.doubt()
	}
	if m.phase != member {
		return
	}
	for _, r := range m.state.Records(m.config.Self) {
		m.markAs(r.Subject, gossip.NoEvidence, 0)
	}
}

// runDetection sends heartbeats and weighs what is known.
func (m *Machine) runDetection() {
	m.runBeats()
	if !m.echoAlive() {
		return
	}
	most := m.mostQuiet()
	records := m.state.Records(m.config.Self)
	for _, p := range m.detect.interest {
		held, marked := gossip.Record{}, false
		if len(records) > 0 {
			held, marked = gossip.RecordOf(records, p.node)
		}
		// That nobody listens is disproved by any message. Not to take it back at once
		// would leave a proof of death standing while others count on the member again.
		if marked && (p.acked.After(p.marked) || held.Evidence >= gossip.EvidenceCut && p.heard.After(p.marked)) {
			m.markAs(p.node, gossip.NoEvidence, 0)
			held = gossip.Record{}
		}
		e, quiet := m.weigh(p, most)
		if m.state.Members[p.place].Status == gossip.Down && e != gossip.EvidenceGone {
			continue // judged; only the proof that it is dead is news
		}
		if e > held.Evidence {
			p.marked = m.now
			m.markAs(p.node, e, quiet)
		}
	}
}

// markAs writes the own word about a member into the gossiped state.
func (m *Machine) markAs(node transport.Address, e gossip.Evidence, quiet time.Duration) {
	held, _ := m.state.Record(m.config.Self, node)
	m.update(func(g *gossip.State) {
		g.Rows = gossip.WithRecord(g.Rows, m.config.Self, gossip.Record{Subject: node, Evidence: e, Quiet: quiet.Truncate(time.Millisecond), Vouched: held.Vouched})
	})
}

// probeFirst is for how long a silent member of a large cluster is probed before
// it is held against it. It is short beside SilentAfter.
const probeFirst = 2 * time.Second

// absentProbes is how many times in a row the broker must have said it.
const absentProbes = 3

// weigh says what is to be held against a peer now, and how long it lasted.
func (m *Machine) weigh(p subject, most bool) (e gossip.Evidence, quiet time.Duration) {
	if !p.absent.IsZero() {
		at := p.absent.Add(m.config.GoneAfter)
		fresh := m.now.Sub(p.absentLast) <= absentProbes*m.config.ProbeInterval
		if !m.now.Before(at) && p.absentCount >= absentProbes && fresh {
			if m.sameServer(p.peer) {
				return gossip.EvidenceGone, m.now.Sub(p.absent)
			}
			return gossip.EvidenceCut, m.now.Sub(p.absent)
		}
	}
	if !p.beaten {
		return gossip.NoEvidence, 0
	}
	at := m.suspectAt(p.peer)
	if !m.small() {
		// What is said is told to all, so it is probed for a while first.
		at = at.Add(probeFirst)
		if !p.watched {
			return gossip.NoEvidence, 0 // only its watchers are counted
		}
	}
	if most && (m.small() || m.now.Sub(m.lease.heard) > m.config.LeaseMajority) {
		// The fault is more likely here. Being alone is judged by runCompany; what
		// is still silent then is held against it, so that a half that goes on can. Who
		// hears from half of all through a collector is not alone.
		at = maxTime(at, p.phi.last.Add(m.config.SilentAfter))
	}
	if m.now.Before(at) {
		m.wakeAt(at)
		return gossip.NoEvidence, 0
	}
	return gossip.EvidenceSilent, m.now.Sub(p.phi.last)
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// mostPeers is the number of watched members from which on the silence of most
// of them at once says more about the watcher.
const mostPeers = 4

// mostQuiet reports whether most watched members fell silent together. It looks
// earlier than the suspicion does, or the first to be suspected would be
// marked before the others are counted. Whom the broker has lost does not count.
func (m *Machine) mostQuiet() bool {
	watched, quiet := 0, 0
	for _, p := range m.detect.interest {
		if !p.watched || !p.beaten || !p.absent.IsZero() {
			continue
		}
		watched++
		if m.now.Sub(p.phi.last) > m.config.PauseAllowance/2+m.heartbeatInterval() {
			quiet++
		}
	}
	return watched >= mostPeers && 2*quiet > watched
}
