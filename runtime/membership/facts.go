package membership

import (
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// facts are what follows from a gossiped state in the eyes of one node. They are
// asked for at every step, and computed once per state.
type facts struct {
	of       *Gossip
	evidence []Evidence // against the members, in their order
	leader   transport.Address
	why      string // what keeps the view from converging; empty: it has
	digest   uint64
}

func (m *Machine) facts() *facts {
	if m.known.of != m.gossip {
		e := m.gossip.allEvidence()
		m.known = facts{
			of:       m.gossip,
			evidence: e,
			leader:   m.gossip.leaderOf(m.config.Self, e),
			why:      m.gossip.convergence(e),
			digest:   m.gossip.digest(),
		}
	}
	return &m.known
}

// evidence is the strongest that stands against a member.
func (m *Machine) evidence(node transport.Address) Evidence {
	i, ok := slices.BinarySearchFunc(m.gossip.Members, node, compareMember)
	if !ok {
		return NoEvidence
	}
	return m.facts().evidence[i]
}

func (m *Machine) leads() bool { return m.facts().leader == m.config.Self }

// allEvidence tells what stands against each member, Down observers left out:
// whoever is judged dead judges nobody.
func (g *Gossip) allEvidence() []Evidence {
	all := make([]Evidence, len(g.Members))
	for _, row := range g.Rows {
		if m, ok := g.member(row.Observer); !ok || m.Status == Down {
			continue
		}
		for _, r := range row.Records {
			if i, ok := slices.BinarySearchFunc(g.Members, r.Subject, compareMember); ok {
				all[i] = max(all[i], r.Evidence)
			}
		}
	}
	for i, m := range g.Members {
		if m.Quarantined {
			all[i] = max(all[i], EvidenceSilent)
		}
	}
	return all
}
