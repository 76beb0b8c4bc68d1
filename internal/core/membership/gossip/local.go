package gossip

import "github.com/shardgen/shardgen/transport"

// A Local holds one node's conclusions from a state of the cluster. Every step of the node uses
// them, so they are computed only once for a state.
type Local struct {
	*Summary                   // as this node has to see it
	State    *State            // the state that it is about
	Self     int               // the node's own index in Members, or -1
	Leader   transport.Address // the member that may act for the cluster; zero means none
	Why      string            // the obstacle to convergence; empty means the view has converged

	common *Summary // as all nodes see it
}

// NewLocal computes what the given node concludes from state g. The parameter before is an earlier
// Local; conclusions in it that still hold are reused.
func NewLocal(g *State, rule Rule, node transport.Address, before Local) Local {
	l := Local{State: g, common: g.Summary(rule)}
	if l.common == before.common {
		l.Self, l.Summary = before.Self, before.Summary
	} else {
		l.Self = -1
		if i, ok := g.Index(node); ok {
			l.Self = i
		}
		l.Summary = l.common.seenBy(g, l.Self)
	}
	leader := l.leader
	if l.Self >= 0 && l.Evidence[l.Self] != NoEvidence {
		leader = leaderIndex(g, l.Evidence, l.Self)
	}
	if leader >= 0 {
		l.Leader = g.Members[leader].Address
	}
	l.Why = l.convergence(g)
	return l
}

// EvidenceAgainst returns the strongest evidence against a node.
func (l *Local) EvidenceAgainst(node transport.Address) Evidence {
	i, ok := l.State.Index(node)
	if !ok {
		return NoEvidence
	}
	return l.Evidence[i]
}

// Speaker returns the member that sends a merged version to all others, after concurrent versions
// were merged. It is the leader, unless this node counts as unreachable. An unreachable node cannot
// rely on its own view: it may be the leader in that view, and after a split all nodes are
// unreachable to each other. The speaker is then the leader in the view of the other members. If
// they have no leader, it is the first member in the order of leaders.
func (l *Local) Speaker() transport.Address {
	if l.Self < 0 || l.Evidence[l.Self] == NoEvidence {
		return l.Leader
	}
	speaker := l.common.leader
	if speaker < 0 {
		speaker = leaderIndex(l.State, make([]Evidence, len(l.State.Members)), -1)
	}
	if speaker < 0 {
		return l.Leader
	}
	return l.State.Members[speaker].Address
}
