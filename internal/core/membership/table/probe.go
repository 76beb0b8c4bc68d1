package table

import (
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/detector"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/transport"
)

// probes is the state of this node's probes of ring successors, and of probes for other members.
type probes struct {
	asked map[uint64]asked // probes on their way, by number
	guard time.Time        // when a guide next looks for silent members
	seen  map[suspicion]time.Time
}

// An asked is a probe that was sent and has no answer yet.
type asked struct {
	sent    time.Time
	subject transport.Address
	via     transport.Address // the third member of an indirect probe
	watch   bool              // a probe of a watched member
	// asker, seq and until belong to an indirect probe for asker: this node answers it by the time
	// until.
	asker transport.Address
	seq   uint64
	until time.Time
}

// A suspicion identifies a vote in the table.
type suspicion struct {
	of, by transport.Address
	at     int64
}

// probe is what this node's probes show about a member.
type probe struct {
	seq        uint64    // of the probe on its way; 0 means none
	due        time.Time // when the next is sent, or the present one has failed
	missed     int
	voted      bool              // this node votes for its death
	witness    transport.Address // a healthy third member that could not reach it either
	forced     bool              // an operator has downed it
	quarantine bool              // messages to it could not be delivered
}

// successors calls the function do for each active or joining member except this node, in the order
// of the ring, beginning behind this node. It stops when do returns false.
func (m *Machine) successors(do func(r *rows.Row) bool) { m.table.Summary().After(m.self(), do) }

// watched returns the members that this node probes: its successors, and former successors against
// which this node votes.
func (m *Machine) watched() (list []*rows.Row) {
	m.successors(func(r *rows.Row) bool {
		list = append(list, r)
		return len(list) < m.Config.Table.Successors
	})
	for _, a := range m.noted {
		if r := m.table.Row(a); r != nil && !r.Gone() && m.peer(a).votes() && !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list
}

// runProbes sends the probes that are due, and counts those that were not answered in time.
func (m *Machine) runProbes() {
	interval := m.Config.Table.ProbeInterval
	patience := interval * time.Duration(1+m.health.score)
	//arch:order-free what is due is sent by the order of the members below
	for seq, a := range m.probes.asked {
		if a.watch || m.Now.Sub(a.sent) < patience || !a.asker.IsZero() {
			continue
		}
		delete(m.probes.asked, seq)
	}
	m.answerIndirect()
	if !m.echo.EchoAlive() {
		return // the fault is at this node, or at the broker
	}
	for _, r := range m.watched() {
		p := &m.peer(r.Address).probe
		if m.Now.Before(p.due) {
			m.WakeAt(p.due)
			continue
		}
		if p.seq != 0 {
			delete(m.probes.asked, p.seq)
			p.seq = 0
			p.missed++
			m.health.missed++
			if p.missed >= m.Config.Table.Missed {
				p.voted = true
				m.note(r.Address)
			}
		}
		if p.due.IsZero() { // not all at once
			p.due = m.Now.Add(time.Duration(m.Random.Int64N(int64(interval) + 1)))
			m.WakeAt(p.due)
			continue
		}
		p.due = m.Now.Add(patience)
		m.WakeAt(p.due)
		if left := m.Config.Table.Missed - p.missed; left <= 2 && p.missed > 0 {
			if third, ok := m.third(r.Address); ok {
				m.seq++
				p.seq = m.seq
				m.probes.asked[m.seq] = asked{sent: m.Now, subject: r.Address, via: third, watch: true}
				m.Send(third, message.IndirectProbe{Target: message.TargetOf(third), Seq: m.seq, Subject: r.Address, Within: patience / 2})
				continue
			}
		}
		p.seq = m.sendProbe(r.Address, 0, asked{subject: r.Address, watch: true})
	}
}

// votes reports whether this node votes for the peer's death, because the peer does not answer.
func (p *peer) votes() bool { return p.probe.voted || p.silent }

// runSilence lets a guide vote against members that it has not heard for AgreedAfter. It is in
// addition to the paper's probes, for clusters of at most MonitoredBy+1 members. The guide must
// hear more than half of the members; otherwise it may itself be cut off.
func (m *Machine) runSilence() {
	ages := m.table.Summary().Ages
	if len(ages) > m.Config.MonitoredBy+1 || !slices.Contains(m.guides(), m.Config.Self) || !m.echo.EchoAlive() {
		return
	}
	patience := m.Config.AgreedAfter * time.Duration(1+m.health.score)
	heard := 1
	var silent []*rows.Row
	for _, r := range ages {
		p := m.peers[r.Address]
		if r.Address == m.Config.Self || p == nil || p.heard.IsZero() {
			continue
		}
		if m.Now.Before(p.heard.Add(patience)) {
			heard++
		}
		if at := core.Later(p.heard, m.forgiven).Add(patience); m.Now.Before(at) {
			m.WakeAt(at)
		} else {
			silent = append(silent, r)
		}
	}
	if 2*heard <= len(ages) {
		return
	}
	for _, r := range silent {
		m.peer(r.Address).silent = true
		m.note(r.Address)
	}
}

func (m *Machine) sendProbe(to transport.Address, version uint64, a asked) uint64 {
	m.seq++
	a.sent = m.Now
	m.probes.asked[m.seq] = a
	m.Send(to, message.Probe{Target: message.TargetOf(to), Seq: m.seq, Version: version, Server: m.Mark})
	return m.seq
}

// third picks a member for an indirect probe, at random among those that seem healthy; false if
// there is none.
func (m *Machine) third(subject transport.Address) (transport.Address, bool) {
	var list []transport.Address
	for _, r := range m.table.Summary().Ages {
		if r.Address == m.Config.Self || r.Address == subject || len(m.fresh(r)) > 0 {
			continue
		}
		if p := m.peers[r.Address]; p == nil || p.absent.IsZero() && !p.votes() {
			list = append(list, r.Address)
		}
	}
	if len(list) == 0 {
		return transport.Address{}, false
	}
	return list[m.Random.IntN(len(list))], true
}

// onProbe answers a probe if this node knows the version named in it.
func (m *Machine) onProbe(from transport.Address, msg message.Probe) {
	m.health.probed = m.Now
	m.peer(from).isBehind(msg.Server, msg.Seq)
	if m.table.Version < msg.Version {
		m.client.want = true // a joiner tries again soon
		return
	}
	m.Send(from, message.ProbeAck{Target: message.TargetOf(from), Seq: msg.Seq, Version: m.table.Version})
}

func (m *Machine) onProbeAck(from transport.Address, msg message.ProbeAck) {
	a, ok := m.probes.asked[msg.Seq]
	if !ok || a.subject != from || !a.via.IsZero() {
		return
	}
	delete(m.probes.asked, msg.Seq)
	p := m.peer(from)
	p.latest = max(p.latest, msg.Version)
	m.meets(p, msg.Version)
	p.heard = m.Now
	m.health.answered = m.Now
	if !a.asker.IsZero() {
		m.Send(a.asker, message.IndirectAck{Target: message.TargetOf(a.asker), Seq: a.seq, Reached: true})
		return
	}
	m.reachedBy(p)
	m.joiner.proved(from, msg.Version)
}

// reachedBy drops the conclusions from missed probes of a peer that was reached.
func (m *Machine) reachedBy(p *peer) {
	p.probe.seq, p.probe.missed, p.probe.voted, p.probe.witness = 0, 0, false, transport.Address{}
}

// onIndirectProbe probes a subject for another member.
func (m *Machine) onIndirectProbe(from transport.Address, msg message.IndirectProbe) {
	if m.Phase != core.Joined || msg.Subject == m.Config.Self {
		return
	}
	until := m.Now.Add(min(msg.Within, m.Config.Table.ProbeInterval*(maxHealth+1)))
	m.sendProbe(msg.Subject, 0, asked{subject: msg.Subject, asker: from, seq: msg.Seq, until: until})
	m.WakeAt(until)
}

// answerIndirect answers the members whose indirect probes have timed out: the subject was not
// reached.
func (m *Machine) answerIndirect() {
	var late []uint64
	//arch:order-free they are sorted below
	for seq, a := range m.probes.asked {
		if a.asker.IsZero() {
			continue
		}
		if m.Now.Before(a.until) {
			m.WakeAt(a.until)
			continue
		}
		late = append(late, seq)
	}
	slices.Sort(late)
	for _, seq := range late {
		a := m.probes.asked[seq]
		delete(m.probes.asked, seq)
		if m.echo.EchoAlive() {
			m.Send(a.asker, message.IndirectAck{Target: message.TargetOf(a.asker), Seq: a.seq, Health: uint32(m.health.score)})
		}
	}
}

// onIndirectAck handles the answer of a third member. If a healthy one could not reach the subject,
// this node votes against the subject.
func (m *Machine) onIndirectAck(from transport.Address, msg message.IndirectAck) {
	a, ok := m.probes.asked[msg.Seq]
	if !ok || a.via != from {
		return
	}
	delete(m.probes.asked, msg.Seq)
	m.health.answered = m.Now // the third member has answered
	p := m.peer(a.subject)
	if p.probe.seq != msg.Seq {
		return
	}
	switch {
	case msg.Reached:
		m.reachedBy(p)
	case msg.Health == 0:
		p.probe.seq, p.probe.voted, p.probe.witness = 0, true, from
		m.note(a.subject)
		p.probe.missed++
		m.health.missed++
	}
}

// suspectReach is how many members touch a suspected one: those that precede it on the ring most
// closely. Each thereby finds out whether its own broker server has lost the suspected member.
const suspectReach = 8

// absentTouches is how many touches in a row the broker must pass on before this node believes that
// a peer listens again. The touches are needed, because a peer that does not watch this node may
// never send it anything.
const absentTouches = 10

// listens forgets that the broker said that nobody listens for the peer.
func (p *peer) listens() {
	p.absent, p.absentLast, p.absentAgain, p.missing = time.Time{}, time.Time{}, false, time.Time{}
	p.lost, p.elsewhere = report{}, detector.Elsewhere{}
}

// runTouches sends touches to members, because the broker answers that nobody listens if a member
// is not connected. It touches the successors on the ring, and the next member at this node's
// server: that server knows at once if that member's connection is lost. A guide also touches
// members that have fallen silent.
func (m *Machine) runTouches() {
	touch := func(r *rows.Row) {
		p := m.peer(r.Address)
		interval := m.Config.Table.TouchInterval
		if m.large() {
			interval *= 4
		}
		if !p.absent.IsZero() {
			interval = min(interval, m.Config.ProbeInterval)
			if limit := m.Now.Add(interval); p.touch.After(limit) {
				p.touch = limit
			}
		}
		if m.Due(&p.touch, interval) {
			if p.unbounced++; !p.absent.IsZero() && p.unbounced > absentTouches && m.echo.EchoAlive() {
				p.listens()
				m.stale = true
			}
			m.Send(r.Address, message.Touch{Target: message.TargetOf(r.Address)})
		}
	}
	for _, r := range m.accused() {
		if !m.peer(r.Address).absent.IsZero() {
			m.askServer(r, m.Config.ProbeInterval)
		}
	}
	n, mate := 0, m.Conn.Alone
	m.successors(func(r *rows.Row) bool {
		n++
		own := m.ownServer(r)
		if n <= m.Config.Table.Successors || own && !mate || n <= suspectReach && len(m.fresh(r)) > 0 {
			touch(r)
			mate = mate || own
		}
		return n < suspectReach || !mate
	})
	if !slices.Contains(m.guides(), m.Config.Self) || !m.Due(&m.probes.guard, m.Config.ProbeInterval/2) {
		return
	}
	for _, r := range m.table.Summary().Ring {
		if r.Address == m.Config.Self {
			continue
		}
		p := m.peer(r.Address)
		silent := m.Now.Sub(p.heard) > 3*m.Config.Table.StandInterval
		if silent || !p.absent.IsZero() {
			touch(r)
		}
	}
}

// onSuspected touches a peer at once.
func (m *Machine) onSuspected(node transport.Address) {
	if r := m.table.Row(node); m.Phase == core.Joined && r != nil && !r.Gone() && node != m.Config.Self {
		m.Send(node, message.Touch{Target: message.TargetOf(node)})
	}
}

// lostWait is the time from the broker's first report about a peer to the message whose answer
// counts for a fence. Meanwhile members read what the peer sent before: see fencedAt.
const lostWait = 100 * time.Millisecond

// onUnreachable handles the broker's report that nobody listens for a peer. One report proves
// little, because the peer may be reconnecting. So from the first report on, this node touches the
// peer often.
func (m *Machine) onUnreachable(in core.Unreachable) {
	r := m.table.Row(in.Peer)
	if in.Server != m.Conn.Server || r == nil || in.Peer == m.Config.Self {
		return
	}
	if r.Status == gossip.Down && !r.Fenced {
		m.bounced(r)
		return
	}
	if r.Gone() {
		return
	}
	p := m.peer(in.Peer)
	p.absentAgain = !p.absent.IsZero()
	if p.absent.IsZero() {
		p.absent = m.Now
		m.echo.At = core.Earlier(m.echo.At, m.Now.Add(lostWait))
	}
	if p.missing.IsZero() {
		p.missing = m.Now
	}
	p.absentLast, p.unbounced = m.Now, 0
	if p.lost == (report{}) && !m.echo.Sent.Before(p.absent.Add(lostWait)) {
		p.lost = report{m.echo.Sent, m.Now}
	}
	m.note(in.Peer)
	m.stale = true
	if m.ownServer(r) {
		m.leaveOut(p)
	}
}

// askServer asks the server named in a member's row about the member, unless that is this node's
// server.
func (m *Machine) askServer(r *rows.Row, interval time.Duration) {
	if server := markOf(r); server != 0 && !m.ownServer(r) {
		m.peer(r.Address).elsewhere.Ask(&m.Base, r.Address, server, interval)
	}
}

// unproven reports whether a member at another server has not been reported gone by that server
// lately.
func (m *Machine) unproven(r *rows.Row) bool {
	p := m.peers[r.Address]
	return p == nil || !p.elsewhere.Counts(markOf(r), m.Config.ProbeInterval, m.Now)
}

func markOf(r *rows.Row) message.ServerMark {
	return message.MarkOf(r.Server[strings.LastIndexByte(r.Server, ' ')+1:])
}

// onAsked handles the answer of a member's own server. If nobody listens there, the answer counts
// like a report of this node's own broker about a member at its server.
func (m *Machine) onAsked(in core.Asked) {
	if m.table == nil {
		return
	}
	r := m.table.Row(in.Peer)
	if r == nil || markOf(r) != in.Server || !m.peer(in.Peer).elsewhere.Answered(in, m.Now) {
		return
	}
	m.stale = true
	if d := m.deaths[in.Peer]; d != nil && !in.Listens && d.bounced.IsZero() && !in.At.Before(d.known) {
		d.bounced = m.Now
	}
}

// leaveOut stops waiting for the stands of a peer that the broker has lost. The peer must have sent
// a stand recently, and must have sent its last stand or probe through this node's broker instance,
// even if its row names an earlier instance. Up to its last stand, the peer had fenced only members
// that were dead at the version in that stand. It has lost its connection since, so it fences
// nobody by time until all members have heard it again.
func (m *Machine) leaveOut(p *peer) {
	if p.stood.version != 0 && p.server == m.Mark && m.Now.Sub(p.stood.at) <= m.Config.QuorumTimeout-m.Config.SelfHeartbeatTimeout {
		p.left = true
	}
}

// gone reports whether a member's own server has reported for GoneAfter that nobody listens for the
// member. If that is not this node's server, this node asks it through a second connection. If it
// is this node's server, and it has restarted since the member connected, the member has
// [detector.ReturnGrace] more to come back.
func (m *Machine) gone(r *rows.Row) bool {
	p := m.peers[r.Address]
	switch {
	case p == nil || p.absent.IsZero():
		return false
	case p.elsewhere.Lost(markOf(r), m.Config.GoneAfter, m.Config.ProbeInterval, m.Now):
		return true
	case !m.ownServer(r) || !m.absent(r, m.Config.GoneAfter):
		return false
	}
	back := p.missing.Add(m.Config.GoneAfter + detector.ReturnGrace)
	return m.Conn.Alone || r.Server == m.place || !m.Now.Before(back)
}

// absent reports whether this node's server has reported for the given time that nobody listens for
// a member. If the member is at another server, the path between the servers may be at fault.
func (m *Machine) absent(r *rows.Row, long time.Duration) bool {
	p := m.peers[r.Address]
	return p != nil && !p.absent.IsZero() && p.absentAgain && !p.absentLast.Before(p.absent.Add(long))
}
