package membership

import (
	"slices"
	"time"
)

// renewLease computes until when turns may start, and says so if it changed.
func (m *Machine) renewLease() {
	lease := m.leaseNow()
	m.out.LeaseChanged = !lease.Equal(m.lease)
	m.lease, m.out.Lease = lease, lease
}

func (m *Machine) leaseNow() time.Time {
	if m.phase != member {
		if m.lease.IsZero() || m.lease.After(m.now) {
			return m.now.Add(-1)
		}
		return m.lease
	}
	var heard []time.Time // the other voters
	for _, r := range m.gossip.Members {
		// A Down member counts until it is fenced: on the wrong side of a cut, an
		// operator's word must not make this node the only one.
		counts := r.Status == Up || r.Status == Leaving || r.Status == Down && !r.Fenced && r.UpNumber != 0
		if r.Address == m.config.Self || !counts || m.gossip.evidence(r.Address) == EvidenceGone {
			continue
		}
		var at time.Time
		if p := m.detect.peers[r.Address]; p != nil {
			at = p.vouched
		}
		heard = append(heard, at)
	}
	if len(heard) == 0 {
		return time.Time{}
	}
	slices.SortFunc(heard, func(a, b time.Time) int { return b.Compare(a) })
	others := (len(heard) + 1) / 2 // they make a majority together with this node
	majority := heard[others-1].Add(m.config.LeaseMajority)
	if byEcho := m.detect.echoSent.Add(m.config.LeaseEcho); byEcho.Before(majority) {
		return byEcho
	}
	return majority
}
