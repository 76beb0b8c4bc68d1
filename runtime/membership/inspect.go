package membership

// State returns the gossiped state of a member, nil before it is one. It never
// changes, so two equal pointers are the same state. It is for simulations and
// tests; others take the [View].
func (m *Machine) State() *Gossip {
	if m.phase != member {
		return nil
	}
	return m.gossip
}

// CanBecome tells whether a member may move from s to another status in one step.
func (s Status) CanBecome(to Status) bool { return canBecome[s][to] }
