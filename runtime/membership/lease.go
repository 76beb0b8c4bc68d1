package membership

import (
	"time"

	"github.com/shardgen/shardgen/internal/membership/splitbrain"

	"github.com/shardgen/shardgen/internal/membership/gossip"

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
	// majority is when a quorum certainly counted on this node last. What was proven
	// then stays so, whoever joins or goes later. All is when all that could be
	// reached did, every when all did that are not Down, and heard when half of them
	// were heard at all, whomever they counted on; those only by the votes of a large
	// cluster.
	majority, all, every, heard time.Time
	bench                       leaseBench // of small clusters
}

// leaseNow computes the lease from who vouched for this node and when.
func (m *Machine) leaseNow() time.Time {
	over := m.lease.until
	if over.IsZero() || over.After(m.now) {
		over = m.now.Add(-1)
	}
	if m.phase != member {
		return over
	}
	alone := m.otherVoters() == 0
	if alone && m.self().UpNumber == 0 && len(m.state.Members) > 1 {
		return over // the others may be Up by now, and this node downed by them
	}
	if alone && m.enoughAlone() {
		m.lease.doubt, m.lease.majority = false, m.now
		return time.Time{}
	}
	var all bool
	if m.small() {
		all = m.countVouched()
	} else {
		all = !m.lease.all.Before(m.lease.since)
	}
	if !m.lease.doubt && !m.lease.until.IsZero() && !m.lease.until.After(m.now) {
		m.doubt()
		return over
	}
	if m.lease.doubt && (!all || m.lease.majority.Before(m.lease.since)) {
		return over
	}
	if _, unheard := m.unheard(); unheard {
		return over
	}
	lease := m.lease.majority.Add(m.config.LeaseMajority)
	if byEcho := m.detect.echoSent.Add(m.config.LeaseEcho); byEcho.Before(lease) {
		lease = byEcho
	}
	if !lease.After(m.now) {
		return over
	}
	if m.lease.doubt {
		m.lease.doubt, m.detect.stale = false, true
	}
	return lease
}

// enoughAlone reports whether this node is a quorum when nobody else counts.
func (m *Machine) enoughAlone() bool {
	var voters []transport.Address
	if m.config.votes(m.self()) {
		voters = append(voters, m.config.Self)
	}
	return m.strategy.Quorum(m.electorate(voters)).Met(func(node transport.Address) bool { return node == m.config.Self })
}

// A leaseBench is whose word counts for the lease, made for a shape and an electorate:
// it is asked for at every step.
type leaseBench struct {
	of, elected *gossip.Summary
	quorum      splitbrain.Quorum
	voters      []*peer // in the order of quorum.voters; nil: this node
	times       []time.Time
	others      []leaseWord
}

// A leaseWord is one of the others that are not Down.
type leaseWord struct {
	*peer
	reachable bool
}

// bench returns whose word counts now.
func (m *Machine) bench() *leaseBench {
	f, b := m.local(), &m.lease.bench
	if b.of == f.Summary && b.elected == m.downing.elected {
		return b
	}
	*b = leaseBench{of: f.Summary, elected: m.downing.elected}
	var voters []transport.Address
	for i, r := range m.state.Members {
		if i != f.Self && !m.counted(r) {
			continue
		}
		if m.config.votes(r) {
			voters = append(voters, r.Address)
			b.voters = append(b.voters, nil)
			if i != f.Self {
				b.voters[len(voters)-1] = m.peer(r.Address)
			}
		}
		if i != f.Self && r.Status != gossip.Down {
			b.others = append(b.others, leaseWord{m.peer(r.Address), f.Evidence[i] == gossip.NoEvidence})
		}
	}
	b.quorum, b.times = m.strategy.Quorum(m.electorate(voters)), make([]time.Time, len(voters))
	return b
}

// countVouched takes in what this node heard itself, in a small cluster: when a
// quorum vouched, when all others did, and whether all that can be reached have
// since the doubt began.
func (m *Machine) countVouched() (all bool) {
	b := m.bench()
	for i, p := range b.voters {
		b.times[i] = m.now
		if p != nil {
			b.times[i] = p.vouched
		}
	}
	m.lease.majority = maxTime(m.lease.majority, b.quorum.SinceTimes(b.times, m.vouchedAt))
	all, m.lease.every = true, m.now
	for _, p := range b.others {
		m.lease.every = earlier(m.lease.every, p.vouched)
		if p.reachable && p.absent.IsZero() && p.vouched.Before(m.lease.since) {
			all = false
		}
	}
	return all
}

// vouchedAt is since when a node certainly counted on this one last.
func (m *Machine) vouchedAt(node transport.Address) time.Time {
	if node == m.config.Self {
		return m.now
	}
	if p := m.detect.peers[node]; p != nil {
		return p.vouched
	}
	return time.Time{}
}

// doubt begins, or begins again, and asks everybody at once.
func (m *Machine) doubt() {
	m.lease.doubt, m.lease.since = true, m.now
	m.detect.echoAt, m.detect.stale = m.now, true
	for i := range m.voting.collectors {
		m.voting.collectors[i].due = m.now
	}
	//arch:order-free each peer is treated alike
	for _, p := range m.detect.peers {
		p.beat = m.now
	}
	m.wakeAt(m.now)
}
