package core

import (
	"fmt"
	"strings"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

// An Event is a change of the view or of this node's own state. Events come in the order in which
// this node saw the changes. A new subscriber starts with the current [View]. String is for logs
// and transcripts.
type Event interface {
	event()
	String() string
}

// Events about members. If this node did not receive the version of the state in which a member had
// a status, the event of that status is skipped.
type (
	// MemberJoined means that a node was admitted.
	MemberJoined struct{ Member gossip.Member }
	// MemberWeaklyUp means that a joining member serves although the view has not
	// converged.
	MemberWeaklyUp struct{ Member gossip.Member }
	// MemberUp means that a member became Up: a full member.
	MemberUp struct{ Member gossip.Member }
	// MemberLeaving means that a member has asked to leave.
	MemberLeaving struct{ Member gossip.Member }
	// MemberExiting means that a leaving member has handed off its shards and singletons.
	MemberExiting struct{ Member gossip.Member }
	// MemberDowned means that a member was downed, or told to stop. It comes before the removal of
	// each member that did not leave in order.
	MemberDowned struct {
		Member   gossip.Member
		Evidence gossip.Evidence // the strongest known against it
		Why      string          // the setting in which it differs from another member, if that is the cause; else ""
	}
	// MemberRemoved means that a node ceased to be a member. Member.Status is its last status as a
	// member: Exiting if it left in order.
	MemberRemoved struct{ Member gossip.Member }
	// UnreachableMember means that observers cannot reach a member.
	UnreachableMember struct {
		Member   gossip.Member   // the member
		Evidence gossip.Evidence // the strongest of all observers
	}
	// ReachableMember means that an unreachable member can be reached again.
	ReachableMember struct{ Member gossip.Member }
	// MemberQuarantined means that required messages could not be delivered to a member. It stays
	// unreachable until it is Down or removed.
	MemberQuarantined struct{ Member gossip.Member }
)

// Events about the cluster and this node.
type (
	// LeaderChanged names the new leader; zero means that no member can lead.
	LeaderChanged struct{ Leader transport.Address }
	// ConvergedChanged means that the leader can act now, or cannot, for the given Reason. If the
	// reason changes later, only View.Why shows it.
	ConvergedChanged struct {
		Converged bool   // the leader can act
		Reason    string // the reason why it cannot
	}
	// Formed means that this node has formed the cluster.
	Formed struct{ Founder transport.Address }
	// FoundedElsewhere means that the store's founding record names another cluster. A joiner then
	// may not form a cluster yet; at a leader it means that two clusters use one store.
	FoundedElsewhere struct {
		Other  Founding
		Server string // the broker instance behind this node's connection
	}
	// OtherTable means that a member of another cluster answered. That cluster has this cluster's
	// name, but another table.
	OtherTable struct {
		Node    transport.Address // the member that answered
		Founder transport.Address // of its cluster
	}
	// JoinerTooLarge means that a node was not admitted, because the state with it would exceed the
	// broker's limit for a message.
	JoinerTooLarge struct {
		Joiner transport.Address // the node, which may ask again
		Reason string            // with both sizes
	}
	// StateTooLarge means that the broker's limit is now below the size of the
	// state. No node can join, leave or be removed until the limit is raised.
	StateTooLarge struct{ Bytes, Limit int }
	// JoinFailed ends the machine: the node could not join.
	JoinFailed struct{ Err error }
	// SelfDowned ends the machine: this node is not a member and has to stop. With Rejoin a new
	// incarnation should join at once, because the node's cluster gave way to another one of its
	// name, or the node was never Up.
	SelfDowned struct {
		Reason string // text for operators
		Rejoin bool   // join again, as a new incarnation
	}
	// SelfRemoved ends the machine: this node has left in order and may stop.
	SelfRemoved struct{}
)

func (FoundedElsewhere) event()  {}
func (OtherTable) event()        {}
func (JoinerTooLarge) event()    {}
func (StateTooLarge) event()     {}
func (MemberJoined) event()      {}
func (MemberWeaklyUp) event()    {}
func (MemberUp) event()          {}
func (MemberLeaving) event()     {}
func (MemberExiting) event()     {}
func (MemberDowned) event()      {}
func (MemberRemoved) event()     {}
func (UnreachableMember) event() {}
func (ReachableMember) event()   {}
func (MemberQuarantined) event() {}
func (LeaderChanged) event()     {}
func (ConvergedChanged) event()  {}
func (Formed) event()            {}
func (JoinFailed) event()        {}
func (SelfDowned) event()        {}
func (SelfRemoved) event()       {}

func (e MemberJoined) String() string { return fmt.Sprintf("joined %v", e.Member.Address) }

func (e MemberWeaklyUp) String() string { return fmt.Sprintf("weakly-up %v", e.Member.Address) }

func (e MemberUp) String() string {
	return fmt.Sprintf("up %v age=%d", e.Member.Address, e.Member.UpNumber)
}

func (e MemberLeaving) String() string { return fmt.Sprintf("leaving %v", e.Member.Address) }

func (e MemberExiting) String() string { return fmt.Sprintf("exiting %v", e.Member.Address) }

func (e MemberDowned) String() string {
	if e.Why != "" {
		return fmt.Sprintf("downed %v: %s", e.Member.Address, e.Why)
	}
	return fmt.Sprintf("downed %v", e.Member.Address)
}

func (e MemberRemoved) String() string {
	return fmt.Sprintf("removed %v was %v", e.Member.Address, e.Member.Status)
}

func (e UnreachableMember) String() string {
	return fmt.Sprintf("unreachable %v (%v)", e.Member.Address, e.Evidence)
}

func (e ReachableMember) String() string { return fmt.Sprintf("reachable %v", e.Member.Address) }

func (e MemberQuarantined) String() string { return fmt.Sprintf("quarantined %v", e.Member.Address) }

func (e LeaderChanged) String() string { return fmt.Sprintf("leader %v", e.Leader) }

func (e ConvergedChanged) String() string {
	if e.Converged {
		return "converged"
	}
	return "not converged: " + e.Reason
}

func (e Formed) String() string { return fmt.Sprintf("formed by %v", e.Founder) }

func (e FoundedElsewhere) String() string {
	return fmt.Sprintf("the store's founding record names the cluster formed by %v (written by %v through broker %s)", e.Other.Founder, e.Other.Node, e.Other.Server)
}

func (e OtherTable) String() string {
	return fmt.Sprintf("%v belongs to a cluster of this name with another table, formed by %v", e.Node, e.Founder)
}

func (e JoinerTooLarge) String() string {
	return fmt.Sprintf("%v not admitted: %s", e.Joiner, e.Reason)
}

func (e StateTooLarge) String() string {
	return fmt.Sprintf("the state has %d bytes, but the broker accepts at most %d per message (raise its max_payload)", e.Bytes, e.Limit)
}

func (e JoinFailed) String() string { return "join failed: " + e.Err.Error() }

func (e SelfDowned) String() string {
	var b strings.Builder
	b.WriteString("self downed: " + e.Reason)
	if e.Rejoin {
		b.WriteString(" (rejoin)")
	}
	return b.String()
}

func (SelfRemoved) String() string { return "self removed" }
