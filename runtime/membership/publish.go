package membership

import (
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// publish makes the view of what has changed, and the events that lead there.
func (m *Machine) publish() {
	if m.gossip == m.published || m.phase == ended {
		return
	}
	m.published = m.gossip
	old, next := m.view, m.newView()
	m.view, m.out.Changed = next, true
	for _, r := range next.ByAddress {
		was, ok := old.Member(r.Address)
		if !ok {
			was.Reachable = true
		}
		m.emitMember(was, r)
	}
	for _, was := range old.ByAddress {
		if _, ok := next.Member(was.Address); !ok {
			m.emit(MemberRemoved{was.Member})
		}
	}
	if old.Leader != next.Leader {
		m.emit(LeaderChanged{next.Leader})
	}
	if old.Converged != next.Converged {
		m.emit(ConvergedChanged{next.Converged, next.Why})
	}
}

// emitMember says how a member changed.
func (m *Machine) emitMember(was, r MemberView) {
	if was.Status == NoStatus {
		joined := r.Member
		joined.Status, joined.UpNumber = Joining, 0
		m.emit(MemberJoined{joined})
		was.Status = Joining
	}
	if was.Status != r.Status {
		switch r.Status {
		case WeaklyUp:
			m.emit(MemberWeaklyUp{r.Member})
		case Up:
			m.emit(MemberUp{r.Member})
		case Leaving:
			m.emit(MemberLeaving{r.Member})
		case Exiting:
			m.emit(MemberExiting{r.Member})
		case Down:
			m.emit(MemberDowned{r.Member})
		case NoStatus, Joining, Removed:
		}
	}
	if r.Quarantined && !was.Quarantined {
		m.emit(MemberQuarantined{r.Member})
	}
	switch {
	case r.Reachable && !was.Reachable:
		m.emit(ReachableMember{r.Member})
	case !r.Reachable && r.Evidence != was.Evidence:
		m.emit(UnreachableMember{r.Member, r.Evidence})
	}
}

func (m *Machine) newView() *View {
	g := m.gossip
	v := &View{
		Self:       m.config.Self,
		SelfStatus: m.self().Status,
		Founder:    g.Founder,
		ByAddress:  make([]MemberView, len(g.Members)),
		Leader:     m.facts().leader,
		Why:        m.facts().why,
	}
	v.Converged = v.Why == ""
	for i, r := range g.Members {
		e := m.facts().evidence[i]
		v.ByAddress[i] = MemberView{Member: r, Reachable: e == NoEvidence, Evidence: e}
	}
	v.ByAge = slices.Clone(v.ByAddress)
	slices.SortFunc(v.ByAge, func(a, b MemberView) int { return a.CompareAge(b.Member) })
	return v
}

// Unreachable returns the addresses of the members that cannot be reached.
func (v *View) Unreachable() []transport.Address {
	var nodes []transport.Address
	for _, r := range v.ByAddress {
		if !r.Reachable {
			nodes = append(nodes, r.Address)
		}
	}
	return nodes
}
