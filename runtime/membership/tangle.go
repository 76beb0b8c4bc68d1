package membership

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// survivors returns this node's side, by address. After a clean cut that is who
// is reachable. But when ways between some members are broken, and others reach
// both ends, each end would down the other, and both lists would be followed. That
// shows in an unreachable member that is still heard, that accuses in turn, or
// that not all its watchers accuse; then all that see the same accusations pick
// the same side: again and again the member with the most broken ways goes, of
// equal ones the youngest, until nobody is unreachable any more.
//
// In a large cluster only the leader downs, so nobody else has to pick.
func (m *Machine) survivors() (side []transport.Address, picked bool) {
	g, f := m.gossip, m.facts()
	out := make([]bool, len(g.Members)) // Down, unreachable, or picked to go
	for i, r := range g.Members {
		out[i] = r.Status == Down || r.Quarantined || i != f.self && f.evidence[i] != NoEvidence
	}
	list := g.accusations()
	if picked = m.tangled(list, out) && (m.small() || m.leads()); picked {
		for i, r := range g.Members {
			out[i] = r.Status == Down || r.Quarantined
		}
		if !m.small() {
			m.dropHopeless(list, out)
		}
		for worst := m.mostBroken(list, out); worst >= 0; worst = m.mostBroken(list, out) {
			out[worst] = true
		}
	}
	for i, r := range g.Members {
		if !out[i] {
			side = append(side, r.Address)
		}
	}
	return side, picked
}

// tangleWait is how long a node that would lose by a pick waits for what others
// hold, before it stops: where ways break one after another, a pick among the first
// accusations to arrive may take those who are well for the broken ones.
const tangleWait = 2 * time.Second

// waitsForOthers tells whether a node that has lost waits longer.
func (m *Machine) waitsForOthers(picked bool) bool {
	if !picked {
		return false
	}
	if m.downing.broken.IsZero() {
		m.downing.broken = m.now
	}
	at := m.downing.broken.Add(tangleWait)
	if m.now.Before(at) {
		m.wakeAt(at)
		return true
	}
	return false
}

// tangled tells whether this is more than a clean cut of those that are out.
func (m *Machine) tangled(list []accusation, out []bool) bool {
	g, f := m.gossip, m.facts()
	for _, a := range list {
		if g.Members[a.observer].Status != Down && out[a.observer] && !out[a.subject] {
			return true
		}
	}
	for _, u := range f.troubled {
		if !out[u] || g.Members[u].Status == Down {
			continue
		}
		if p := m.detect.peers[g.Members[u].Address]; p != nil && m.now.Sub(p.company) <= m.config.LeaseMajority {
			return true
		}
		watchers, content := 0, false
		f.ring.before(ringPlace(g.Members[u].Address), func(i int) bool {
			if !out[i] {
				watchers++
				content = !slices.ContainsFunc(list, func(a accusation) bool { return a.subject == u && a.observer == i })
			}
			return watchers < m.config.Watched && !content
		})
		if content {
			return true
		}
	}
	return false
}

// mostBroken finds the member with the most broken ways among those that are not
// out, if anybody among them is still unreachable. Under many edges it is one of
// the unreachable ones, for others may have broken ways that do not matter.
func (m *Machine) mostBroken(list []accusation, out []bool) (worst int) {
	g := m.gossip
	within := func(a accusation) bool { return !out[a.observer] && !out[a.subject] }
	ways := make(map[int]int)
	pairs := make(map[[2]int]bool)
	for _, a := range list {
		if pair := [2]int{min(a.observer, a.subject), max(a.observer, a.subject)}; within(a) && !pairs[pair] {
			pairs[pair] = true
			ways[a.observer]++
			ways[a.subject]++
		}
	}
	if m.config.Detection == DetectionManyEdges {
		evidence := m.evidenceWithout(list, out)
		for i := range g.Members {
			if out[i] || evidence[i] == NoEvidence {
				delete(ways, i)
			}
		}
	}
	worst = -1
	most := 0
	for i, r := range g.Members {
		if n := ways[i]; n > most || n == most && n > 0 && r.CompareAge(g.Members[worst]) > 0 {
			most, worst = n, i
		}
	}
	return worst
}

// evidenceWithout is what stands against members when some are out.
func (m *Machine) evidenceWithout(list []accusation, out []bool) []Evidence {
	f := m.facts()
	evidence := m.gossip.weigh(list, m.rule(), f.ring, out)
	if own := m.gossip.unheardFrom(f.self, list, m.rule(), f.ring, evidence, out); own != nil {
		return own
	}
	return evidence
}

// dropHopeless puts those out of whom nothing speaks for staying: whoever accuses
// them can be reached, and of their watchers nobody hears them whom this node hears.
// After a cut of a large cluster they are all on the other side, hundreds, and those
// on this side have more broken ways than they, who cannot tell of theirs.
func (m *Machine) dropHopeless(list []accusation, out []bool) {
	g, f := m.gossip, m.facts()
	evidence := m.evidenceWithout(list, out)
	heard := g.heardFrom(f.self, list, m.rule(), f.ring, evidence, out, func(int) bool { return false })
	var hopeless []int
	bySubject(list, func(subject int, against []accusation) {
		if out[subject] || evidence[subject] == NoEvidence {
			return
		}
		accusers := 0
		for _, a := range against {
			switch {
			case out[a.observer]:
			case evidence[a.observer] != NoEvidence:
				return
			default:
				accusers++
			}
		}
		watchers, hears := 0, false
		f.ring.before(ringPlace(g.Members[subject].Address), func(i int) bool {
			watchers++
			hears = heard[i] && !slices.ContainsFunc(against, func(a accusation) bool { return a.observer == i })
			return watchers < m.config.Watched && !hears
		})
		if accusers > 0 && !hears {
			hopeless = append(hopeless, subject)
		}
	})
	for _, i := range hopeless {
		out[i] = true
	}
}

func addressesOf(list []Member) []transport.Address {
	nodes := make([]transport.Address, len(list))
	for i, r := range list {
		nodes[i] = r.Address
	}
	return nodes
}
