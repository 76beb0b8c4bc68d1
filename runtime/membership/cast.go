package membership

import "time"

// In a large cluster telling all is too much for everybody. There a change goes
// to the leader, which broadcasts the state; who is told it says so to the
// leader, with a small status; and the leader broadcasts that all have it. What
// is lost on the way the rounds repair. So a change costs two broadcasts and a
// small message a member, and versions that come close together cost one.

// casting is what the leader's broadcasts need.
type casting struct {
	digest  Digest    // the version when last looked at
	version time.Time // since when that is
	leader  uint64    // who led then
	seen    bool      // the leader has been told that this node has it
	owed    bool      // the state has to be told: by the leader to all, by others to it
	next    time.Time // not before that
	// announced is the version of which all were told that all have it.
	announced Digest
}

const (
	// castInterval is the least time between two states that one member tells, and
	// castPerMember what each member adds.
	castInterval  = 100 * time.Millisecond
	castPerMember = 250 * time.Microsecond
	// castAnswers is for how long after a new version nobody is answered who has an
	// older one: the broadcast is on its way.
	castAnswers = time.Second
)

func (m *Machine) castInterval() time.Duration {
	return max(castInterval, time.Duration(len(m.gossip.Members))*castPerMember)
}

// spreadLarge does what is due after a step.
func (m *Machine) spreadLarge() {
	c, f := &m.spreading.casting, m.facts()
	leads := f.leader == m.config.Self
	if led := ringPlace(f.leader); c.digest != f.digest || c.leader != led {
		if c.digest != f.digest {
			c.version = m.now
		}
		c.digest, c.leader, c.seen = f.digest, led, false
		c.owed = leads || !m.gossip.seenBy(f.leader)
	}
	switch {
	case f.leader.IsZero():
	case c.owed:
		if m.now.Before(c.next) {
			m.wakeAt(c.next)
			return
		}
		c.owed, c.seen, c.next = false, true, m.now.Add(m.castInterval())
		if leads {
			m.spreading.gossipAt = m.now.Add(m.config.GossipInterval)
			m.broadcast(GossipMessage{State: m.gossip})
		} else {
			m.send(f.leader, GossipMessage{mark32(f.leader), m.gossip})
		}
	case leads:
		if c.announced != f.digest && m.allReachedHaveSeen() {
			c.announced = f.digest
			m.broadcast(m.status(0))
		}
	case !c.seen:
		c.seen = true
		m.send(f.leader, m.status(mark32(f.leader)))
	}
}

// allReachedHaveSeen tells whether every member that acts has seen the version,
// but for unreachable ones.
func (m *Machine) allReachedHaveSeen() bool {
	f := m.facts()
	if f.why == "" {
		return true
	}
	lacking := f.must.Count() - m.gossip.Seen.common(f.must)
	for _, i := range f.troubled {
		if f.must.Has(i) && !m.gossip.Seen.Has(i) {
			lacking--
		}
	}
	return lacking == 0
}
