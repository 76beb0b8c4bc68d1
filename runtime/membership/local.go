package membership

import (
	"github.com/shardgen/shardgen/internal/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

// local returns the conclusions of this node from the gossiped state.
func (m *Machine) local() *gossip.Local {
	if m.conclusions.State != m.state {
		m.conclusions = gossip.NewLocal(m.state, m.rule(), m.config.Self, m.conclusions)
	}
	return &m.conclusions
}

func (m *Machine) rule() gossip.Rule {
	return gossip.Rule{Detection: m.config.Detection, Watched: m.config.Watched}
}

// evidence returns the strongest evidence against a member.
func (m *Machine) evidence(node transport.Address) gossip.Evidence {
	return m.local().EvidenceAgainst(node)
}

func (m *Machine) leads() bool { return m.local().Leader == m.config.Self }

// small reports whether the cluster is one in which all members push changes to all.
func (m *Machine) small() bool { return len(m.state.Members) <= m.config.SmallCluster }
