package table

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/transport"
)

// A lease has the time until which this node may run turns. It is the earlier of two times:
// QuorumTimeout after the latest proof, and SelfHeartbeatTimeout after this node sent the last echo
// that came back. See doc.go.
type lease struct {
	until time.Time
	// proof is the latest known moment at which this node was certainly not dead in the table.
	proof time.Time
	// written is like proof, but counts only writes to the table by this node or one that it asked.
	written time.Time
	// doubt means that the lease waits for a write later than since, when the connection was made.
	// Before, the broker may have called this node gone, and another member fenced it.
	doubt bool
	since time.Time
}

// proved records a time at which the known version was certainly the table's.
func (m *Machine) proved(at time.Time) { m.lease.proof = core.Later(m.lease.proof, at) }

// wasWritten records a proof: the table was written at the given time or later.
func (m *Machine) wasWritten(at time.Time) {
	m.lease.written = core.Later(m.lease.written, at)
	m.proved(at)
}

// beginDoubt stops prolonging the lease until the table is written again.
func (m *Machine) beginDoubt() {
	m.lease.doubt, m.lease.since = true, m.Now
	m.stand.due, m.client.want = m.Now, m.Phase != core.Idle
}

// renew computes the lease, and reports a change of it in the output.
func (m *Machine) renew() {
	l := &m.lease
	was := l.until
	l.until = m.leaseNow()
	m.Out.LeaseChanged = !l.until.Equal(was)
	m.Out.Lease = l.until
}

func (m *Machine) leaseNow() time.Time {
	l := &m.lease
	over := core.Earlier(l.until, m.Now.Add(-1))
	if m.Phase != core.Joined || !m.self().Active() {
		return over
	}
	if l.doubt {
		named := m.Conn.Alone || m.self().Server == m.place
		if !named || !l.written.After(l.since) || !m.echo.Good {
			return l.until
		}
	}
	until := core.Earlier(l.proof.Add(m.Config.QuorumTimeout), m.echo.Sent.Add(m.Config.SelfHeartbeatTimeout))
	if !until.After(m.Now) {
		return core.Earlier(l.until, until)
	}
	l.doubt = false
	return until
}

// stand is the state of the exchange of stands, by which leases are prolonged: see doc.go.
type stand struct {
	due    time.Time // when the next stands are sent
	sentAt time.Time // when the last stands left
	sent   []sentStand
	number uint64
	guides []transport.Address
	of     *rows.Table // the table of guides
	meet   time.Time   // when a guide next probes unmet members
	behind uint64      // the highest version that a guide has named
	alive  time.Time   // the latest known I-am-alive write, of any member
	agreed agreed      // kept for agreedLife
	// patience is the age of a proof at which this node writes to get another; each proof has its
	// own.
	patience time.Duration
	proof    time.Time
}

type sentStand struct {
	seq  uint64
	sent time.Time
}

// An answer is this guide's answer to a member's stand.
type answer struct {
	number uint64
	sent   time.Time
}

// A stood is a peer's last stand that counts in agree.
type stood struct {
	version uint64
	at      time.Time // a time before the stand was sent
	except  []transport.Address
}

// An agreed is a time at which all members stood at a version.
type agreed struct {
	version uint64
	at      time.Time // zero means that not all members do
	made    time.Time
	except  []transport.Address
}

const (
	maxSentStands = 32
	maxAnswers    = 8
	maxGuides     = 3
	agreedLife    = 20 * time.Millisecond
	recentChange  = 400 * time.Millisecond
)

func (s *stand) aliveKnown(at time.Time) { s.alive = core.Later(s.alive, at) }

// guides returns the members that give proofs to the others: the oldest maxGuides members. There is
// at least one if this node is a member.
func (m *Machine) guides() []transport.Address {
	s := &m.stand
	if s.of != m.table {
		s.of, s.guides = m.table, nil
		ages := m.table.Summary().Ages
		for _, r := range ages[:min(len(ages), maxGuides)] {
			s.guides = append(s.guides, r.Address)
		}
	}
	return s.guides
}

// runStand sends the stands that are due. If stands give no proof, it requests a write of the
// table.
func (m *Machine) runStand() {
	s := &m.stand
	if m.row < 0 {
		return
	}
	guides := m.guides()
	guide := slices.Contains(guides, m.Config.Self)
	interval := m.Config.Table.StandInterval
	if !guide {
		interval = m.larger(interval)
	}
	if m.Due(&s.due, interval) {
		s.sentAt = m.Now
		m.client.want = m.client.want || s.behind > m.table.Version // its answer had no room for the table
		for i, g := range guides {
			if g != m.Config.Self && (i == 0 || guide || !m.firstSuffices(guides[0])) {
				m.sendStand(g)
			}
		}
		if n := len(m.client.ahead); n > 0 { // the guides may be out of reach
			m.sendStand(m.client.ahead[n-1].from)
			m.client.ahead = nil
		}
		if w := m.client.writer; !w.IsZero() && w != m.Config.Self && !slices.Contains(guides, w) && (m.lease.doubt || m.Now.Sub(m.lease.proof) > m.Config.Table.StandInterval) {
			m.sendStand(w)
		}
	}
	if m.Phase != core.Joined {
		return
	}
	if guide {
		if a := m.agree(); !a.at.IsZero() && !slices.Contains(a.except, m.Config.Self) {
			m.proved(a.at)
		}
		m.meetAll()
	}
	m.wantProof(guides)
}

// firstSuffices reports whether stands to the oldest guide are enough. They are in a large cluster,
// as long as that guide answers and this node's proof is young.
func (m *Machine) firstSuffices(first transport.Address) bool {
	p := m.peers[first]
	return m.large() && m.Phase == core.Joined && p != nil && p.absent.IsZero() &&
		m.Now.Sub(p.heard) < 3*m.Config.Table.StandInterval && m.Now.Sub(m.lease.proof) < m.proofAsk()
}

// proofAsk is the proof's age at which a member asks all guides for a new one.
func (m *Machine) proofAsk() time.Duration { return m.Config.QuorumTimeout * 13 / 20 }

// wantProof requests a write of this node's row when the node's latest proof becomes old. The write
// gives a proof to this node, and through stands to others. The guides write first, one after
// another. Another member first asks the guides and the last writer repeatedly for a proof. Only if
// that fails, it writes, at a random time. While all members stand at one version, stands keep
// proofs fresh, and nobody writes: a proof is then about two stand intervals old at a guide, and
// three at another member.
func (m *Machine) wantProof(guides []transport.Address) {
	s, l := &m.stand, &m.lease
	half, step := m.Config.QuorumTimeout/2, m.Config.QuorumTimeout/20
	rank := slices.Index(guides, m.Config.Self)
	if s.patience == 0 || s.proof != l.proof {
		s.proof = l.proof
		s.patience = half + time.Duration(rank)*step
		if rank < 0 {
			s.patience = half + 4*step + time.Duration(m.Random.Int64N(int64(2*step)))
		}
	}
	ask, at := l.proof.Add(m.proofAsk()), l.proof.Add(s.patience)
	if l.doubt && !l.written.After(l.since) {
		ask, at = l.since.Add(step), l.since.Add(s.patience-half)
	}
	if rank < 0 {
		if c := &m.client; !m.Now.Before(ask) {
			s.due = core.Earlier(s.due, s.sentAt.Add(step))
			m.WakeAt(s.due)
			if !c.writer.IsZero() && c.writer != m.Config.Self {
				if !c.asked {
					c.asked = true
					m.sendStand(c.writer)
				}
				at = core.Later(at, core.Earlier(c.wrote.Add(step), at.Add(2*step)))
			}
		} else {
			m.WakeAt(ask)
		}
	}
	m.client.touch = !m.Now.Before(at)
	if !m.client.touch {
		m.WakeAt(at)
	}
}

// large reports whether the cluster has more than SmallCluster members.
func (m *Machine) large() bool { return len(m.table.Summary().Ring) > m.Config.SmallCluster }

// larger returns the interval, doubled if the cluster is large.
func (m *Machine) larger(interval time.Duration) time.Duration {
	if m.large() {
		return 2 * interval
	}
	return interval
}

func (m *Machine) sendStand(g transport.Address) {
	s, p := &m.stand, m.peer(g)
	m.seq++
	if len(s.sent) == maxSentStands {
		s.sent = slices.Delete(s.sent, 0, 1)
	}
	s.sent = append(s.sent, sentStand{m.seq, m.Now})
	m.Send(g, message.Stand{
		Target: message.TargetOf(g), Seq: m.seq, Version: m.table.Version, Got: p.got, Server: m.Mark,
		Except: m.unsureNodes(), Alive: m.ageOf(s.alive), Dead: m.contacts(),
	})
}

// unsureNodes returns the members that this node may have declared dead, or is about to.
func (m *Machine) unsureNodes() (nodes []transport.Address) {
	for _, u := range m.client.unsure {
		nodes = append(nodes, u.node)
	}
	if w := m.client.writing; w != nil && len(w.Rows) == 1 && w.Rows[0].Status == gossip.Down {
		nodes = append(nodes, w.Rows[0].Address)
	}
	return nodes
}

// ageOf returns the time that has passed since at, but at least 1 ms. It returns 0, which means
// never, for the zero time.
func (m *Machine) ageOf(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(m.Now.Sub(at), time.Millisecond)
}

// onStand records the version at which a peer stands, and answers with this guide's latest proof.
func (m *Machine) onStand(from transport.Address, msg message.Stand) {
	p, s := m.peer(from), &m.stand
	p.latest = max(p.latest, msg.Version)
	p.isBehind(msg.Server, msg.Seq)
	m.noteContacts(from, msg.Dead)
	for _, a := range p.answers {
		if a.number == msg.Got {
			if !a.sent.Before(p.stood.at) {
				p.stood = stood{msg.Version, a.sent, msg.Except}
			}
			if msg.Alive != 0 {
				s.aliveKnown(a.sent.Add(-msg.Alive))
			}
		}
	}
	switch {
	case msg.Version < m.table.Version:
		m.sendTable(from, msg.Version)
	case msg.Version > m.table.Version:
		m.client.want = true
	}
	if m.Phase != core.Joined {
		return
	}
	s.number++
	p.proven = m.Now
	if len(p.answers) == maxAnswers {
		p.answers = slices.Delete(p.answers, 0, 1)
	}
	p.answers = append(p.answers, answer{s.number, m.Now})
	written := m.client.contact
	base := written
	if a := m.agree(); !slices.Contains(a.except, from) {
		base = core.Later(base, a.at)
	}
	m.Send(from, message.StandAck{
		Target: message.TargetOf(from), Seq: msg.Seq, Number: s.number, Version: m.table.Version, Age: m.ageOf(base), Written: m.ageOf(written),
	})
}

func (m *Machine) onStandAck(from transport.Address, msg message.StandAck) {
	s, p := &m.stand, m.peer(from)
	i := slices.IndexFunc(s.sent, func(x sentStand) bool { return x.seq == msg.Seq })
	if i < 0 {
		return
	}
	p.proven = m.Now
	sent := s.sent[i].sent
	s.sent = slices.Delete(s.sent, i, i+1)
	p.got, p.latest = max(p.got, msg.Number), max(p.latest, msg.Version)
	switch {
	case msg.Version == m.table.Version && msg.Age != 0:
		m.proved(sent.Add(-msg.Age))
		if msg.Written != 0 {
			m.wasWritten(sent.Add(-msg.Written))
		}
	case msg.Version < m.table.Version:
		m.sendTable(from, msg.Version)
	default:
		s.behind = max(s.behind, msg.Version)
	}
}

// sendTable sends the table to a node that knows only the given version. If the table does not fit
// in a message, sendTable sends nothing, and the node reads the table itself. It sends nothing,
// either, if this node learnt of the next version less than recentChange ago: that change's
// broadcast is still on its way.
func (m *Machine) sendTable(to transport.Address, version uint64) {
	if m.Now.Sub(m.knownSince(version+1)) < recentChange {
		return
	}
	if m.limit == 0 || m.table.Summary().Bytes <= m.limit {
		m.Send(to, message.Snapshot{Target: message.TargetOf(to), Table: m.table})
	}
}

// meets records that a peer has answered a message sent through the present connection. A peer that
// knows the version with this node's row waits for this node's stands.
func (m *Machine) meets(p *peer, version uint64) {
	if p.met.IsZero() && version >= m.joiner.version {
		p.met = m.Now
	}
}

// agree returns a time at which all members, including this node, stood at the present version.
// Members left out because they are gone do not count: see leaveOut.
func (m *Machine) agree() agreed {
	s := &m.stand
	if s.agreed.version == m.table.Version && m.Now.Sub(s.agreed.made) < agreedLife {
		return s.agreed
	}
	a := agreed{version: m.table.Version, at: m.Now, made: m.Now, except: m.unsureNodes()}
	for _, r := range m.table.Summary().Ring {
		if r.Address == m.Config.Self {
			continue
		}
		switch p := m.peers[r.Address]; {
		case p != nil && p.left:
		case p == nil || p.stood.version != a.version:
			a.at = time.Time{}
		default:
			a.at = core.Earlier(a.at, p.stood.at)
			a.except = append(a.except, p.stood.except...)
		}
		if a.at.IsZero() {
			break
		}
	}
	if m.Now.Sub(s.alive) > m.Config.Table.Outage {
		a.at = time.Time{}
	}
	s.agreed = a
	return a
}

// meetAll makes this guide probe, once a second, all members that it has not met (see metSince)
// since its connection was made. Until they answer, the guide may fence nobody by time.
func (m *Machine) meetAll() {
	if !m.Due(&m.stand.meet, time.Second) {
		return
	}
	for _, r := range m.table.Summary().Ring {
		if _, met := m.metSince(r); r.Address != m.Config.Self && !met {
			m.sendProbe(r.Address, m.joiner.version, asked{subject: r.Address})
		}
	}
}
