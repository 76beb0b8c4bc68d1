package membership

import (
	"github.com/shardgen/shardgen/internal/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

// publish makes the view of what has changed, and the events that lead there.
func (m *Machine) publish() {
	if m.state == m.published || m.phase == ended {
		return
	}
	m.published = m.state
	old, next := m.view, m.newView()
	m.view, m.out.Changed = next, true
	m.emitMembers(old.ByAddress, next.ByAddress)
	if old.Leader != next.Leader {
		m.emit(LeaderChanged{next.Leader})
	}
	if old.Converged != next.Converged {
		m.emit(ConvergedChanged{next.Converged, next.Why})
	}
}

// emitMembers says how the members changed, and then who is no more.
func (m *Machine) emitMembers(old, next []gossip.MemberView) {
	if len(old) == len(next) && (len(next) == 0 || &old[0] == &next[0]) {
		return // only who has seen it is new
	}
	var removed []gossip.MemberView
	for i, j := 0, 0; i < len(old) || j < len(next); {
		switch {
		case i == len(old) || j < len(next) && next[j].Compare(old[i].Address) < 0:
			m.emitMember(gossip.MemberView{Reachable: true}, next[j])
			j++
		case j == len(next) || old[i].Compare(next[j].Address) < 0:
			removed = append(removed, old[i])
			i++
		default:
			m.emitMember(old[i], next[j])
			i++
			j++
		}
	}
	for _, was := range removed {
		m.emit(MemberRemoved{was.Member})
	}
}

// emitMember says how a member changed.
func (m *Machine) emitMember(was, r gossip.MemberView) {
	if was.Status == gossip.NoStatus {
		joined := r.Member
		joined.Status, joined.UpNumber = gossip.Joining, 0
		m.emit(MemberJoined{joined})
		was.Status = gossip.Joining
	}
	if was.Status != r.Status {
		switch r.Status {
		case gossip.WeaklyUp:
			m.emit(MemberWeaklyUp{r.Member})
		case gossip.Up:
			m.emit(MemberUp{r.Member})
		case gossip.Leaving:
			m.emit(MemberLeaving{r.Member})
		case gossip.Exiting:
			m.emit(MemberExiting{r.Member})
		case gossip.Down:
			m.emit(MemberDowned{r.Member})
		case gossip.NoStatus, gossip.Joining, gossip.Removed:
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
	f := m.local()
	return &View{
		Self:       m.config.Self,
		SelfStatus: m.self().Status,
		Founder:    m.state.Founder,
		ByAddress:  f.ByAddress,
		ByAge:      f.ByAge,
		Leader:     f.Leader,
		Why:        f.Why,
		Converged:  f.Why == "",
	}
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
