package membership

import (
	"github.com/shardgen/shardgen/internal/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

// onUndeliverable quarantines a member. It never comes back from unreachable: what
// it has missed it would not know of. The mark travels with the gossiped state, so
// all hold it unreachable, and the way of downing decides what becomes of it. Where
// the member hears of it, it stops by itself: another incarnation may join.
func (m *Machine) onUndeliverable(node transport.Address) {
	if m.phase != member || node == m.config.Self {
		return
	}
	r, ok := m.state.Member(node)
	if !ok || r.Status == gossip.Down || r.Quarantined {
		return
	}
	r.Quarantined = true
	m.update(func(g *gossip.State) { g.SetMember(r) })
}
