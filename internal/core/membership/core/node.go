package core

import (
	"math/rand/v2"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/membership/splitbrain"
	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/transport"
)

// A Node has the data that the parts of one node's machine share: its settings, the time of the
// step, the gossiped state and the conclusions from it, and the output of the step.
type Node struct {
	Config   Config
	Random   *rand.Rand
	Strategy splitbrain.Strategy
	Now      time.Time
	Out      Output
	Phase    phase
	Conn     ConnState
	Mark     message.ServerMark // of Conn.Server
	// Gossip is the gossiped state once this node is a member, and nil before. The state is
	// immutable; a change replaces the pointer.
	Gossip *gossip.State
	// Own is set if this step changed the state itself. No other node can have that version.
	Own         bool
	MemberSince time.Time
	Published   *gossip.State // the state that Shown shows
	conclusions gossip.Local  // of this node, from Gossip
	Shown       *View
}

// A phase is a stage of a node on its way into the cluster and out of it.
type phase uint8

const (
	Idle      phase = iota // before Start
	Searching              // looks for members
	Asking                 // has asked a member for admission
	Joined                 // is in the gossiped state
	Ended                  // has left, was downed, or could not join
)

func NewNode(config Config) *Node {
	return &Node{
		Config:   config,
		Random:   rand.New(rand.NewPCG(config.Seed, config.Self.Incarnation)),
		Strategy: splitbrain.NewStrategy(config.Downing, config.QuorumSize, config.KeepOldestAlone),
		Shown:    &View{Self: config.Self},
	}
}

// Bound reports whether all members watch each other, with heartbeats so frequent that leases can
// rest on the answers to them. See package detector.
func (n *Node) Bound() bool {
	return n.Small() && len(n.Gossip.Members) <= n.Config.MonitoredBy+1 &&
		beatsInLease*n.HeartbeatInterval() <= n.Config.QuorumTimeout
}

// beatsInLease is the number of heartbeats that must fit into QuorumTimeout for a lease
// to rest on their answers alone.
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

// Local returns the conclusions of this node from the gossiped state.
func (n *Node) Local() *gossip.Local {
	if n.conclusions.State != n.Gossip {
		n.conclusions = gossip.NewLocal(n.Gossip, n.Rule(), n.Config.Self, n.conclusions)
	}
	return &n.conclusions
}

func (n *Node) Rule() gossip.Rule {
	return gossip.Rule{Detection: n.Config.Detection, MonitoredBy: n.Config.MonitoredBy}
}

// EvidenceAgainst returns the strongest evidence against a member; NoEvidence if it is reachable or
// no member.
func (n *Node) EvidenceAgainst(node transport.Address) gossip.Evidence {
	return n.Local().EvidenceAgainst(node)
}

func (n *Node) Leads() bool { return n.Local().Leader == n.Config.Self }

// Small reports whether the cluster is small: all members push their changes to all.
func (n *Node) Small() bool { return len(n.Gossip.Members) <= n.Config.SmallCluster }

// EndRemoved ends this node after others have removed it. If this node was not leaving, it counts
// as downed whatever left says, because its driver does not wait for it to leave in order.
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

// EndDowned ends this node after others have downed it. If a differing setting is the cause, the
// reason names it: see Config.Differ.
func (n *Node) EndDowned(reason string) {
	if mine, ok := n.Gossip.Member(n.Config.Self); ok && mine.UpNumber == 0 {
		if why := n.Mismatch(mine, n.Gossip.Members); why != "" {
			reason += ": " + why
		}
	}
	n.EndMember(false, reason)
}

// EndMember ends this node's membership: it left in order, or was downed for the given reason.
func (n *Node) EndMember(left bool, reason string) {
	n.Publish() // emit earlier events first
	if left {
		n.Emit(SelfRemoved{})
	} else {
		n.Emit(SelfDowned{Reason: reason})
	}
	n.End()
}

func (n *Node) End() {
	n.Phase = Ended
	v := *n.Shown
	v.SelfStatus = gossip.Removed
	n.Shown, n.Out.Changed = &v, true
}

// Change makes a new version of the gossiped state by applying change.
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

// Mismatch compares r with others that are not Down, and returns the first difference found by
// Config.Differ; "" if there is none.
func (n *Node) Mismatch(r gossip.Member, others ...[]gossip.Member) string {
	if n.Config.Differ == nil {
		return ""
	}
	for _, list := range others {
		for _, o := range list {
			if o.Address == r.Address || o.Status == gossip.Down {
				continue
			}
			if why := n.Config.Differ(r, o); why != "" {
				return why
			}
		}
	}
	return ""
}

// Send sends a message to a node. It does nothing without a connection, because the
// broker would refuse the message.
func (n *Node) Send(to transport.Address, msg message.Message) {
	if n.Conn.Connected {
		n.Out.Send = append(n.Out.Send, Envelope{To: to, Message: msg})
	}
}

func (n *Node) Broadcast(msg message.Message) {
	if n.Conn.Connected {
		n.Out.Send = append(n.Out.Send, Envelope{Broadcast: true, Message: msg})
	}
}

func (n *Node) Emit(e Event) { n.Out.Events = append(n.Out.Events, e) }

// WakeAt asks the driver for a step at t or before.
func (n *Node) WakeAt(t time.Time) {
	if n.Out.WakeAt.IsZero() || t.Before(n.Out.WakeAt) {
		n.Out.WakeAt = t
	}
}

// Due reports whether the timer has expired, and if so restarts it with the interval. It asks for a
// step when the timer expires next. A zero timer has expired.
func (n *Node) Due(timer *time.Time, interval time.Duration) bool {
	ran := !n.Now.Before(*timer)
	if ran {
		*timer = n.Now.Add(interval)
	}
	n.WakeAt(*timer)
	return ran
}

// Publish makes a new view if the state has changed, and emits the events that lead from the old
// view to it.
func (n *Node) Publish() {
	if n.Gossip == n.Published || n.Phase == Ended {
		return
	}
	n.Published = n.Gossip
	old, next := n.Shown, n.NewView()
	n.Shown, n.Out.Changed = next, true
	n.emitMembers(old.ByAddress, next.ByAddress)
	if old.Leader != next.Leader {
		n.Emit(LeaderChanged{next.Leader})
	}
	if old.Converged != next.Converged {
		n.Emit(ConvergedChanged{next.Converged, next.Why})
	}
}

// emitMembers emits the changes of members, and then the removals.
func (n *Node) emitMembers(old, next []gossip.MemberView) {
	if len(old) == len(next) && (len(next) == 0 || &old[0] == &next[0]) {
		return // only Seen is new
	}
	var removed []gossip.MemberView
	for i, j := 0, 0; i < len(old) || j < len(next); {
		switch {
		case i == len(old) || j < len(next) && next[j].Compare(old[i].Address) < 0:
			n.emitMember(gossip.MemberView{Reachable: true}, next[j])
			j++
		case j == len(next) || old[i].Compare(next[j].Address) < 0:
			removed = append(removed, old[i])
			i++
		default:
			n.emitMember(old[i], next[j])
			i++
			j++
		}
	}
	for _, was := range removed {
		n.emitRemoved(was)
	}
}

// emitRemoved emits the removal of a member. The steps before it may have been missed: gossip can
// bring them all at once. The tombstone knows how the member ended.
func (n *Node) emitRemoved(was gossip.MemberView) {
	switch t, ok := n.Gossip.Tombstone(was.Address); {
	case !ok || was.Status == gossip.Down:
	case t.Left:
		was.Status = gossip.Exiting
	default:
		was.Status = gossip.Down
		n.Emit(MemberDowned{Member: was.Member, Evidence: was.Evidence})
	}
	n.Emit(MemberRemoved{was.Member})
}

// emitMember emits the events for the changes of a member.
func (n *Node) emitMember(was, r gossip.MemberView) {
	if was.Status == gossip.NoStatus {
		joined := r.Member
		joined.Status, joined.UpNumber = gossip.Joining, 0
		n.Emit(MemberJoined{joined})
		was.Status = gossip.Joining
	}
	if was.Status != r.Status {
		switch r.Status {
		case gossip.WeaklyUp:
			n.Emit(MemberWeaklyUp{r.Member})
		case gossip.Up:
			n.Emit(MemberUp{r.Member})
		case gossip.Leaving:
			n.Emit(MemberLeaving{r.Member})
		case gossip.Exiting:
			n.Emit(MemberExiting{r.Member})
		case gossip.Down:
			e := MemberDowned{Member: r.Member, Evidence: r.Evidence}
			if r.UpNumber == 0 {
				e.Why = n.Mismatch(r.Member, n.Gossip.Members)
			}
			n.Emit(e)
		case gossip.NoStatus, gossip.Joining, gossip.Removed:
		}
	}
	if r.Quarantined && !was.Quarantined {
		n.Emit(MemberQuarantined{r.Member})
	}
	switch {
	case r.Reachable && !was.Reachable:
		n.Emit(ReachableMember{r.Member})
	case !r.Reachable && r.Evidence != was.Evidence:
		n.Emit(UnreachableMember{r.Member, r.Evidence})
	}
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

// Refuse records why the message of this step is refused.
func (n *Node) Refuse(why Refusal) { n.Out.Refused = why }

// PushToAll sends the state to all nodes that have not seen it. In a large cluster it broadcasts
// the state.
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

// Audience returns the other nodes that this node can reach. They include Down members not fenced
// yet: these have to learn that they are Down.
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

// The least time between two broadcasts of the state by one member is broadcastPerMember for each
// member of the cluster, and at least broadcastInterval.
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
