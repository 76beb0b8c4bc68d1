package membership

import (
	"time"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/internal/invariant"
)

// This file lets a simulation begin with a cluster that has long been formed.
// Nothing else uses it.

// Preform makes an idle machine a member of a preformed cluster, in place of
// [Start] and without any event.
func (m *Machine) Preform(now time.Time, g *gossip.State) {
	if m.phase != idle {
		invariant.Failf("preform a machine that has been started")
	}
	m.now = now
	m.state = g
	m.becomeMember()
	m.spreading.memberSince = now.Add(-aliveEarly)
	m.published = g
	m.view = m.newView()
	m.renewLease()
}
