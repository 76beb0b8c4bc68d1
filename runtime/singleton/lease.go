package singleton

import "time"

// leaseState is what the manager knows about the lease under which its instance runs.
type leaseState struct {
	held      bool      // LeaseAcquired came, and neither LeaseLost nor ReleaseLease followed
	asking    bool      // AcquireLease went out and was not answered
	releasing bool      // ReleaseLease went out and was not answered
	askAt     time.Time // no AcquireLease before
}

// onLease handles the result of a lease request, or the loss of the lease. The manager holds the
// lease from before the instance starts until after the instance has stopped. If the lease is lost
// earlier, the manager stops the instance.
func (m *Manager) onLease(in Input) {
	l := &m.lease
	switch in := in.(type) {
	case LeaseAcquired:
		l.asking, l.held = false, true
		if m.state != AcquiringLease {
			m.releaseLease() // it came too late, because this node leaves
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

// maxLeaseRest bounds the pause before the manager asks again for a lease that another node holds.
// It is short because the holder may release the lease early.
const maxLeaseRest = 2 * time.Second

// askLease asks for the lease when a request is due. It waits while an earlier lease is being
// released, so that the two requests cannot overtake each other.
func (m *Manager) askLease() {
	l := &m.lease
	if m.state != AcquiringLease || l.held || l.asking || l.releasing || m.now.Before(l.askAt) {
		return
	}
	l.asking = true
	m.out.AcquireLease = true
}

// releaseLease begins to release the lease. It returns false if the manager holds none.
func (m *Manager) releaseLease() bool {
	if !m.lease.held {
		return false
	}
	m.lease.held, m.lease.releasing = false, true
	m.out.ReleaseLease = true
	return true
}
