package shard

import (
	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// A MemberStatus is the stage of a member between joining and removal. Its String method
// names it.
type MemberStatus = membership.Status

// The statuses of members, in the order in which a member passes through them.
const (
	MemberJoining  = membership.Joining  // admitted; waits for the leader
	MemberWeaklyUp = membership.WeaklyUp // serves clients although not all members agree; hosts nothing
	MemberUp       = membership.Up       // a full member
	MemberLeaving  = membership.Leaving  // gives its shards and singletons away
	MemberExiting  = membership.Exiting  // gave everything away; is removed next
	MemberDown     = membership.Down     // given up by the others, or told to stop; is removed next
	MemberRemoved  = membership.Removed  // no longer a member; this incarnation cannot become one again
)

// A Member is one node of the cluster as the node with this view sees it.
type Member struct {
	transport.Address              // name and incarnation; String is both
	Status            MemberStatus // its stage between joining and removal
	// Age numbers the members in the order in which they became Up: a lower number is
	// older. It is 0 for a member that never was Up.
	Age int
	// Reachable reports whether the observing members hear the member. If not, Evidence names the
	// reason.
	Reachable bool
	Evidence  string
	Roles     []string // its Config.Roles
	// Hosts are the entity types that the member hosts, in order.
	Hosts []string
}

// A ClusterView is the cluster as one node sees it at one moment.
type ClusterView struct {
	// Self is the node whose view this is, and Status is its stage: zero before the cluster
	// admitted the node, MemberRemoved once it has left the cluster.
	Self   transport.Address
	Status MemberStatus
	// Founder is the node that founded the cluster; it may have left since. It distinguishes
	// clusters of the same name.
	Founder transport.Address
	// Leader is the member that admits and removes others. It is zero if no member can.
	Leader transport.Address
	// Converged reports whether all members agree on the view, so that the leader can act. If not,
	// Why has the reason.
	Converged bool
	Why       string
	// Members are ordered from the oldest to the youngest; members that were never Up come last.
	Members []Member
}

// Member returns the member with address a, and reports whether there is one.
func (v ClusterView) Member(a transport.Address) (Member, bool) {
	for _, m := range v.Members {
		if m.Address == a {
			return m, true
		}
	}
	return Member{}, false
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
	member.Hosts = hostmeta.Kinds(m)
	return member
}
