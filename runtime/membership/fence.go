package membership

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// voters are the members whose majority decides: the Up and Leaving ones of the
// last converged view, or the joining ones before any is Up, but for those that were proven dead, left, are fenced, or that an
// operator answers for. A Down member goes on counting until it is fenced:
// otherwise members that stood still through one decision after the other would
// wake up as a majority of what they remember.
func (m *Machine) voters() []transport.Address {
	electorate := m.downing.electorate
	if len(electorate) == 0 {
		electorate = m.gossip.electorate()
	}
	if len(electorate) == 0 {
		for _, r := range m.gossip.Members {
			if r.UpNumber == 0 && r.Status != Down {
				electorate = append(electorate, r.Address)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(electorate), func(node transport.Address) bool {
		r, ok := m.gossip.member(node)
		return !ok || r.Status == Exiting || r.Fenced || r.Forced || m.evidence(node) == EvidenceGone
	})
}

// fence marks the Down members that certainly run no turns any more. A lease
// needs messages from a majority, and who knows a member to be Down sends it
// none that count. So its lease ends for good LeaseMajority after so many know
// that the others are no majority, even together with it. It has ended already
// if the broker has lost it, or if a clean cut has lasted for longer.
//
// Only the leader does it, and only while its own way to the others is open:
// else what it sent before may still be on its way.
func (m *Machine) fence() {
	if !m.echoAlive() {
		return
	}
	voters := withAddress(m.voters(), m.config.Self) // also when it is exiting
	know := 0
	for _, node := range voters {
		if m.gossip.seenBy(node) {
			know++
		}
	}
	var ended []Member
	for _, r := range m.gossip.Members {
		if r.Status != Down || r.Fenced {
			continue
		}
		all := len(voters)
		if !hasAddress(voters, r.Address) {
			all++
		}
		since, known := m.downing.known[r.Address]
		if !known {
			if 2*know < all {
				continue
			}
			since = m.now
			m.downing.known[r.Address] = since
		}
		if m.evidence(r.Address) != EvidenceGone && !m.downing.clean[r.Address] {
			if at := since.Add(m.config.LeaseMajority); m.now.Before(at) {
				m.wakeAt(at)
				continue
			}
		}
		r.Fenced = true
		ended = append(ended, r)
	}
	if len(ended) == 0 {
		return
	}
	m.update(func(g *Gossip) {
		for _, r := range ended {
			g.setMember(r)
		}
	})
}

// forgetRemoved drops what is kept about nodes that are no members any more.
func (d *downingState) forgetRemoved(g *Gossip) {
	gone := func(node transport.Address) bool {
		_, ok := g.member(node)
		return !ok
	}
	//arch:order-free each entry is treated alike
	for node := range d.since {
		if gone(node) {
			delete(d.since, node)
		}
	}
	//arch:order-free each entry is treated alike
	for node := range d.known {
		if gone(node) {
			delete(d.known, node)
		}
	}
	//arch:order-free each entry is treated alike
	for node := range d.clean {
		if gone(node) {
			delete(d.clean, node)
		}
	}
}

// reset drops the times that count only while this node hears and is heard.
func (d *downingState) reset() {
	d.since = make(map[transport.Address]time.Time)
	d.known = make(map[transport.Address]time.Time)
}
