package table

import (
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/transport"
)

// A death is a member that is dead in the table and not fenced.
type death struct {
	known   time.Time // since when this node knows it
	version uint64    // of the table that showed the death
	// bounced is when the broker first answered, to a message sent after known, that nobody listens
	// for the member at the server through which it served.
	bounced time.Time
	touch   time.Time // when the next Removal is sent
	quiet   time.Time // since when no member that may not know of the death has written I-am-alive
	// contacts has, by member, the latest time at which it may have exchanged stands with the dead
	// member.
	contacts map[transport.Address]time.Time
	// fence is when this node may fence the member, as last computed; look is when to compute that
	// again.
	fence, look time.Time
}

// clockSpread is the divisor that gives a duration's possible clock error: clocks differ in rate by
// at most 1/50, or 2 %.
const clockSpread = 50

// noteDeaths begins to record each death that is new in the table. It forgets a death when the
// member's row is fenced or deleted.
func (m *Machine) noteDeaths() {
	for _, r := range m.table.Summary().Down {
		if m.deaths[r.Address] == nil {
			m.deaths[r.Address] = &death{known: m.Now, version: m.table.Version, quiet: m.Now}
			// The stand says when this node last exchanged one with the dead, and the echo orders the
			// broker's answers: see bounced.
			m.stand.due, m.echo.At = m.Now, m.Now
		}
	}
	//arch:order-free each death is treated alike
	for a := range m.deaths {
		if r := m.table.Row(a); r == nil || r.Fenced {
			delete(m.deaths, a)
		}
	}
}

// deathTouch is the time between two messages to a dead member that is not fenced.
const deathTouch = 200 * time.Millisecond

// runDeaths sends messages to the dead members that are not fenced. A member that still runs learns
// by the message that it is dead. If a member is gone, the broker answers that nobody listens.
func (m *Machine) runDeaths() {
	if len(m.deaths) == 0 {
		return
	}
	guide := slices.Contains(m.guides(), m.Config.Self)
	for _, r := range m.table.Summary().Down {
		d := m.deaths[r.Address]
		if d == nil || !guide && m.Phase == core.Joined && m.peer(r.Address).absent.IsZero() {
			continue
		}
		interval := deathTouch
		if m.Now.Sub(d.known) > time.Minute {
			interval = 10 * time.Second
		}
		if !m.Due(&d.touch, interval) {
			continue
		}
		m.Send(r.Address, message.Removal{Target: message.TargetOf(r.Address)})
		m.askServer(r, interval)
	}
}

// bounced handles a report by this node's server that a dead member has no subscription any more. It
// notes the time of the first report that counts. A report counts if the server knows for certain
// (see ownServer), and if it is about a message that was sent after this node knew of the death.
// That is so once an echo has returned that was sent after this node knew of it, because the server
// answers in order.
func (m *Machine) bounced(r *rows.Row) {
	d := m.deaths[r.Address]
	if d == nil || m.echo.Sent.Before(d.known) || !d.bounced.IsZero() || !m.ownServer(r) {
		return
	}
	d.bounced = m.Now
}

// ownServer reports whether this node's own server knows for certain whether a member is connected:
// the member is at the same server, or the broker has no other.
func (m *Machine) ownServer(r *rows.Row) bool {
	return m.Conn.Alone || r.Server != "" && lasting(r.Server) == lasting(m.place)
}

// lasting returns the server's name from place, without the instance, which a restart changes.
func lasting(place string) string {
	name, _, _ := strings.Cut(place, " ")
	return name
}

// wantedFence returns a write that fences a dead member whose lease has certainly ended.
func (m *Machine) wantedFence() (core.TableWrite, bool) {
	if !m.echo.EchoAlive() {
		return core.TableWrite{}, false
	}
	for _, r := range m.table.Summary().Down {
		d := m.deaths[r.Address]
		if d == nil {
			continue
		}
		if m.Now.Before(d.fence) && !m.Due(&d.look, fenceLook) {
			m.WakeAt(d.fence)
			continue
		}
		if d.fence = m.fencedAt(r, d); m.Now.Before(d.fence) {
			m.WakeAt(d.fence)
			continue
		}
		return m.change(r, func(r *rows.Row) { r.Fenced = true }), true
	}
	return core.TableWrite{}, false
}

const (
	// fenceLook is the time between two computations of a death's fence time, which look at all
	// members.
	fenceLook = 100 * time.Millisecond
	// fenceTurn is how much later each further guide fences a member, so that their writes do not
	// conflict.
	fenceTurn = 300 * time.Millisecond
)

// fencedAt returns when a dead member's lease has certainly ended, as far as this node can know:
// see doc.go.
func (m *Machine) fencedAt(r *rows.Row, d *death) time.Time {
	at, c := m.Now.Add(m.Config.Table.Outage), &m.Config
	if m.Phase == core.Joined { // no dead member counts a joiner: see metSince
		at = m.fencedByTime(r, d)
	}
	lapse := c.SelfHeartbeatTimeout + c.SelfHeartbeatTimeout/clockSpread
	if !d.bounced.IsZero() {
		at = core.Earlier(at, d.bounced.Add(lapse))
	}
	if p := m.peers[r.Address]; m.Phase == core.Joined && p != nil {
		asked, answered := p.elsewhere.Lately(markOf(r))
		if m.ownServer(r) {
			asked, answered = p.lost.asked, p.lost.answered
		}
		if proven, ok := m.provenAt(); ok && proven.Before(asked) {
			at = core.Earlier(at, answered.Add(lapse))
		}
	}
	return at
}

// fencedByTime returns what fencedAt would return without the broker's reports. The guides fence
// first, each fenceTurn later than the guide before it. Only guides use the times at which other
// members last exchanged stands with the dead member.
func (m *Machine) fencedByTime(r *rows.Row, d *death) time.Time {
	c := &m.Config
	lapse := c.QuorumTimeout + c.QuorumTimeout/clockSpread
	byTime := lapse + c.SelfHeartbeatTimeout
	rank := slices.Index(m.guides(), m.Config.Self)
	if rank < 0 {
		rank = maxGuides
		if at := d.known.Add(byTime + maxGuides*fenceTurn); m.Now.Before(at) {
			return at
		}
	}
	met, all := m.metAll(d.version)
	if !all {
		return m.quietSince(d).Add(c.Table.Outage + c.Table.Outage/clockSpread + byTime)
	}
	at := d.known.Add(byTime)
	if rank < maxGuides {
		if proven, ok := m.provenAt(); ok {
			at = core.Earlier(at, proven.Add(lapse))
		}
	}
	return core.Later(at, met.Add(byTime)).Add(time.Duration(rank) * fenceTurn)
}

// provenAt returns a bound: no dead member has a later proof. The bound is the same for all dead
// members, because they may have given each other their proofs. ok is false unless each member that
// was active before a death has said when it last exchanged stands with the dead member. See
// doc.go.
func (m *Machine) provenAt() (at time.Time, ok bool) {
	s := m.table.Summary()
	for _, dead := range s.Down {
		d := m.deaths[dead.Address]
		if d == nil {
			return at, false
		}
		for _, r := range s.Ages {
			if r.Address == m.Config.Self || uint64(r.UpNumber) > d.version {
				continue // it knew of the death when it became active
			}
			contact, said := d.contacts[r.Address]
			if !said {
				return at, false
			}
			at = core.Later(at, contact)
		}
		at = core.Later(at, m.knownSince(dead.Touched))
		if p := m.peers[dead.Address]; p != nil {
			at = core.Later(at, p.proven)
		}
	}
	return core.Later(at, m.ended), true // so may those that were fenced or have left
}

// noteEnded updates m.ended, the latest proof that dead members may have got from members that are
// newly fenced, left or deleted in t.
func (m *Machine) noteEnded(t *rows.Table) {
	if m.table == nil {
		m.ended = m.Now
		return
	}
	was, is := m.table.Summary(), t.Summary()
	gone := func(r *rows.Row) bool { return t.Row(r.Address) == nil }
	same := func(a, b *rows.Row) bool { return a.Address == b.Address }
	if len(t.Rows) >= len(m.table.Rows) && slices.EqualFunc(was.Ended, is.Ended, same) && !slices.ContainsFunc(was.Down, gone) {
		return
	}
	ended := func(r *rows.Row) bool { return r == nil || r.Fenced || r.Status == gossip.Removed }
	proven, ok := m.provenAt()
	for i := range m.table.Rows {
		r := &m.table.Rows[i]
		if ended(r) || !ended(t.Row(r.Address)) {
			continue
		}
		if r.Status != gossip.Down || !ok {
			proven = m.Now
		}
		m.ended = core.Later(m.ended, proven)
	}
	for _, r := range is.Ended {
		if m.table.Row(r.Address) == nil {
			m.ended = m.Now
		}
	}
}

// contacts returns how long ago this node exchanged lease proofs with each dead, unfenced member.
func (m *Machine) contacts() (all []message.Contact) {
	if len(m.table.Summary().Down) > maxContacts {
		return nil
	}
	for _, r := range m.table.Summary().Down {
		c := message.Contact{Node: r.Address, Age: m.Config.Table.Outage}
		if p := m.peers[r.Address]; p != nil && !p.proven.IsZero() {
			c.Age = m.Now.Sub(p.proven)
		}
		all = append(all, c)
	}
	return all
}

// maxContacts bounds the contacts in a stand. With more dead members, fences wait for the full
// time.
const maxContacts = 32

// noteContacts records when a sender, as its contacts say, last exchanged stands with dead members.
// Each time is taken as late as it can have been: the message took time, and the sender's clock may
// run fast.
func (m *Machine) noteContacts(from transport.Address, contacts []message.Contact) {
	for _, c := range contacts {
		if d := m.deaths[c.Node]; d != nil {
			if d.contacts == nil {
				d.contacts = make(map[transport.Address]time.Time)
			}
			age := c.Age - c.Age/clockSpread - time.Millisecond // rounded up
			d.contacts[from] = core.Later(d.contacts[from], m.Now.Add(-age))
		}
	}
}

// metAll returns the latest time at which this node met (see metSince) a member that may not know
// the given version. all is false if this node has not met every such member. A met member waits
// for this node's stands from then on. So it cannot have told the dead member later that all
// members stand at an earlier version.
func (m *Machine) metAll(version uint64) (last time.Time, all bool) {
	s := m.table.Summary()
	for _, list := range [][]*rows.Row{s.Ages, s.Down} {
		for _, r := range list {
			if r.Address == m.Config.Self || !m.mayLag(r, version) {
				continue
			}
			met, ok := m.metSince(r)
			if !ok {
				return last, false
			}
			last = core.Later(last, met)
		}
	}
	return last, true
}

// metSince reports whether a member certainly waits for this node's stands, and since when. A
// member does so if it has answered this node through the present connection, or became active
// after this node. If this node has not reconnected since it became active, the members that were
// active then also wait: each answered this node. A member that was dead by then did not answer.
func (m *Machine) metSince(r *rows.Row) (at time.Time, met bool) {
	p := m.peers[r.Address]
	switch {
	case uint64(r.UpNumber) > m.unmetTo && (m.unmet || uint64(r.UpNumber) > m.joiner.version):
		return time.Time{}, true
	case p != nil && !p.met.IsZero():
		return p.met, true
	}
	d := m.deaths[r.Address]
	return time.Time{}, !m.unmet && (p == nil || !p.passed) && (d == nil || d.version > m.joiner.entered)
}

// mayLag reports whether a member may still run turns without knowing a version. A member that
// became Up at that version or later knows it.
func (m *Machine) mayLag(r *rows.Row, version uint64) bool {
	if r.Status == gossip.Removed || r.Fenced || r.UpNumber == 0 || uint64(r.UpNumber) > version {
		return false
	}
	p := m.peers[r.Address]
	return p == nil || p.latest < version
}

// quietSince returns the latest time at which a member that may not know of the death wrote
// I-am-alive, or d.known.
func (m *Machine) quietSince(d *death) time.Time {
	s := m.table.Summary()
	for _, list := range [][]*rows.Row{s.Ages, s.Down} {
		for _, r := range list {
			if r.Address != m.Config.Self && m.mayLag(r, d.version) {
				d.quiet = core.Later(d.quiet, m.unchanged(r))
			}
		}
	}
	return d.quiet
}
