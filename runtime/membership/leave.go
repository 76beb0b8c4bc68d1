package membership

// onLeave: the member becomes Leaving at once; the rest is the leader's. A node
// that is no member yet has nothing to wait for.
func (m *Machine) onLeave() {
	switch m.phase {
	case idle, searching, asking:
		m.emit(SelfRemoved{})
		m.end()
	case member:
		if r := m.self(); canBecome[r.Status][Leaving] {
			m.update(func(g *Gossip) { g.setStatus(r, Leaving) })
		}
	case ended:
	}
}

// runLeaving tells the leader that nothing is left to hand over.
func (m *Machine) runLeaving() {
	if r := m.self(); r.Status == Leaving && m.exitReady && !r.ExitReady {
		r.ExitReady = true
		m.update(func(g *Gossip) { g.setMember(r) })
	}
}
