package membership

import (
	"time"

	"github.com/shardgen/shardgen/transport"
)

// renewLease computes until when turns may start, and says so if it changed.
func (m *Machine) renewLease() {
	lease := m.leaseNow()
	m.out.LeaseChanged = !lease.Equal(m.lease.until)
	m.lease.until, m.out.Lease = lease, lease
}

// leaseState is what a lease remembers.
type leaseState struct {
	until time.Time
	// doubt: a lease ran out. Others may have judged this node meanwhile, so a
	// majority is not enough to start again: it could be one of nodes that all
	// stood still. All that can be reached must have vouched since then, and a
	// majority: over a new connection nobody at all may be reached at first.
	doubt bool
	since time.Time
}

func (m *Machine) leaseNow() time.Time {
	over := m.lease.until
	if over.IsZero() || over.After(m.now) {
		over = m.now.Add(-1)
	}
	if m.phase != member {
		return over
	}
	voters, alone, all := m.leaseVoters()
	quorum := m.strategy.quorum(m.electorate(voters))
	if alone && m.self().UpNumber == 0 && len(m.gossip.Members) > 1 {
		return over // the others may be Up by now, and this node downed by them
	}
	if alone && quorum.met(func(node transport.Address) bool { return node == m.config.Self }) {
		m.lease.doubt = false
		return time.Time{}
	}
	if !m.lease.doubt && !m.lease.until.IsZero() && !m.lease.until.After(m.now) {
		m.doubt()
		return over
	}
	if m.lease.doubt && !all {
		return over
	}
	if _, unheard := m.unheard(); unheard {
		return over
	}
	lease := quorum.since(func(node transport.Address) time.Time {
		if node == m.config.Self {
			return m.now
		}
		p := m.detect.peers[node]
		if p == nil || m.lease.doubt && p.vouched.Before(m.lease.since) {
			return time.Time{} // it may have judged this node since
		}
		return p.vouched
	}).Add(m.config.LeaseMajority)
	if byEcho := m.detect.echoSent.Add(m.config.LeaseEcho); byEcho.Before(lease) {
		lease = byEcho
	}
	if !lease.After(m.now) {
		return over
	}
	m.lease.doubt = false
	return lease
}

// leaseVoters are those whose word counts for the lease, this node included, by
// address. Alone: there is no other member that could run turns. All: who of the
// others can be reached has vouched since the doubt began.
func (m *Machine) leaseVoters() (voters []transport.Address, alone, all bool) {
	alone, all = true, true
	for _, r := range m.gossip.Members {
		if r.Address == m.config.Self {
			if m.config.votes(r) {
				voters = append(voters, r.Address)
			}
			continue
		}
		if !m.counted(r) {
			continue
		}
		alone = false
		if m.config.votes(r) {
			voters = append(voters, r.Address)
		}
		p := m.detect.peers[r.Address]
		reachable := r.Status != Down && m.evidence(r.Address) == NoEvidence && (p == nil || p.absent.IsZero())
		all = all && (!reachable || p != nil && !p.vouched.Before(m.lease.since))
	}
	return voters, alone, all
}

// doubt begins, or begins again, and asks everybody at once.
func (m *Machine) doubt() {
	m.lease.doubt, m.lease.since = true, m.now
	m.detect.echoAt = m.now
	//arch:order-free each peer is treated alike
	for _, p := range m.detect.peers {
		p.beat = m.now
	}
	m.wakeAt(m.now)
}
