package membership

import (
	"slices"

	"github.com/shardgen/shardgen/internal/membership/splitbrain"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// votes reports whether a member may have a vote at all.
func (c Config) votes(r gossip.Member) bool { return r.HasRole(c.DowningRole) }

// voters are the members whose vote decides: those of the last converged view,
// but for those that were proven dead, left, are fenced, or that an operator
// answers for. A Down member goes on counting until it is fenced: otherwise
// members that stood still through one decision after the other would wake up as
// a majority of what they remember.
func (m *Machine) voters() []transport.Address {
	return slices.DeleteFunc(m.settled(), func(node transport.Address) bool {
		r, ok := m.state.Member(node)
		return !ok || r.Status == gossip.Exiting || r.Fenced || r.Forced || !m.config.votes(r) ||
			m.config.Downing.ProvesDeath() && m.evidence(node) == gossip.EvidenceGone
	})
}

// settled are the Up and Leaving members of the last converged view, or those that
// are joining before any is Up.
func (m *Machine) settled() []transport.Address {
	nodes := slices.Clone(m.downing.electorate)
	if len(nodes) == 0 {
		nodes = m.state.Electorate()
	}
	if len(nodes) == 0 {
		for _, r := range m.state.Members {
			if r.UpNumber == 0 && r.Status != gossip.Down {
				nodes = append(nodes, r.Address)
			}
		}
	}
	return nodes
}

// electorate adds to the voters who is the oldest, in the last converged view and
// among them.
func (m *Machine) electorate(voters []transport.Address) splitbrain.Electorate {
	e := splitbrain.Electorate{Voters: voters}
	settled := slices.DeleteFunc(m.settled(), func(node transport.Address) bool {
		r, ok := m.state.Member(node)
		return !ok || r.Fenced || r.Forced || !m.config.votes(r)
	})
	for _, oldest := range []transport.Address{m.state.OldestOf(settled), m.state.OldestOf(voters)} {
		if !oldest.IsZero() && !slices.Contains(e.Oldest, oldest) {
			e.Oldest = append(e.Oldest, oldest)
		}
	}
	return e
}

// counted reports whether a member is one of the others whose word counts for this node's lease.
func (m *Machine) counted(r gossip.Member) bool {
	if r.Address == m.config.Self || m.config.Downing.ProvesDeath() && m.evidence(r.Address) == gossip.EvidenceGone {
		return false
	}
	switch r.Status {
	case gossip.Up, gossip.Leaving:
		return true
	case gossip.Down:
		// Until it is fenced: on the wrong side of a cut, an operator's word must not
		// make this node the only one.
		return !r.Fenced && r.UpNumber != 0 && m.config.Downing != splitbrain.DowningAuto
	case gossip.NoStatus, gossip.Joining, gossip.WeaklyUp, gossip.Exiting, gossip.Removed:
	}
	return false
}
