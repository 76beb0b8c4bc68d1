package membership

import "github.com/shardgen/shardgen/transport"

// facts are what follows from a gossiped state in the eyes of one node. They are
// asked for at every step, and computed once per state.
type facts struct {
	*shape
	base   *shape // what it is for all; the embedded one is this node's
	of     *Gossip
	self   int // the own place in Members, or -1
	leader transport.Address
	why    string // what keeps the view from converging; empty: it has
}

func (m *Machine) facts() *facts {
	if m.known.of == m.gossip {
		return &m.known
	}
	g := m.gossip
	f := facts{of: g, base: g.shaped(m.rule())}
	if f.base == m.known.base {
		f.self, f.shape = m.known.self, m.known.shape
	} else {
		f.self = -1
		if i, ok := g.place(m.config.Self); ok {
			f.self = i
		}
		f.shape = f.base.seenFrom(g, f.self)
	}
	leader := f.shape.leader
	if f.self >= 0 && f.evidence[f.self] != NoEvidence {
		leader = g.leaderPlace(f.evidence, f.self)
	}
	if leader >= 0 {
		f.leader = g.Members[leader].Address
	}
	f.why = g.convergence(f.shape)
	m.known = f
	return &m.known
}

func (m *Machine) rule() evidenceRule { return evidenceRule{m.config.Detection, m.config.Watched} }

// evidence is the strongest that stands against a member.
func (m *Machine) evidence(node transport.Address) Evidence {
	i, ok := m.gossip.place(node)
	if !ok {
		return NoEvidence
	}
	return m.facts().evidence[i]
}

func (m *Machine) leads() bool { return m.facts().leader == m.config.Self }

// small tells whether the cluster is one in which everybody tells everybody.
func (m *Machine) small() bool { return len(m.gossip.Members) <= m.config.SmallCluster }
