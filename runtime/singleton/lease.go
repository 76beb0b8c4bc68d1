package singleton

import "time"

type leaseState struct {
	held      bool      // LeaseAcquired came, and neither LeaseLost nor ReleaseLease followed
	asking    bool      // AcquireLease went out and was not answered
	releasing bool      // ReleaseLease went out and was not answered
	askAt     time.Time // when AcquireLease may follow
}

// onLease handles the answer to a lease request, or the loss of the lease. The manager gets the
// lease before it starts the instance, and releases it after the instance has stopped. If the lease
// is lost, the manager stops the instance.
func (m *Manager) onLease(in Input) {
	l := &m.lease
	switch in := in.(type) {
	case LeaseAcquired:
		l.asking, l.held = false, true
		if m.state != AcquiringLease {
			m.releaseLease() // the answer came too late, because this node leaves
		}
	case LeaseDenied:
		l.asking = false
		l.askAt = m.now.Add(max(m.config.LeaseRetry, min(in.RetryAfter, maxLeaseRest)))
		if m.state == AcquiringLease && in.Reason != m.why {
			m.why = in.Reason
			m.event(m.config.Self, "no lease: "+in.Reason)
		}
	case LeaseLost:
		if !l.held {
			return
		}
		l.held = false
		switch m.state {
		case Oldest:
			m.become(LosingLease, m.config.Self, "the lease is lost")
			m.halt(m.config.Self)
		case WasOldest:
			m.stop(m.oldest, "the lease is lost")
		}
	case LeaseReleased:
		l.releasing = false
		if m.state == HandingOver && !m.stopping {
			m.end("the instance has stopped")
		}
	}
}

const maxLeaseRest = 2 * time.Second

// askLease requests the lease when a request is due. It makes no request while an earlier lease is
// being released, because the request could overtake the release.
func (m *Manager) askLease() {
	l := &m.lease
	if m.state != AcquiringLease || l.held || l.asking || l.releasing || m.now.Before(l.askAt) {
		return
	}
	l.asking = true
	m.out.AcquireLease = true
}

// releaseLease begins to release the lease, or returns false if it is not held.
func (m *Manager) releaseLease() bool {
	if !m.lease.held {
		return false
	}
	m.lease.held, m.lease.releasing = false, true
	m.out.ReleaseLease = true
	return true
}
