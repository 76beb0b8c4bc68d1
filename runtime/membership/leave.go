package membership

import "github.com/shardgen/shardgen/internal/membership/gossip"

// onLeave: the member becomes Leaving at once; the rest is the leader's. A node
// that is no member yet has nothing to wait for.
func (m *Machine) onLeave() {
	switch m.phase {
	case idle, searching, asking:
		m.emit(SelfRemoved{})
		m.end()
	case member:
		if r := m.self(); r.Status.CanBecome(gossip.Leaving) {
			m.update(func(g *gossip.State) { g.SetStatus(r, gossip.Leaving) })
		}
	case ended:
	}
}

// runLeaving tells the leader that nothing is left to hand over.
func (m *Machine) runLeaving() {
	if r := m.self(); r.Status == gossip.Leaving && m.exitReady && !r.ExitReady {
		r.ExitReady = true
		m.update(func(g *gossip.State) { g.SetMember(r) })
	}
}
