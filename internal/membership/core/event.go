package core

import (
	"fmt"
	"strings"

	"github.com/shardgen/shardgen/internal/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

// An Event is a change of the view, in the order in which it was seen. A new
// subscriber takes the current [View] first. String is for people.
type Event interface {
	event()
	String() string
}

// Events about members. Intermediate statuses may be skipped by one that was
// not told of them.
type (
	// MemberJoined: a node was admitted.
	MemberJoined struct{ Member gossip.Member }
	// MemberWeaklyUp: a joining member serves although nothing converges.
	MemberWeaklyUp struct{ Member gossip.Member }
	// MemberUp: a member is full.
	MemberUp struct{ Member gossip.Member }
	// MemberLeaving: a member wants to leave.
	MemberLeaving struct{ Member gossip.Member }
	// MemberExiting: a leaving member has given everything away.
	MemberExiting struct{ Member gossip.Member }
	// MemberDowned: a member was judged dead, or told to go.
	MemberDowned struct{ Member gossip.Member }
	// MemberRemoved: a member is no more. Member.Status is the one it had before:
	// Exiting when it left in order.
	MemberRemoved struct{ Member gossip.Member }
	// UnreachableMember: a member cannot be heard; Evidence is the strongest there is.
	UnreachableMember struct {
		Member   gossip.Member   // who
		Evidence gossip.Evidence // the strongest of all observers
	}
	// ReachableMember: it is heard again by all that missed it.
	ReachableMember struct{ Member gossip.Member }
	// MemberQuarantined: messages that had to arrive could not be delivered to a
	// member; it stays unreachable until it is Down or removed.
	MemberQuarantined struct{ Member gossip.Member }
)

// Events about the cluster and this node.
type (
	// LeaderChanged: zero means that nobody can lead.
	LeaderChanged struct{ Leader transport.Address }
	// ConvergedChanged: the leader can act, or cannot and Reason says why. Later
	// reasons are in View.Why.
	ConvergedChanged struct {
		Converged bool   // the leader can act
		Reason    string // why it cannot, for people
	}
	// Formed: this node has formed the cluster.
	Formed struct{ Founder transport.Address }
	// JoinerTooLarge: a node was not admitted, for the state would not fit a message.
	JoinerTooLarge struct {
		Joiner transport.Address // who may ask again
		Reason string            // with the sizes, for people
	}
	// StateTooLarge: the broker takes less in a message now than the state has.
	// Nobody can join, leave or be removed until it takes more.
	StateTooLarge struct{ Bytes, Limit int }
	// JoinFailed ends the machine: the node could not join.
	JoinFailed struct{ Err error }
	// SelfDowned ends the machine: this node is no member any more and has to
	// stop. Rejoin: a new incarnation should join at once, for the node's cluster
	// gave way to another one of its name.
	SelfDowned struct {
		Reason string // for people
		Rejoin bool   // join again, as a new incarnation
	}
	// SelfRemoved ends the machine: this node has left in order and may stop.
	SelfRemoved struct{}
)

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

func (e MemberDowned) String() string { return fmt.Sprintf("downed %v", e.Member.Address) }

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

func (e JoinerTooLarge) String() string {
	return fmt.Sprintf("%v not admitted: %s", e.Joiner, e.Reason)
}

func (e StateTooLarge) String() string {
	return fmt.Sprintf("the state has %d bytes, and the broker takes %d in a message", e.Bytes, e.Limit)
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
