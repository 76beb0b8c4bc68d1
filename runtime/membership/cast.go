package membership

import (
	"time"

	"github.com/shardgen/shardgen/internal/membership/message"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// In a large cluster telling all is too much for everybody. There a change goes
// to the leader, which broadcasts the state; who is told it says so to the
// leader, with a small status; and the leader broadcasts that all have it. What
// is lost on the way the rounds repair. So a change costs two broadcasts and a
// small message a member, and versions that come close together cost one.
//
// A cut may take the leader away, and then it takes evidence against it, and
// against all that come before the next one who can lead, until there is a new
// one: evidence that has to be spread. So a leader that says nothing for castMute
// after it was told something is given up for the time being: changes go to the
// hub, the first collector that answers, and that one broadcasts them.

// casting is what the leader's broadcasts need.
type casting struct {
	digest  gossip.Digest // the version when last looked at
	version time.Time     // since when that is
	caster  uint64        // who broadcast then
	seen    bool          // that one has been told that this node has it
	owed    bool          // the state has to be told: by the leader to all, by others to it
	next    time.Time     // not before that
	// told is since when the leader has said nothing although it was told something.
	told time.Time
	// announced is the version of which all were told that all have it.
	announced gossip.Digest
}

const (
	// castInterval is the least time between two states that one member tells, and
	// castPerMember what each member adds.
	castInterval  = 100 * time.Millisecond
	castPerMember = 250 * time.Microsecond
	// castAnswers is for how long after a new version nobody is answered who has an
	// older one: the broadcast is on its way.
	castAnswers = time.Second
	// castMute is for how long a leader may say nothing. It broadcasts every second
	// as long as some have not seen what it was told.
	castMute = 2500 * time.Millisecond
)

func (m *Machine) castInterval() time.Duration {
	return max(castInterval, time.Duration(len(m.state.Members))*castPerMember)
}

// caster is who broadcasts changes for this node: the leader, or the hub while
// nothing is heard from the leader. Zero: nobody does.
func (m *Machine) caster() transport.Address {
	c, leader := &m.spreading.casting, m.local().Leader
	if leader == m.config.Self || c.told.IsZero() {
		return leader
	}
	if at := c.told.Add(castMute); m.now.Before(at) {
		m.wakeAt(at)
		return leader
	}
	return m.hub()
}

// casts reports whether it is on this node to tell all.
func (m *Machine) casts() bool { return !m.small() && m.caster() == m.config.Self }

// leaderSpoke: it is not mute, whoever led before.
func (m *Machine) leaderSpoke(from transport.Address) {
	if !m.spreading.casting.told.IsZero() && m.phase == member && from == m.local().Leader {
		m.spreading.casting.told = time.Time{}
	}
}

// spreadLarge does what is due after a step.
func (m *Machine) spreadLarge() {
	c, f := &m.spreading.casting, m.local()
	caster := m.caster()
	casts := caster == m.config.Self
	if place := gossip.RingPlace(caster); c.digest != f.Digest || c.caster != place {
		if c.digest != f.Digest {
			c.version = m.now
		}
		c.digest, c.caster, c.seen = f.Digest, place, false
		c.owed = casts || !m.state.SeenBy(caster)
	}
	switch {
	case caster.IsZero():
	case c.owed:
		if m.now.Before(c.next) {
			m.wakeAt(c.next)
			return
		}
		c.owed, c.seen, c.next = false, true, m.now.Add(m.castInterval())
		if casts {
			m.spreading.gossipAt = m.now.Add(m.config.GossipInterval)
			m.broadcast(message.Gossip{State: m.state})
		} else {
			m.tellCaster(message.Gossip{Target: message.TargetOf(caster), State: m.state})
		}
	case casts:
		if c.announced != f.Digest && m.allReachedHaveSeen() {
			c.announced = f.Digest
			m.broadcast(m.status(0))
		}
	case !c.seen:
		c.seen = true
		m.tellCaster(m.status(message.TargetOf(caster)))
	}
}

// tellCaster sends a word to the caster, and expects one from the leader.
func (m *Machine) tellCaster(msg message.Message) {
	c, caster := &m.spreading.casting, m.caster()
	if c.told.IsZero() {
		c.told = m.now
		m.wakeAt(m.now.Add(castMute))
	}
	m.send(caster, msg)
}

// allReachedHaveSeen reports whether every member that acts has seen the version,
// but for unreachable ones.
func (m *Machine) allReachedHaveSeen() bool {
	f := m.local()
	if f.Why == "" {
		return true
	}
	lacking := f.Must.Count() - m.state.Seen.Common(f.Must)
	for _, i := range f.Unreachable {
		if f.Must.Has(i) && !m.state.Seen.Has(i) {
			lacking--
		}
	}
	return lacking == 0
}
