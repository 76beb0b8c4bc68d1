package membership

import (
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/membership/splitbrain"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// fence marks the Down members that certainly run no turns any more. A lease
// needs messages from a quorum, and who knows a member to be Down sends it none
// that count. So its lease ends for good LeaseMajority after so many know that
// the others are no quorum, even together with it. It has ended already if the
// broker has lost it and who proved that still held it true when it learned that
// the member is Down. Where all others have said when they last gave the member their
// word, it ends LeaseMajority after the latest of those: see word.go. Where a lease
// was taken, a small side may never know so many: there it is time that ends it.
//
// That nobody on this side has heard the member for longer is no such proof: ways
// may have opened a moment ago, and what members that know nothing of the judgement
// yet sent through them may have given it a lease.
//
// Only the leader does it, and only while its own way to the others is open:
// else what it sent before may still be on its way.
func (m *Machine) fence() {
	f := m.local()
	unfenced := slices.DeleteFunc(slices.Clone(f.Down), func(i int) bool { return m.state.Members[i].Fenced })
	if len(unfenced) == 0 || !m.echoAlive() {
		return
	}
	if !m.small() { // the voters are many, and their words come one by one
		if m.now.Before(m.downing.fenceAt) && m.downing.fenced == f.Summary {
			m.wakeAt(m.downing.fenceAt)
			return
		}
		m.downing.fenceAt, m.downing.fenced = m.now.Add(fenceInterval), f.Summary
		m.wakeAt(m.downing.fenceAt)
	}
	var ended []gossip.Member
	for _, i := range unfenced {
		r := m.state.Members[i]
		at, known := m.fencedAt(r)
		if !known {
			continue
		}
		if m.now.Before(at) {
			m.wakeAt(at)
			continue
		}
		r.Fenced = true
		ended = append(ended, r)
	}
	if len(ended) == 0 {
		return
	}
	m.update(func(g *gossip.State) {
		for _, r := range ended {
			g.SetMember(r)
		}
	})
}

// clockSpread is the share by which clocks may differ in rate, 2 %.
const clockSpread = 50

// fenceInterval is the time between two looks in a large cluster.
const fenceInterval = 100 * time.Millisecond

// fencedAt is when a Down member's lease has certainly ended, if that is known.
func (m *Machine) fencedAt(r gossip.Member) (at time.Time, known bool) {
	if m.foundOut(m.downing.known, r.Address, func() bool { return m.broken(r) }) {
		known = true
		if !m.provenGone(r.Address) {
			at = m.downing.known[r.Address].Add(m.config.LeaseMajority + m.config.LeaseMajority/clockSpread)
		}
	}
	if m.foundOut(m.downing.judged, r.Address, func() bool { return r.Judged }) {
		ends := m.downing.judged[r.Address].Add(m.leaseHold() + m.leaseHold()/clockSpread + m.config.LeaseEcho)
		if !known || ends.Before(at) {
			at, known = ends, true
		}
	}
	if last, ok := m.wordsOver(r); ok {
		ends := last.Add(m.config.LeaseMajority + m.config.LeaseMajority/clockSpread)
		if !known || ends.Before(at) {
			at, known = ends, true
		}
	}
	return at, known
}

// provenGone reports whether somebody who holds the proof of a member's death knows
// that it is Down. The proof alone may be old: the member may have come back since,
// and found a lease. But for that it needs the word of all that it can reach, also
// of who held the proof; and that one takes the proof back with the first message
// from the member, and gives it no word once it knows it Down.
func (m *Machine) provenGone(node transport.Address) bool {
	if m.evidence(node) != gossip.EvidenceGone {
		return false
	}
	return slices.ContainsFunc(m.state.Rows, func(row gossip.ObserverRow) bool {
		held, ok := m.state.Record(row.Observer, node)
		return ok && held.Evidence == gossip.EvidenceGone && m.state.SeenBy(row.Observer)
	})
}

// foundOut notes when this node first found that something holds.
func (m *Machine) foundOut(when map[transport.Address]time.Time, node transport.Address, holds func() bool) bool {
	if _, ok := when[node]; ok {
		return true
	}
	if !holds() {
		return false
	}
	when[node] = m.now
	return true
}

// broken reports whether so many know the member to be Down that the others are no
// quorum for it.
func (m *Machine) broken(r gossip.Member) bool { return m.quorumBroken(r, m.state.SeenBy) }

// quorumBroken reports whether the voters without those for which lost is true are no
// quorum for a member.
func (m *Machine) quorumBroken(r gossip.Member, lost func(transport.Address) bool) bool {
	voters := m.voters()
	if m.config.Downing == splitbrain.DowningAuto {
		voters = slices.DeleteFunc(voters, func(node transport.Address) bool {
			v, _ := m.state.Member(node)
			return v.Status == gossip.Down
		})
	}
	if m.config.votes(m.self()) {
		voters = gossip.WithAddress(voters, m.config.Self) // also when it is exiting
	}
	if m.config.votes(r) {
		voters = gossip.WithAddress(voters, r.Address)
	}
	return !m.strategy.Quorum(m.electorate(voters)).Met(func(node transport.Address) bool {
		return node == r.Address || !lost(node)
	})
}

// forgetRemoved drops what is kept about nodes that are no members any more.
func (d *downingState) forgetRemoved(g *gossip.State) {
	gone := func(node transport.Address) bool {
		_, ok := g.Member(node)
		return !ok
	}
	for _, times := range []map[transport.Address]time.Time{d.since, d.known, d.judged, d.met} {
		maps.DeleteFunc(times, func(node transport.Address, _ time.Time) bool { return gone(node) })
	}
	maps.DeleteFunc(d.words, func(node transport.Address, _ map[transport.Address]time.Time) bool { return gone(node) })
}

// reset drops the times that count only while this node hears and is heard.
func (d *downingState) reset() {
	d.since, d.noted = make(map[transport.Address]time.Time), nil
	d.missed = nil
	d.known = make(map[transport.Address]time.Time)
	d.judged = make(map[transport.Address]time.Time)
	d.words = make(map[transport.Address]map[transport.Address]time.Time)
	d.lost, d.claim, d.broken = nil, claim{}, time.Time{}
}
