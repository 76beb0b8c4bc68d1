package downing

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

// batch is the set of members that a large cluster's leader is about to down. Each decision
// causes a new view and moves of shards, so the leader waits until the set is complete.
type batch struct {
	begun, grown time.Time
	victims      []transport.Address // by address
}

const (
	// A batch is complete batchQuiet after the last victim, and at the latest batchLong after the
	// first.
	batchQuiet = time.Second
	batchLong  = 3 * time.Second
)

// An Execution moves members to Down, and ends this node if it is one of them.
type Execution struct {
	*core.Node
	batch batch
	// picked are the reachable members in the batch. See pickedFor.
	picked  []transport.Address
	judgeAt time.Time // when to judge again in a large cluster
}

// downTogether downs the victims; in a large cluster it adds them to the batch.
func (x *Execution) downTogether(victims []gossip.Member) {
	if x.Small() {
		x.DownMembers(victims, Sentence{})
		return
	}
	b := &x.batch
	nodes := gossip.AddressesOf(slices.DeleteFunc(victims, func(r gossip.Member) bool { return r.Status == gossip.Down }))
	if len(nodes) == 0 {
		return
	}
	for _, node := range nodes {
		if !gossip.HasAddress(b.victims, node) {
			b.victims = gossip.WithAddress(b.victims, node)
			b.grown = x.Now
			if b.begun.IsZero() {
				b.begun = x.Now
			}
		}
	}
}

func (x *Execution) runBatch() {
	b := &x.batch
	if len(b.victims) == 0 {
		return
	}
	b.victims = slices.DeleteFunc(b.victims, func(node transport.Address) bool {
		r, ok := x.Gossip.Member(node)
		return !ok || r.Status == gossip.Down || x.EvidenceAgainst(node) == gossip.NoEvidence && !gossip.HasAddress(x.picked, node)
	})
	at := b.grown.Add(batchQuiet)
	if last := b.begun.Add(batchLong); last.Before(at) {
		at = last
	}
	switch {
	case len(b.victims) == 0 || !x.Leads():
		*b = batch{}
	case x.Now.Before(at):
		x.WakeAt(at)
	default:
		var victims []gossip.Member
		for _, node := range b.victims {
			r, _ := x.Gossip.Member(node)
			victims = append(victims, r)
		}
		*b = batch{}
		x.DownMembers(victims, Sentence{})
	}
}

// OnDownNode handles an operator's DownNode.
func (x *Execution) OnDownNode(node transport.Address) {
	if x.Phase != core.Joined {
		return
	}
	var victims []gossip.Member
	for _, r := range x.Gossip.Members {
		if r.Name == node.Name && (node.Incarnation == 0 || r.Incarnation == node.Incarnation) {
			victims = append(victims, r)
		}
	}
	x.DownMembers(victims, Sentence{forced: true, reason: "an operator has downed this node"})
}

// DownMembers moves members to Down, and then ends this node if it is one of them.
func (x *Execution) DownMembers(victims []gossip.Member, by Sentence) {
	victims = slices.DeleteFunc(victims, func(r gossip.Member) bool {
		return r.Status == gossip.Down && (r.Forced || !by.forced) && (r.Judged || !by.judged)
	})
	if len(victims) == 0 {
		return
	}
	x.Change(func(g *gossip.State) {
		for _, r := range victims {
			r.Forced, r.Judged = r.Forced || by.forced, r.Judged || by.judged
			if r.Status == gossip.Down {
				g.SetMember(r)
			} else {
				g.SetStatus(r, gossip.Down)
			}
		}
	})
	if x.Self().Status == gossip.Down {
		// Other members learn of this node's end from this message, the node's last.
		x.PushToAll()
		x.EndMember(false, by.reason)
	}
}

// stopAsMinority ends this node without a message to other members: the members of its side come to
// the same conclusion by themselves, and the other side downs this node. An Exiting node counts as
// left, because it has handed off everything. A node that was never Up may join again.
func (x *Execution) stopAsMinority(reason string) {
	reason += " (is the network partitioned, or did most members die at once?)"
	switch x.Self().Status {
	case gossip.Exiting:
		x.EndMember(true, "")
	case gossip.Joining, gossip.WeaklyUp:
		x.Publish()
		x.Emit(core.SelfDowned{Reason: reason, Rejoin: true})
		x.End()
	default:
		x.EndMember(false, reason)
	}
}

// acts reports whether this node downs members on behalf of its side. In a small cluster, the first
// member of the side does so. In a large cluster, only the leader does so, because the first member
// may not know that other members cannot reach it.
func (x *Execution) acts(side []transport.Address) bool {
	if x.Small() {
		return x.firstOf(side) == x.Config.Self
	}
	return x.Leads()
}

// firstOf returns the member that acts for a side: its first Up or Leaving member by address, else
// its first; zero for an empty side.
func (x *Execution) firstOf(side []transport.Address) transport.Address {
	for _, node := range side {
		if r, _ := x.Gossip.Member(node); r.Status == gossip.Up || r.Status == gossip.Leaving {
			return node
		}
	}
	if len(side) == 0 {
		return transport.Address{}
	}
	return side[0]
}

// A Sentence says who decided to down members, and why.
type Sentence struct {
	forced bool // by an operator
	judged bool // by a side that has taken the lease
	reason string
}

// judgeInterval is the time between two judgements in a large cluster, where a judgement is slow.
const judgeInterval = 500 * time.Millisecond
