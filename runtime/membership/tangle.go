package membership

import (
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// survivors returns this node's side, by address. After a clean cut that is who
// is reachable. But when one way between two members is broken, and others
// reach both, each of the two would down the other, and both lists would be
// followed. That shows in an unreachable member that is still heard, that accuses
// in turn, or that not all its watchers accuse; then all that see the same
// accusations pick the same side: again and again the member with the most
// broken ways goes, of equal ones the youngest, until no broken way is left.
// Clean tells which of the two it was.
func (m *Machine) survivors() (side []transport.Address, clean bool) {
	g := m.gossip
	var reachable, unreachable []Member
	for _, r := range g.Members {
		switch {
		case r.Status == Down || r.Quarantined:
		case r.Address != m.config.Self && m.evidence(r.Address) != NoEvidence:
			unreachable = append(unreachable, r)
		default:
			reachable = append(reachable, r)
		}
	}
	if !m.tangled(reachable, unreachable) {
		return addressesOf(reachable), true
	}
	side = addressesOf(append(reachable, unreachable...))
	slices.SortFunc(side, transport.Address.Compare)
	for {
		worst, found := m.mostBroken(side)
		if !found {
			return side, false
		}
		side = slices.DeleteFunc(side, func(a transport.Address) bool { return a == worst })
	}
}

func (m *Machine) tangled(reachable, unreachable []Member) bool {
	for _, u := range unreachable {
		if p := m.detect.peers[u.Address]; p != nil && m.now.Sub(p.vouched) <= m.config.LeaseMajority {
			return true
		}
		for _, r := range reachable {
			if _, accuses := m.gossip.record(u.Address, r.Address); accuses {
				return true
			}
			_, accused := m.gossip.record(r.Address, u.Address)
			if !accused && slices.Contains(m.gossip.neighbours(r.Address, m.config.Watched, m.facts().evidence), u.Address) {
				return true
			}
		}
	}
	return false
}

// mostBroken finds the member of side with the most broken ways within it.
func (m *Machine) mostBroken(side []transport.Address) (worst transport.Address, found bool) {
	var pick Member
	most := 0
	for _, a := range side {
		ways := 0
		for _, b := range side {
			_, ab := m.gossip.record(a, b)
			_, ba := m.gossip.record(b, a)
			if ab || ba {
				ways++
			}
		}
		r, _ := m.gossip.member(a)
		if ways > most || ways == most && ways > 0 && r.CompareAge(pick) > 0 {
			most, pick = ways, r
		}
	}
	return pick.Address, most > 0
}

func addressesOf(list []Member) []transport.Address {
	nodes := make([]transport.Address, len(list))
	for i, r := range list {
		nodes[i] = r.Address
	}
	return nodes
}
