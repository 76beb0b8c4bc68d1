package shard

import (
	"strings"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// A MemberStatus is how far a member's life is; String names it.
type MemberStatus = membership.Status

// The statuses of members.
const (
	MemberJoining  = membership.Joining  // admitted; waits for the leader
	MemberWeaklyUp = membership.WeaklyUp // serves callers although not all members agree; hosts nothing
	MemberUp       = membership.Up       // a full member
	MemberLeaving  = membership.Leaving  // gives away what it has
	MemberExiting  = membership.Exiting  // gave everything away; is removed next
	MemberDown     = membership.Down     // judged dead, or told to go; is removed next
	MemberRemoved  = membership.Removed  // no member any more; this incarnation never is again
)

// A Member is one node of the cluster as another one sees it.
type Member struct {
	transport.Address              // name and incarnation; String is both
	Status            MemberStatus // how far it is between joining and removal
	// Age numbers the members as they became Up: a lower number is older. 0: it
	// never was Up.
	Age int
	// Reachable: nothing is held against it. Evidence says what is, if not.
	Reachable bool
	Evidence  string
	Roles     []string // of its Config
	// Hosts are the entity types that it hosts, in order.
	Hosts []string
}

// A ClusterView is the cluster as one node sees it at one moment.
type ClusterView struct {
	// Self is the node that sees it, and Status how far it is: the zero status
	// before it was admitted, MemberRemoved once it is no member any more.
	Self   transport.Address
	Status MemberStatus
	// Founder is the node that founded the cluster; it need not be a member any
	// more. It tells two clusters of one name apart.
	Founder transport.Address
	// Leader lets members in and out; zero: nobody can.
	Leader transport.Address
	// Converged: all members agree, so the leader can act. Otherwise Why says what
	// is missing.
	Converged bool
	Why       string
	// Members are ordered from the oldest to the youngest; those that never were Up
	// come last.
	Members []Member
}

// Member finds the member of an address.
func (v ClusterView) Member(a transport.Address) (Member, bool) {
	for _, m := range v.Members {
		if m.Address == a {
			return m, true
		}
	}
	return Member{}, false
}

// Cluster returns the cluster as this node sees it now. It takes time in
// proportion to the members; [Node.Events] tells changes alone.
func (n *Node) Cluster() ClusterView {
	v := n.events.current()
	if v == nil {
		return ClusterView{Self: n.plane.self.Address}
	}
	return clusterView(v)
}

func clusterView(v *membership.View) ClusterView {
	view := ClusterView{
		Self: v.Self, Status: v.SelfStatus, Founder: v.Founder, Leader: v.Leader, Converged: v.Converged, Why: v.Why,
		Members: make([]Member, 0, len(v.ByAge)),
	}
	for _, m := range v.ByAge {
		view.Members = append(view.Members, memberOf(m.Member, m.Reachable, m.Evidence))
	}
	return view
}

func memberOf(m membership.Member, reachable bool, e membership.Evidence) Member {
	member := Member{
		Address: m.Address, Status: m.Status, Age: int(m.UpNumber), Roles: append([]string(nil), m.Roles...), Reachable: reachable,
	}
	if !reachable {
		member.Evidence = e.String()
	}
	for _, kv := range m.Meta {
		if kind, ok := strings.CutPrefix(kv.Key, metaKind); ok {
			member.Hosts = append(member.Hosts, kind)
		}
	}
	return member
}
