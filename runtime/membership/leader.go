package membership

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/downing"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/lease"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// A Leader admits and removes members while this node is the leader.
type Leader struct {
	*core.Node
	voters *lease.Voters
	fence  *downing.Fence
	led    *gossip.State // the latest state without outstanding duties
	// since is when the view stopped being converged; zero means it has converged.
	since time.Time
}

// runLeader does rounds of the leader's work, if this node leads, until a round changes nothing.
// After a round has changed the state, later rounds only make new members WeaklyUp until all
// members have seen that state.
func (l *Leader) runLeader() {
	for {
		l.voters.Note()
		if l.Local().Why == "" {
			l.since = time.Time{}
		} else if l.since.IsZero() {
			l.since = l.Now
		}
		if !l.Leads() {
			return
		}
		l.fence.Fence()
		if !l.lead() {
			return
		}
		if l.Phase != core.Joined {
			return
		}
	}
}

// lead does one round of the leader's work, and reports whether it changed the gossiped state.
func (l *Leader) lead() bool {
	if !l.since.IsZero() {
		return l.leadWeakly()
	}
	if l.led == l.Gossip {
		return false // nothing was due for this same state
	}
	l.led = l.Gossip
	var moved, removed []gossip.Member
	differing, room := l.differing(), l.voters.Room()
	enough := len(differing) == 0 && l.enough() // nobody becomes Up while members differ
	for _, r := range l.Gossip.Members {
		switch r.Status {
		case gossip.Joining, gossip.WeaklyUp:
			if l.doubled(r) || slices.Contains(differing, r.Address) {
				r.Status = gossip.Down
				moved = append(moved, r)
			} else if enough && (room > 0 || !l.Config.Votes(r)) {
				if l.Config.Votes(r) {
					room--
				}
				r.Status = gossip.Up
				moved = append(moved, r)
			}
		case gossip.Leaving:
			if r.ExitReady {
				r.Status = gossip.Exiting
				moved = append(moved, r)
			}
		case gossip.Exiting:
			removed = append(removed, r)
		case gossip.Down:
			if r.Fenced {
				removed = append(removed, r)
			}
		}
	}
	// This node removes itself last: it leads while Exiting only if no other node can.
	removed = slices.DeleteFunc(removed, func(r gossip.Member) bool { return r.Address == l.Config.Self })
	if len(moved) == 0 && len(removed) == 0 {
		if len(l.Gossip.Members) == 1 && l.Self().Status == gossip.Exiting {
			l.EndMember(true, "")
		}
		return false
	}
	l.apply(moved, removed)
	return true
}

func (l *Leader) apply(moved, removed []gossip.Member) {
	if len(removed) > 0 {
		l.Publish() // gossip may have just marked them Down: subscribers see that before the removal
	}
	l.Change(func(g *gossip.State) {
		for _, r := range moved {
			if r.Status == gossip.Up {
				g.UpCounter++
				r.UpNumber = g.UpCounter
			}
			to := r.Status
			before, _ := g.Member(r.Address)
			r.Status = before.Status
			g.SetStatus(r, to)
		}
		for _, r := range removed {
			g.Remove(r.Address, r.Status == gossip.Exiting)
		}
	})
	for _, r := range removed {
		l.Send(r.Address, message.Removal{Target: message.TargetOf(r.Address), Left: r.Status == gossip.Exiting})
	}
}

// doubled reports whether r, which is not up yet, has the name of a preceding member. Two members
// may have admitted nodes of one name at the same time.
func (l *Leader) doubled(r gossip.Member) bool {
	return slices.ContainsFunc(l.Gossip.Named(r.Name), func(o gossip.Member) bool {
		if o.Address == r.Address || o.Status == gossip.Down {
			return false
		}
		return o.UpNumber != 0 || r.UpNumber == 0 && o.Incarnation < r.Incarnation
	})
}

// differing returns the members, not up yet, that differ from a preceding member in settings that
// must be equal (Config.Differ). They were admitted at the same time. The order is: members that
// were up, this node, serving members, the rest; then by incarnation.
func (l *Leader) differing() (nodes []transport.Address) {
	if l.Config.Differ == nil {
		return nil
	}
	var kept, joining []gossip.Member
	for _, r := range l.Gossip.Members {
		switch {
		case r.Status == gossip.Down:
		case r.UpNumber != 0:
			kept = append(kept, r)
		default:
			joining = append(joining, r)
		}
	}
	rank := func(r gossip.Member) int {
		switch {
		case r.Address == l.Config.Self:
			return 0
		case r.Status != gossip.Joining:
			return 1
		}
		return 2
	}
	slices.SortFunc(joining, func(a, b gossip.Member) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Incarnation, b.Incarnation), a.Compare(b.Address))
	})
	for _, r := range joining {
		if l.Mismatch(r, kept) == "" {
			kept = append(kept, r)
		} else {
			nodes = append(nodes, r.Address)
		}
	}
	return nodes
}

// enough reports whether joining members may become Up: some member was Up before, or the
// configured minimums have joined.
func (l *Leader) enough() bool {
	if l.Gossip.UpCounter > 0 {
		return true
	}
	count := func(role string) int {
		n := 0
		for _, r := range l.Gossip.Members {
			if r.Status <= gossip.Up && r.HasRole(role) {
				n++
			}
		}
		return n
	}
	return count("") >= l.Config.MinMembers && !slices.ContainsFunc(l.Config.MinRoleMembers, func(min core.RoleMinimum) bool {
		return count(min.Role) < min.Members
	})
}

func (l *Leader) leadWeakly() bool {
	if l.Config.WeaklyUpAfter == 0 || l.Local().Joining == 0 || !l.enough() || l.Gossip.UpCounter == 0 {
		return false
	}
	var weak []gossip.Member
	differing := l.differing()
	for _, r := range l.Gossip.Members {
		if r.Status == gossip.Joining && l.EvidenceAgainst(r.Address) == gossip.NoEvidence && !l.doubled(r) &&
			!slices.Contains(differing, r.Address) {
			weak = append(weak, r)
		}
	}
	if len(weak) == 0 {
		return false
	}
	at := l.since.Add(l.Config.WeaklyUpAfter)
	if l.Now.Before(at) {
		l.WakeAt(at)
		return false
	}
	l.Change(func(g *gossip.State) {
		for _, r := range weak {
			g.SetStatus(r, gossip.WeaklyUp)
		}
	})
	return true
}
