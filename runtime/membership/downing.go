package membership

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/membership/splitbrain"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// downingState is what deciding about unreachable members needs.
type downingState struct {
	// electorate are the Up and Leaving members of the last converged view.
	electorate []transport.Address
	elected    *gossip.Summary // for which it was made
	// since is when this node first saw that a member is unreachable.
	since map[transport.Address]time.Time
	// known is when this node as the leader first found that enough voters know a
	// member to be Down. See fence.
	known map[transport.Address]time.Time
	// judged is when it first found that a member was downed under the lease.
	judged map[transport.Address]time.Time
	// missed is since when observers miss members, by observer and member. See
	// agreed.go.
	missed map[[2]transport.Address]missing
	// words is until when the others may at most have given a Down member their
	// word, by member and by who said it.
	words map[transport.Address]map[transport.Address]time.Time
	// company is when this node last was on the winning side as far as it hears.
	company   time.Time
	companyAt time.Time // when to look again

	// lost are the unreachable members since lostAt, and lostFirst is since when
	// there are any. See splitDue.
	lost      []transport.Address
	lostFirst time.Time
	lostAt    time.Time
	claim     claim
	claims    uint64 // requests so far
	// met is when this node first counted another's vote. See unheard.
	met map[transport.Address]time.Time

	// fenceAt and fenced are when and for what fence looks again.
	fenceAt  time.Time
	fenced   *gossip.Summary
	noted    *gossip.Summary // for what since was kept last
	judgeAt  time.Time       // when to judge again in a large cluster
	broken   time.Time       // since when this node would lose by a pick. See tangleWait.
	exposure exposure
	batch    batch
	// picked are those of the batch that can be reached. See pickedFor.
	picked []transport.Address
}

// A sentence is how members come to be downed.
type sentence struct {
	forced bool // an operator says so
	judged bool // this side has taken the lease
	reason string
}

// onDownNode is the operator's word.
func (m *Machine) onDownNode(node transport.Address) {
	if m.phase != member {
		return
	}
	var victims []gossip.Member
	for _, r := range m.state.Members {
		if r.Name == node.Name && (node.Incarnation == 0 || r.Incarnation == node.Incarnation) {
			victims = append(victims, r)
		}
	}
	m.downMembers(victims, sentence{forced: true, reason: "an operator has downed this node"})
}

// downMembers moves members to Down; if this node is among them it ends.
func (m *Machine) downMembers(victims []gossip.Member, by sentence) {
	victims = slices.DeleteFunc(victims, func(r gossip.Member) bool {
		return r.Status == gossip.Down && (r.Forced || !by.forced) && (r.Judged || !by.judged)
	})
	if len(victims) == 0 {
		return
	}
	m.update(func(g *gossip.State) {
		for _, r := range victims {
			r.Forced, r.Judged = r.Forced || by.forced, r.Judged || by.judged
			if r.Status == gossip.Down {
				g.SetMember(r)
			} else {
				g.SetStatus(r, gossip.Down)
			}
		}
	})
	if m.self().Status == gossip.Down {
		// The others learn it from this last word.
		m.pushToAll()
		m.endMember(false, by.reason)
	}
}

// runDowning judges unreachable members. Nobody is judged while own echoes do
// not return: the fault is then here, or at the broker.
func (m *Machine) runDowning() {
	if m.phase != member || m.config.Downing == splitbrain.DowningByHand || !m.echoAlive() {
		return
	}
	switch m.config.Downing {
	case splitbrain.DowningBroker:
		m.downGone()
		m.noteUnreachable()
		m.downByMajority()
		if m.phase == member {
			m.runCompany()
		}
	case splitbrain.DowningAuto:
		m.noteUnreachable()
		m.autoDown()
	default:
		m.noteUnreachable()
		m.judgeSplit()
	}
	if m.phase == member {
		m.runBatch()
	}
}

// downGone downs those that the broker proves dead: by the observer itself, or
// by the leader should the observer have died since.
func (m *Machine) downGone() {
	var victims []gossip.Member
	leads := m.leads()
	for _, i := range m.local().Unreachable {
		r := m.state.Members[i]
		held, _ := m.state.Record(m.config.Self, r.Address)
		mine := held.Evidence == gossip.EvidenceGone && m.small()
		if mine || leads && r.Address != m.config.Self && m.local().Evidence[i] == gossip.EvidenceGone {
			victims = append(victims, r)
		}
	}
	m.downTogether(victims)
}

// noteUnreachable keeps since: for members that are unreachable and may be downed.
func (m *Machine) noteUnreachable() {
	f := m.local()
	if m.downing.noted == f.Summary {
		return
	}
	m.downing.noted = f.Summary
	m.noteMissed()
	//arch:order-free each entry is treated alike
	for node := range m.downing.since {
		if i, ok := m.state.Index(node); !ok || f.Evidence[i] == gossip.NoEvidence || m.state.Members[i].Status == gossip.Down {
			delete(m.downing.since, node)
		}
	}
	for _, i := range f.Unreachable {
		r := m.state.Members[i]
		if _, ok := m.downing.since[r.Address]; !ok && r.Status != gossip.Down {
			m.downing.since[r.Address] = m.now
		}
	}
}

// downAt is when an unreachable member is due to be judged. What the observer
// had waited before its word came counts.
//
// Before SilentAfter a member is judged only by a node whose own echoes have come
// back without a gap for as long. Where packets are lost, connections stand still for
// longer than AgreedAfter and CutAfter, and the judge's own does now and then.
func (m *Machine) downAt(place int) time.Time {
	f := m.local()
	since, quiet := m.downing.since[m.state.Members[place].Address], f.Quiet[place]
	at := since.Add(max(m.config.SilentAfter-quiet, 0))
	clean := m.detect.muffled
	if !clean.IsZero() {
		clean = clean.Add(m.config.SilentAfter)
	}
	switch f.Evidence[place] {
	case gossip.EvidenceGone:
		at = earlier(at, since.Add(max(m.config.CutAfter-quiet, 0)))
	case gossip.EvidenceCut:
		at = earlier(at, maxTime(since.Add(max(m.config.CutAfter-quiet, 0)), clean))
	}
	if since, ok := m.agreedSince(place); ok {
		at = earlier(at, maxTime(since.Add(m.config.AgreedAfter), clean))
	}
	return at
}

// downByMajority judges the members that have been unreachable for long enough:
// the winning side downs them, the losing side stops. A side has lost only when it
// does so together with all whose time is not over, this node too: where ways have
// just opened, what the other side held against members of this one is read here
// for a moment.
func (m *Machine) downByMajority() {
	var due []gossip.Member
	var pending []transport.Address
	for _, i := range m.local().Unreachable {
		r := m.state.Members[i]
		if _, ok := m.downing.since[r.Address]; !ok {
			continue
		}
		switch at := m.downAt(i); {
		case m.now.Before(at):
			m.wakeAt(at)
			pending = append(pending, r.Address)
		case r.Address != m.config.Self:
			due = append(due, r)
		}
	}
	if len(due) == 0 {
		m.downing.picked, m.downing.broken = nil, time.Time{}
		return
	}
	if !m.small() && !m.due(&m.downing.judgeAt, judgeInterval) {
		return
	}
	side, tangled := m.survivors()
	lost := func(side []transport.Address) bool { return !gossip.HasAddress(side, m.config.Self) || !m.wins(side) }
	if lost(side) {
		if !lost(gossip.WithAddresses(side, pending)) || m.waitsForOthers(tangled) {
			return // those whose time is not over may come back, or be missed by mistake
		}
		m.stopAsMinority(fmt.Sprintf("%s cannot be reached, and %s", gossip.Names(gossip.AddressesOf(due)), m.lostBecause()))
		return
	}
	m.downing.broken = time.Time{}
	if !m.acts(side) {
		return // who acts is reachable
	}
	due = slices.DeleteFunc(due, func(r gossip.Member) bool { return gossip.HasAddress(side, r.Address) })
	picked := m.pickedFor(side)
	m.downing.picked = gossip.AddressesOf(picked)
	m.downTogether(append(due, picked...))
}

// judgeInterval is the time between two judgements in a large cluster, which take
// long and can wait.
const judgeInterval = 500 * time.Millisecond

// stopAsMinority ends this node. It tells nobody: those on its side find the
// same, and the other side downs it. An exiting one had nothing left to do, and
// one that never was Up can look for another cluster.
func (m *Machine) stopAsMinority(reason string) {
	reason += " (is the network cut, or did most members die at once?)"
	switch m.self().Status {
	case gossip.Exiting:
		m.endMember(true, "")
	case gossip.Joining, gossip.WeaklyUp:
		m.publish()
		m.emit(SelfDowned{Reason: reason, Rejoin: true})
		m.end()
	default:
		m.endMember(false, reason)
	}
}

// wins reports whether a side holds the majority of the voters, or half of them
// with the oldest. Where nobody has a vote left, everybody may go on: those that
// remain are leaving. A node that is alone on its side and may have been downed by
// the other half does not win by its age.
func (m *Machine) wins(side []transport.Address) bool {
	s := splitbrain.Split{Electorate: m.electorate(m.voters()), Side: side}
	if len(s.Voters) == 2 && s.Votes() == 1 && m.mayBeDowned() {
		return false
	}
	return len(s.Voters) == 0 || s.Majority()
}

// lostBecause explains why this node's side does not go on.
func (m *Machine) lostBecause() string {
	if m.mayBeDowned() {
		return "it may have downed this node, whose connection to the server was lost"
	}
	return "this node is on the smaller side"
}

// acts reports whether it is on this node to down others for its side. In a small
// cluster all on a side find the same, so one of them acts. In a large one only the
// leader looks for whose ways are broken, and whoever else comes first may be one
// that is missed by others and does not know.
func (m *Machine) acts(side []transport.Address) bool {
	if m.small() {
		return m.firstOf(side) == m.config.Self
	}
	return m.leads()
}

// firstOf is who acts for a side: the first full member, or the first at all
// where none is.
func (m *Machine) firstOf(side []transport.Address) transport.Address {
	for _, node := range side {
		if r, _ := m.state.Member(node); r.Status == gossip.Up || r.Status == gossip.Leaving {
			return node
		}
	}
	if len(side) == 0 {
		return transport.Address{}
	}
	return side[0]
}

// pickedFor returns the members that can be reached and are left out of a side
// all the same, because their ways are broken. In a small cluster they find that by
// themselves, and stop.
func (m *Machine) pickedFor(side []transport.Address) []gossip.Member {
	if m.small() {
		return nil
	}
	var picked []gossip.Member
	for i, r := range m.state.Members {
		if r.Status != gossip.Down && m.local().Evidence[i] == gossip.NoEvidence && !gossip.HasAddress(side, r.Address) {
			picked = append(picked, r)
		}
	}
	return picked
}

// companyInterval is far below the times that are measured with it.
const companyInterval = 200 * time.Millisecond

// runCompany stops a node that hears nobody but a minority although its own
// echoes return. It is for those whose neighbours all fell silent at once, which
// they take for their own fault and so hold against nobody.
func (m *Machine) runCompany() {
	if !m.due(&m.downing.companyAt, companyInterval) {
		return
	}
	if !m.small() && m.now.Sub(m.lease.heard) <= m.config.LeaseMajority {
		m.downing.company = m.now
		return
	}
	var side []transport.Address
	if m.small() {
		for _, node := range m.voters() {
			if p := m.detect.peers[node]; p != nil && m.now.Sub(p.company) <= m.config.LeaseMajority {
				side = append(side, node)
			}
		}
	}
	if m.small() && m.wins(gossip.WithAddress(side, m.config.Self)) {
		m.downing.company, m.lease.heard = m.now, m.now
		return
	}
	alone := maxTime(m.downing.company, m.detect.cleared)
	// The company was counted for LeaseMajority after it was last heard.
	at := alone.Add(m.config.SilentAfter - m.config.LeaseMajority)
	if m.now.Before(at) {
		m.wakeAt(at)
		return
	}
	m.stopAsMinority(fmt.Sprintf("nothing was heard from a majority for %v", m.config.SilentAfter))
}
