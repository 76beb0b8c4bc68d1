package membership

import "github.com/shardgen/shardgen/internal/membership/gossip"

// State returns the gossiped state of a member, nil before it is one. It never
// changes, so two equal pointers are the same state. It is for simulations and
// tests; others take the [View].
func (m *Machine) State() *gossip.State {
	if m.phase != member {
		return nil
	}
	return m.state
}
