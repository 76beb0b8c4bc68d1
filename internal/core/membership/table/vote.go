package table

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/transport"
)

// noteSuspicions records when this node first saw each suspicion in the table. For suspicions in
// the first table that this node reads, it records the times in the rows, but none later than now.
// For all others it uses this node's clock, because the clocks of other members may be wrong.
func (m *Machine) noteSuspicions(before *rows.Table) {
	var seen map[suspicion]time.Time
	for _, r := range m.table.Summary().Suspected {
		if seen == nil {
			seen = make(map[suspicion]time.Time)
		}
		for _, s := range r.Suspicions {
			key := suspicion{r.Address, s.By, s.At.UnixMilli()}
			at, ok := m.probes.seen[key]
			switch {
			case ok:
			case before == nil:
				at = core.Earlier(s.At, m.Now)
			default:
				at = m.Now
			}
			seen[key] = at
		}
	}
	m.probes.seen = seen
}

// fresh returns the active members whose suspicion of member r still counts.
func (m *Machine) fresh(r *rows.Row) (by []transport.Address) {
	for _, s := range r.Suspicions {
		ends := m.probes.seen[suspicion{r.Address, s.By, s.At.UnixMilli()}].Add(m.Config.Table.VoteWindow)
		if !m.Now.Before(ends) || slices.Contains(by, s.By) {
			continue
		}
		if voter := m.table.Row(s.By); voter == nil || !voter.Active() {
			continue
		}
		if m.expires.IsZero() || ends.Before(m.expires) {
			m.expires = ends
		}
		by = append(by, s.By)
	}
	return by
}

// accused returns the members with evidence against them, at this node or in the table, by
// address.
func (m *Machine) accused() (list []*rows.Row) {
	m.noted = slices.DeleteFunc(m.noted, func(a transport.Address) bool {
		p, r := m.peers[a], m.table.Row(a)
		return r == nil || r.Gone() || p == nil || p.absent.IsZero() && !p.votes() && !p.probe.forced && !p.probe.quarantine
	})
	all := m.noted
	for _, r := range m.table.Summary().Suspected {
		if r.Address != m.Config.Self {
			all = gossip.WithAddress(all, r.Address)
		}
	}
	for _, a := range all {
		list = append(list, m.table.Row(a))
	}
	return list
}

// wantedDeath returns a write that votes against a member or, if the votes then suffice, declares
// the member dead. While the table is out of reach, this node declares nobody dead: the table must
// have answered recently.
func (m *Machine) wantedDeath() (core.TableWrite, bool) {
	if m.Phase == core.Joined && !m.echo.EchoAlive() {
		return core.TableWrite{}, false
	}
	for _, r := range m.accused() {
		p := m.peer(r.Address)
		v := p.probe
		switch {
		case v.forced:
			return m.recently(m.declare(r, nil, true))
		case v.quarantine && !r.Quarantined:
			return m.change(r, func(r *rows.Row) { r.Quarantined = true }), true
		case m.Phase == core.Asking && !m.mayReplace(r):
			continue
		}
		votes := m.fresh(r)
		if w, ok := m.retraction(r, votes); ok {
			return w, true
		}
		// If the member is at another server, the path between the servers may be broken.
		cut := m.absent(r, m.Config.CutAfter) || len(votes) > 0 && m.absent(r, m.Config.GoneAfter)
		if !p.votes() && !m.gone(r) && !r.Quarantined && !cut {
			continue
		}
		mine := []transport.Address{m.Config.Self}
		if !v.witness.IsZero() {
			mine = append(mine, v.witness)
		}
		all := slices.Clone(votes)
		for _, by := range mine {
			if !slices.Contains(all, by) {
				all = append(all, by)
			}
		}
		if len(all) >= m.needed(r) || m.Phase == core.Asking {
			return m.recently(m.declare(r, mine, false))
		}
		if !slices.Contains(votes, m.Config.Self) {
			return m.recently(m.change(r, func(r *rows.Row) { r.Suspicions = m.suspicions(r, mine) }))
		}
	}
	return core.TableWrite{}, false
}

// retraction returns a write that withdraws this node's vote against a member that it has heard
// since. A vote makes the member unreachable in every view.
func (m *Machine) retraction(r *rows.Row, votes []transport.Address) (core.TableWrite, bool) {
	p := m.peer(r.Address)
	if !slices.Contains(votes, m.Config.Self) || p.votes() || !p.absent.IsZero() || r.Quarantined {
		return core.TableWrite{}, false
	}
	for _, s := range r.Suspicions {
		if seen := m.probes.seen[suspicion{r.Address, s.By, s.At.UnixMilli()}]; s.By == m.Config.Self && !p.heard.After(seen) {
			return core.TableWrite{}, false
		}
	}
	return m.change(r, func(r *rows.Row) {
		r.Suspicions = slices.DeleteFunc(slices.Clone(r.Suspicions), func(s rows.Suspicion) bool { return s.By == m.Config.Self })
	}), true
}

// recently returns the write w if the table has answered recently. Otherwise it requests a read,
// and returns false.
func (m *Machine) recently(w core.TableWrite) (core.TableWrite, bool) {
	if m.Now.Sub(m.client.reached) <= readRecent {
		return w, true
	}
	m.client.want = true
	return core.TableWrite{}, false
}

// declare returns the write that declares a member dead.
func (m *Machine) declare(r *rows.Row, by []transport.Address, forced bool) core.TableWrite {
	return m.change(r, func(r *rows.Row) {
		r.Status, r.Forced, r.Ended = gossip.Down, forced, m.Now
		r.Suspicions = m.suspicions(r, by)
	})
}

// suspicions returns the suspicions of a member that still count, with new ones by the given
// members.
func (m *Machine) suspicions(r *rows.Row, by []transport.Address) (list []rows.Suspicion) {
	fresh := m.fresh(r)
	for _, s := range r.Suspicions {
		if slices.Contains(fresh, s.By) && !slices.Contains(by, s.By) {
			list = append(list, s)
		}
	}
	for _, node := range by {
		list = append(list, rows.Suspicion{By: node, At: m.Now})
	}
	return list
}

// needed returns how many votes declare a member dead: Config.Table.Votes or, if fewer other
// members can vote, as many as can, but at least 1. A member cannot vote if it is surely gone. Nor
// can it if, for staleAfter, it has not written I-am-alive and has not been heard.
func (m *Machine) needed(subject *rows.Row) int {
	able := 0
	for _, r := range m.table.Summary().Ages {
		if r.Address == subject.Address {
			continue
		}
		if r.Address != m.Config.Self {
			p := m.peers[r.Address]
			heard := p != nil && m.Now.Sub(p.heard) <= m.staleAfter()
			if m.gone(r) || !heard && m.Now.Sub(m.unchanged(r)) > m.staleAfter() {
				continue
			}
		}
		if able++; able >= m.Config.Table.Votes {
			break
		}
	}
	return max(1, min(m.Config.Table.Votes, able))
}

// staleAfter is the time without an I-am-alive write after which a row is stale.
func (m *Machine) staleAfter() time.Duration {
	return time.Duration(m.Config.Table.AliveLimit) * m.Config.Table.AliveInterval
}
