package membership

import (
	"slices"
	"time"
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
	var vouched []time.Time // by the other voters
	all := true             // who can be reached has vouched since the doubt began
	for _, r := range m.gossip.Members {
		// A Down member counts until it is fenced: on the wrong side of a cut, an
		// operator's word must not make this node the only one.
		counts := r.Status == Up || r.Status == Leaving || r.Status == Down && !r.Fenced && r.UpNumber != 0
		evidence := m.evidence(r.Address)
		if r.Address == m.config.Self || !counts || evidence == EvidenceGone {
			continue
		}
		var at time.Time
		p := m.detect.peers[r.Address]
		if p != nil {
			at = p.vouched
		}
		vouched = append(vouched, at)
		reachable := r.Status != Down && evidence == NoEvidence && (p == nil || p.absent.IsZero())
		all = all && (!reachable || !at.Before(m.lease.since))
		if m.lease.doubt && at.Before(m.lease.since) {
			vouched[len(vouched)-1] = time.Time{} // it may have judged this node since
		}
	}
	if len(vouched) == 0 {
		if m.self().UpNumber == 0 && len(m.gossip.Members) > 1 {
			return over // the others may be Up by now, and this node downed by them
		}
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
	slices.SortFunc(vouched, func(a, b time.Time) int { return b.Compare(a) })
	others := (len(vouched) + 1) / 2 // they make a majority together with this node
	lease := vouched[others-1].Add(m.config.LeaseMajority)
	if byEcho := m.detect.echoSent.Add(m.config.LeaseEcho); byEcho.Before(lease) {
		lease = byEcho
	}
	if !lease.After(m.now) {
		return over
	}
	m.lease.doubt = false
	return lease
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
