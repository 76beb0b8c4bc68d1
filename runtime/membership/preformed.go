package membership

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/invariant"
)

// This file lets a simulation begin with a cluster that has long been formed.
// Nothing else uses it.

// Preformed returns the state of a cluster of these members, all Up and as old as
// their order says, that all of them have seen.
func Preformed(members []Member) *Gossip {
	g := &Gossip{Founder: members[0].Address, UpCounter: uint32(len(members))}
	for i, r := range members {
		r.Status, r.UpNumber = Up, uint32(i+1)
		g.Members = append(g.Members, r)
	}
	slices.SortFunc(g.Members, func(a, b Member) int { return a.Compare(b.Address) })
	g.Seen, g.memo = fullSeenSet(len(g.Members)), &memo{}
	for _, r := range g.Members {
		g.Version = append(g.Version, ClockEntry{r.Address, 2})
	}
	return g
}

// Preform makes an idle machine a member of a preformed cluster, in place of
// [Start] and without any event.
func (m *Machine) Preform(now time.Time, g *Gossip) {
	if m.phase != idle {
		invariant.Failf("preform a machine that has been started")
	}
	m.now = now
	m.gossip = g
	m.becomeMember()
	m.spreading.memberSince = now.Add(-aliveEarly)
	m.published = g
	m.view = m.newView()
	m.renewLease()
}
