package membership

import (
	"fmt"

	"github.com/shardgen/shardgen/internal/membership/gossip"
)

// Check returns an error that names the invariant that does not hold:
//  1. The gossiped state is well formed (see [Gossip]); nobody but a Down member
//     is fenced.
//  2. A member is in its own gossiped state, not Down, and has seen it.
//  3. The view shows the gossiped state.
//  4. A lease without end is a sole member's; any other ends within LeaseEcho.
func (m *Machine) Check() error {
	if m.phase != member {
		return nil
	}
	if err := m.state.CheckUnder(m.rule()); err != nil {
		return fmt.Errorf("invariant 1: %w", err)
	}
	self, ok := m.state.Member(m.config.Self)
	if !ok || self.Status == gossip.Down || !m.state.SeenBy(m.config.Self) {
		return fmt.Errorf("invariant 2: %v is %v in %v", m.config.Self, self.Status, m.state)
	}
	if m.published != m.state || len(m.view.ByAddress) != len(m.state.Members) || m.view.SelfStatus != self.Status {
		return fmt.Errorf("invariant 3: view %+v does not show %v", m.view, m.state)
	}
	if m.lease.until.After(m.now.Add(m.config.LeaseEcho)) {
		return fmt.Errorf("invariant 4: lease ends in %v, LeaseEcho is %v", m.lease.until.Sub(m.now), m.config.LeaseEcho)
	}
	if !m.lease.until.IsZero() {
		return nil
	}
	for _, r := range m.state.Members {
		if r.Address != m.config.Self && r.Status == gossip.Up && m.evidence(r.Address) != gossip.EvidenceGone {
			return fmt.Errorf("invariant 4: a lease without end, and %v is Up", r.Address)
		}
	}
	return nil
}
