package downing

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/detector"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/lease"
	"github.com/shardgen/shardgen/internal/core/membership/splitbrain"
	"github.com/shardgen/shardgen/transport"
)

// A Fence finds Down members that certainly run no more turns, and marks them as Fenced.
type Fence struct {
	*core.Node
	Echo   *detector.Echo
	Voters *lease.Voters
	Lease  *lease.Lease
	// known is when this node, as the leader, first found that enough voters know a member to be
	// Down. judged is when it first found that a side with the lease has downed a member.
	known, judged map[transport.Address]time.Time
	// ups is how many members had been Up when this node first saw a member Down. The Down member
	// may know only these, and then needs fewer votes.
	ups map[transport.Address]uint32
	// vouches has, by Down member and then by observer, the latest time at which the observer may
	// have vouched for the member.
	vouches map[transport.Address]map[transport.Address]time.Time
	// at is when Fence looks again, and looked is the view at its last look.
	at     time.Time
	looked *gossip.Summary
}

// Fence marks as Fenced the Down members that certainly run no more turns. A lease needs messages
// from a quorum, and a member that knows another to be Down does not vouch for it. So the lease of
// a Down member has ended for good at the earliest of these times:
//
//   - QuorumTimeout after enough members know that the member is Down. They are enough if the members that
//     do not know it, together with the Down member, are neither a quorum nor the winning side of a split.
//     There is no wait if all reachable voters hold the evidence Lost or Gone against the member. One
//     observer suffices if it holds Gone and knows of the Down, and there is only one server or the
//     members do not all watch each other: see [lease.Voters.LostToAll] and surelyGone.
//   - QuorumTimeout after the last time at which any other member vouched for the Down member, if all of
//     them have reported when they did so: see vouchesOver.
//   - LeaseHold and SelfHeartbeatTimeout after the judgement, if the member was downed by a side with the
//     lease that decides splits. This side may be small: then enough members may never know of the decision.
//
// Each time includes a margin for clock rates: see clockSpread. The time since this side last heard
// the Down member proves nothing. A partition may have healed a moment ago, and members that do not
// know of the decision yet may have vouched for the Down member.
//
// Only the leader fences, and only while its own connection works: otherwise messages that it sent
// earlier may still be on their way.
func (f *Fence) Fence() {
	l := f.Local()
	unfenced := slices.DeleteFunc(slices.Clone(l.Down), func(i int) bool { return f.Gossip.Members[i].Fenced })
	if len(unfenced) == 0 || !f.Echo.EchoAlive() {
		return
	}
	if !f.Small() { // there are many voters, and they learn of the judgement one by one
		if f.Now.Before(f.at) && f.looked == l.Summary {
			f.WakeAt(f.at)
			return
		}
		f.at, f.looked = f.Now.Add(fenceInterval), l.Summary
		f.WakeAt(f.at)
	}
	var ended []gossip.Member
	for _, i := range unfenced {
		r := f.Gossip.Members[i]
		if f.ups == nil {
			f.ups = make(map[transport.Address]uint32)
		}
		if _, ok := f.ups[r.Address]; !ok {
			f.ups[r.Address] = f.Gossip.UpCounter
		}
		at, known := f.fencedAt(r)
		if !known {
			continue
		}
		if f.Now.Before(at) {
			f.WakeAt(at)
			continue
		}
		r.Fenced = true
		ended = append(ended, r)
	}
	if len(ended) == 0 {
		return
	}
	f.Change(func(g *gossip.State) {
		for _, r := range ended {
			g.SetMember(r)
		}
	})
}

// clockSpread bounds the error of clock rates: 1/50, or 2 %.
const clockSpread = 50

const fenceInterval = 100 * time.Millisecond

// fencedAt returns when a Down member's lease has certainly ended, if known.
func (f *Fence) fencedAt(r gossip.Member) (at time.Time, known bool) {
	if f.foundOut(f.known, r.Address, func() bool { return f.broken(r) }) {
		known = true
		over := f.Voters.LostToAll(r.Address)
		if !f.Bound() || f.Conn.Alone {
			over = f.surelyGone(r.Address)
		}
		if !over {
			at = f.known[r.Address].Add(f.Config.QuorumTimeout + f.Config.QuorumTimeout/clockSpread)
		}
	}
	if f.foundOut(f.judged, r.Address, func() bool { return r.Judged }) {
		ends := f.judged[r.Address].Add(f.Lease.LeaseHold() + f.Lease.LeaseHold()/clockSpread + f.Config.SelfHeartbeatTimeout)
		if !known || ends.Before(at) {
			at, known = ends, true
		}
	}
	if last, ok := f.vouchesOver(r); ok {
		ends := last.Add(f.Config.QuorumTimeout + f.Config.QuorumTimeout/clockSpread)
		if !known || ends.Before(at) {
			at, known = ends, true
		}
	}
	return at, known
}

// surelyGone reports whether an observer holds the evidence Gone against the member and knows that
// the member is Down. Without that knowledge the evidence is not enough, because the member may
// have come back. An observer that knows never vouches for the member again.
func (f *Fence) surelyGone(node transport.Address) bool {
	if f.EvidenceAgainst(node) != gossip.EvidenceGone {
		return false
	}
	return slices.ContainsFunc(f.Gossip.Rows, func(row gossip.ObserverRow) bool {
		held, ok := f.Gossip.Record(row.Observer, node)
		return ok && held.Evidence == gossip.EvidenceGone && f.Gossip.SeenBy(row.Observer)
	})
}

// foundOut reports whether the function holds returns true for a node, or once did. The map when
// keeps the time at which it first did.
func (f *Fence) foundOut(when map[transport.Address]time.Time, node transport.Address, holds func() bool) bool {
	if _, ok := when[node]; ok {
		return true
	}
	if !holds() {
		return false
	}
	when[node] = f.Now
	return true
}

// broken reports whether the voters that do not know r to be Down are too few for a quorum.
func (f *Fence) broken(r gossip.Member) bool { return f.quorumBroken(r, f.Gossip.SeenBy) }

// quorumBroken reports whether r can run no turns without the voters for which lost returns true: r
// and the remaining voters are neither a quorum nor possible winners.
func (f *Fence) quorumBroken(r gossip.Member, lost func(transport.Address) bool) bool {
	voters := slices.DeleteFunc(f.Voters.Voters(), func(node transport.Address) bool {
		v, _ := f.Gossip.Member(node)
		ups, ok := f.ups[r.Address]
		return ok && v.UpNumber > ups
	})
	if f.Config.Downing == splitbrain.DowningAuto {
		voters = slices.DeleteFunc(voters, func(node transport.Address) bool {
			v, _ := f.Gossip.Member(node)
			return v.Status == gossip.Down
		})
	}
	if f.Config.Votes(f.Self()) {
		voters = gossip.WithAddress(voters, f.Config.Self) // also when it is exiting
	}
	if r.Forced && len(voters) == 0 {
		return true // nobody but the operator can know that the only voter has died
	}
	if f.Config.Votes(r) {
		voters = gossip.WithAddress(voters, r.Address)
	}
	others := func(node transport.Address) bool { return node == r.Address || !lost(node) }
	electorate := f.Voters.Electorate(voters)
	return !f.Strategy.Quorum(electorate).Met(others) && !f.mayWin(r, electorate, others)
}

// mayWin reports whether r's side wins as the half that has the oldest; the function with selects
// the voters on that side. Such a side runs turns once the other half is fenced.
func (f *Fence) mayWin(r gossip.Member, e splitbrain.Electorate, with func(transport.Address) bool) bool {
	if d := f.Config.Downing; d == splitbrain.DowningManual || d == splitbrain.DowningAuto || f.surelyGone(r.Address) {
		return false
	}
	side := slices.DeleteFunc(slices.Clone(e.Voters), func(node transport.Address) bool { return !with(node) })
	return f.Strategy.Decide(splitbrain.Split{Electorate: e, Side: side}) == splitbrain.GoOn
}

// resetFence drops recorded times that are valid only while this node hears others and is heard.
func (f *Fence) resetFence() {
	f.known = make(map[transport.Address]time.Time)
	f.judged = make(map[transport.Address]time.Time)
	f.vouches = make(map[transport.Address]map[transport.Address]time.Time)
}

// noteVouches returns the latest time at which each observer may have vouched for a Down member, by
// this node's clock.
func (f *Fence) noteVouches(subject transport.Address) map[transport.Address]time.Time {
	vouches := f.vouches[subject]
	for _, row := range f.Gossip.Rows {
		held, ok := gossip.RecordOf(row.Records, subject)
		if _, known := vouches[row.Observer]; !ok || known || held.Vouched == 0 {
			continue
		}
		if vouches == nil {
			vouches = make(map[transport.Address]time.Time)
			f.vouches[subject] = vouches
		}
		vouches[row.Observer] = f.Now.Add(held.Vouched/clockSpread - held.Vouched)
	}
	return vouches
}

// vouchesOver returns when any member last vouched for r, a Down member. known is true if all
// members that are not Down have reported this, and r has no quorum without them. Then nobody
// vouches for r again.
func (f *Fence) vouchesOver(r gossip.Member) (last time.Time, known bool) {
	vouches := f.noteVouches(r.Address)
	if len(vouches) == 0 {
		return time.Time{}, false
	}
	for _, other := range f.Gossip.Members {
		if other.Status == gossip.Down {
			continue
		}
		at, reported := vouches[other.Address]
		if !reported {
			return time.Time{}, false
		}
		last = core.Later(last, at)
	}
	without := func(node transport.Address) bool {
		_, reported := vouches[node]
		return reported
	}
	return last, f.quorumBroken(r, without)
}
