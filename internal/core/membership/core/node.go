package core

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/membership/splitbrain"
	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/transport"
)

// A Node has the data that the parts of a gossip machine share: the Base, the gossiped state,
// and the conclusions from that state.
type Node struct {
	Base
	Strategy splitbrain.Strategy
	// Gossip is the gossiped state once this node is a member, and nil before. The state is
	// immutable; a change replaces the pointer.
	Gossip *gossip.State
	// Own is set if this step changed the state itself. No other node can have that version.
	Own         bool
	MemberSince time.Time
	Published   *gossip.State // the state that Shown shows
	conclusions gossip.Local  // of this node, from Gossip
}

func NewNode(config Config) *Node {
	return &Node{
		Base:     NewBase(config),
		Strategy: splitbrain.NewStrategy(config.Downing, config.QuorumSize, config.KeepOldestAlone),
	}
}

// Bound reports whether all members watch each other, by heartbeats so frequent that a lease can
// rest on the answers alone. See package detector.
func (n *Node) Bound() bool {
	return n.Small() && len(n.Gossip.Members) <= n.Config.MonitoredBy+1 &&
		beatsInLease*n.HeartbeatInterval() <= n.Config.QuorumTimeout
}

// beatsInLease is the number of heartbeats that must fit into QuorumTimeout for a lease to rest
// on their answers alone.
const beatsInLease = 4

// BroadcastInterval returns the least time between two broadcasts of the state by one member.
func (n *Node) BroadcastInterval() time.Duration {
	return max(broadcastInterval, time.Duration(len(n.Gossip.Members))*broadcastPerMember)
}

func (n *Node) HeartbeatInterval() time.Duration {
	switch size := len(n.Gossip.Members); {
	case n.Config.HeartbeatInterval != 0:
		return n.Config.HeartbeatInterval
	case size <= 50:
		return 500 * time.Millisecond
	case size <= 200:
		return time.Second
	case size <= 600:
		return 2 * time.Second
	}
	return 3 * time.Second
}

func (n *Node) BecomeMember() {
	n.Phase = Joined
	n.MemberSince = n.Now
}

// Local returns this node's conclusions from the gossiped state.
func (n *Node) Local() *gossip.Local {
	if n.conclusions.State != n.Gossip {
		n.conclusions = gossip.NewLocal(n.Gossip, n.Rule(), n.Config.Self, n.conclusions)
	}
	return &n.conclusions
}

func (n *Node) Rule() gossip.Rule {
	return gossip.Rule{Detection: n.Config.Detection, MonitoredBy: n.Config.MonitoredBy}
}

// EvidenceAgainst returns the strongest evidence against a node; NoEvidence if the node is
// reachable or no member.
func (n *Node) EvidenceAgainst(node transport.Address) gossip.Evidence {
	return n.Local().EvidenceAgainst(node)
}

func (n *Node) Leads() bool { return n.Local().Leader == n.Config.Self }

// Small reports whether the cluster is small. In a small cluster all members send their changes to
// all others.
func (n *Node) Small() bool { return len(n.Gossip.Members) <= n.Config.SmallCluster }

// EndRemoved ends this node after other members have removed it. left reports whether they removed
// it as a node that has left. If this node was not leaving, it counts as downed even if left is
// true, because its driver has not prepared for leaving.
func (n *Node) EndRemoved(left bool, by transport.Address, reason string) {
	if r, ok := n.Gossip.Member(n.Config.Self); left && (!ok || r.Status != gossip.Leaving && r.Status != gossip.Exiting) {
		left, reason = false, by.Name+" says that this node left, but it did not"
	}
	if !left {
		n.EndDowned(reason)
		return
	}
	n.EndMember(true, reason)
}

// EndDowned ends this node after other members have downed it. If this node was never Up and one of
// its settings differs from theirs, the reason also names that setting: see Config.Differ.
func (n *Node) EndDowned(reason string) {
	if mine, ok := n.Gossip.Member(n.Config.Self); ok && mine.UpNumber == 0 {
		if why := n.Mismatch(mine, n.Gossip.Members); why != "" {
			reason += ": " + why
		}
	}
	n.EndMember(false, reason)
}

// EndMember ends this node's membership. left says that the node left in order; otherwise it was
// downed for the given reason.
func (n *Node) EndMember(left bool, reason string) {
	n.Publish() // emit earlier events first
	if left {
		n.Emit(SelfRemoved{})
	} else {
		n.Emit(SelfDowned{Reason: reason})
	}
	n.End()
}

// Change applies change to the gossiped state, which gives a new version.
func (n *Node) Change(change func(*gossip.State)) {
	n.Gossip = n.Gossip.ChangedBy(n.Config.Self, change)
	n.Own = true
}

// Self returns this node's own record.
func (n *Node) Self() gossip.Member {
	i := n.Local().Self
	if i < 0 {
		invariant.Failf("%v is not in its own state %v", n.Config.Self, n.Gossip)
	}
	return n.Gossip.Members[i]
}

// Publish shows a new view if the state has changed, and emits the events that lead from the old
// view to the new one.
func (n *Node) Publish() {
	if n.Gossip == n.Published || n.Phase == Ended {
		return
	}
	n.Published = n.Gossip
	n.Show(n.NewView(), n.ended)
}

func (n *Node) ended(node transport.Address) gossip.Status {
	switch t, ok := n.Gossip.Tombstone(node); {
	case !ok:
		return gossip.NoStatus
	case t.Left:
		return gossip.Exiting
	}
	return gossip.Down
}

func (n *Node) NewView() *View {
	f := n.Local()
	return &View{
		Self:       n.Config.Self,
		SelfStatus: n.Self().Status,
		Founder:    n.Gossip.Founder,
		ByAddress:  f.ByAddress,
		ByAge:      f.ByAge,
		Leader:     f.Leader,
		Why:        f.Why,
		Converged:  f.Why == "",
	}
}

// PushToAll sends the state to each node of Audience that has not seen it. In a large cluster it broadcasts
// the state instead.
func (n *Node) PushToAll() {
	if !n.Small() {
		n.Broadcast(message.Gossip{State: n.Gossip})
		return
	}
	for _, node := range n.Audience() {
		if !n.Gossip.SeenBy(node) {
			n.Send(node, message.Gossip{Target: message.TargetOf(node), State: n.Gossip})
		}
	}
}

func (n *Node) Status(target uint32) message.Status {
	f := n.Local()
	s := message.Status{
		Target: target, Version: f.Digest, Changes: f.Changes,
		Members: len(n.Gossip.Members), Seen: n.Gossip.Seen,
	}
	if s.Seen.Count() == s.Members {
		s.All, s.Members, s.Seen = true, 0, nil
	}
	return s
}

// Audience returns the other members that this node does not hold for unreachable. Down members are
// included until they are fenced, because they must learn that they are Down.
func (n *Node) Audience() []transport.Address {
	nodes := make([]transport.Address, 0, len(n.Gossip.Members))
	held := n.Gossip.Records(n.Config.Self)
	for _, r := range n.Gossip.Members {
		if r.Address != n.Config.Self && !r.Fenced && (len(held) == 0 || !gossip.HasRecord(held, r.Address)) {
			nodes = append(nodes, r.Address)
		}
	}
	return nodes
}

// The least time between two broadcasts by one member is broadcastPerMember for each member of
// the cluster, and at least broadcastInterval.
const (
	broadcastInterval  = 100 * time.Millisecond
	broadcastPerMember = 250 * time.Microsecond
)

func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func Earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
