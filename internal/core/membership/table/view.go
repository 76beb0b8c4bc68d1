package table

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/transport"
)

// publish makes a new view if something has changed, and shows it if it differs.
func (m *Machine) publish() {
	if m.Phase != core.Joined && m.Phase != core.Asking || m.table == nil || m.row < 0 {
		return
	}
	if m.Phase == core.Asking && m.Shown != nil && m.Shown.Why != m.joiner.why {
		m.stale = true
	}
	if m.Phase == core.Asking && m.joiner.crowd && m.stale && !m.Due(&m.joiner.shows, askEvery) {
		return // a crowd makes many versions
	}
	if m.stale || !m.expires.IsZero() && !m.Now.Before(m.expires) {
		m.stale, m.expires = false, time.Time{}
		if next := m.newView(); sameView(m.Shown, next) {
			m.Shown = next
		} else {
			m.Show(next, m.last)
		}
	}
	if !m.expires.IsZero() {
		m.WakeAt(m.expires)
	}
}

// last returns the last status, by its row, of a member that the view no longer shows.
func (m *Machine) last(node transport.Address) gossip.Status {
	switch r := m.table.Row(node); {
	case r == nil:
		return gossip.NoStatus
	case r.Status == gossip.Removed:
		return gossip.Exiting
	}
	return gossip.Down
}

// newView makes a view of the table: the members that neither were fenced nor left, with the
// evidence against them.
func (m *Machine) newView() *core.View {
	t := m.table.Summary()
	v := &core.View{
		Self: m.Config.Self, SelfStatus: m.self().Status, Founder: m.self().Founder,
		ByAddress: t.ByAddress, ByAge: t.ByAge, Converged: true, Table: m.table, Health: m.health.score,
	}
	if guides := m.guides(); len(guides) > 0 {
		v.Leader = guides[0]
	}
	var marks []rows.Mark
	for _, r := range append(m.accused(), t.Down...) {
		evidence := m.evidence(r)
		if evidence == gossip.NoEvidence {
			continue
		}
		if v.Converged && r.Status != gossip.Down {
			v.Converged, v.Why = false, r.Name+" unreachable"
		}
		marks = append(marks, rows.Mark{Node: r.Address, Evidence: evidence})
	}
	if m.Phase == core.Asking && m.joiner.why != "" {
		v.Converged, v.Why = false, m.joiner.why
	}
	if len(marks) > 0 {
		v.ByAddress, v.ByAge = t.Marked(marks)
	}
	return v
}

// evidence returns the evidence against a member: from the broker's reports to this node, or from
// votes or quarantine in the table.
func (m *Machine) evidence(r *rows.Row) gossip.Evidence {
	switch {
	case m.gone(r):
		return gossip.EvidenceGone
	case r.Quarantined, len(m.fresh(r)) > 0, r.Status == gossip.Down && len(r.Suspicions) > 0:
		if m.absent(r, m.Config.GoneAfter) {
			return gossip.EvidenceCut
		}
		return gossip.EvidenceSilent
	}
	return gossip.NoEvidence
}

// sameView reports whether two views have the same content.
func sameView(a, b *core.View) bool {
	return a.SelfStatus == b.SelfStatus && a.Founder == b.Founder && a.Leader == b.Leader && a.Why == b.Why && a.Converged == b.Converged && a.Health == b.Health &&
		(sameList(a.ByAddress, b.ByAddress) || slices.EqualFunc(a.ByAddress, b.ByAddress, func(x, y gossip.MemberView) bool {
			return x.Address == y.Address && x.Status == y.Status && x.UpNumber == y.UpNumber && x.ExitReady == y.ExitReady && x.Forced == y.Forced &&
				x.Fenced == y.Fenced && x.Quarantined == y.Quarantined && x.Reachable == y.Reachable && x.Evidence == y.Evidence
		}))
}

// sameList reports whether two lists share their memory, and therefore are equal.
func sameList(a, b []gossip.MemberView) bool {
	return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0]
}
