package downing

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/detector"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/lease"
	"github.com/shardgen/shardgen/transport"
)

// An Indirect finds this node's side when some members are connected only indirectly, and decides
// when others may act on that side. Indirect downs no members: Majority and Splits do, through
// Execution. Majority also resets the fields since and picks.
type Indirect struct {
	*core.Node
	Peers  *detector.Peers
	Voters *lease.Voters
	since  time.Time // since when this node is not on the picked side. See pickWait.
	// side is this node's side in the view noted. changed is when the side last changed, and picks
	// since when sides have been picked. See unsettled.
	side           []transport.Address
	noted          *gossip.Summary
	changed, picks time.Time
}

// survivors returns this node's side, by address, and whether it was picked. After a clean
// partition, the side is the reachable members. If only some paths are broken, the two ends of a
// broken path would down each other. This case shows in an unreachable member that is still heard,
// accuses others, or is not accused by all its observers. Then all members with the same
// accusations pick the same side. They leave out the member with the most broken paths, or the
// youngest of several such members. They repeat this until the remaining members reach each other.
//
// In a large cluster only the leader picks.
func (i *Indirect) survivors() (side []transport.Address, picked bool) {
	g, f := i.Gossip, i.Local()
	out := make([]bool, len(g.Members)) // Down, unreachable, or picked to go
	for i, r := range g.Members {
		out[i] = r.Status == gossip.Down || r.Quarantined || i != f.Self && f.Evidence[i] != gossip.NoEvidence
	}
	list := f.Accusations(g)
	if picked = i.indirectlyConnected(list, out) && (i.Small() || i.Leads()); picked {
		for i, r := range g.Members {
			out[i] = r.Status == gossip.Down || r.Quarantined
		}
		if !i.Small() {
			i.dropHopeless(list, out)
		}
		for worst := i.mostBroken(list, out); worst >= 0; worst = i.mostBroken(list, out) {
			out[worst] = true
		}
	}
	for i, r := range g.Members {
		if !out[i] {
			side = append(side, r.Address)
		}
	}
	return side, picked
}

// pickWait is how long a node outside the picked side waits before it stops. Meanwhile evidence
// from other members can arrive: a side that is picked by the first accusations may lack healthy
// members.
const pickWait = 2 * time.Second

// waitsForOthers reports whether this node still waits before it stops: see pickWait.
func (i *Indirect) waitsForOthers(picked bool) bool {
	if !picked {
		return false
	}
	if i.since.IsZero() {
		i.since = i.Now
	}
	at := i.since.Add(pickWait)
	if i.Now.Before(at) {
		i.WakeAt(at)
		return true
	}
	return false
}

// sideSettles is how long a picked side must stay the same before others are downed. At the end
// of a partition, accusations are withdrawn one by one, within some hundred milliseconds.
const sideSettles = time.Second

// unsettled reports whether it is too early to act on a picked side. Changes of the side delay the
// action by at most lease.MaxUnsettled.
func (i *Indirect) unsettled(side []transport.Address, picked bool) bool {
	i.note(side)
	if !picked {
		i.picks = time.Time{}
		return false
	}
	if i.picks.IsZero() {
		i.picks = i.Now
	}
	at := core.Earlier(i.changed.Add(sideSettles), i.picks.Add(lease.MaxUnsettled))
	if i.Now.Before(at) {
		i.WakeAt(at)
		return true
	}
	return false
}

// watch records the side early, in small clusters, so that it has lasted long enough when an
// unreachable member is due.
func (i *Indirect) watch() {
	if i.Small() && i.noted != i.Local().Summary {
		side, _ := i.survivors()
		i.note(side)
	}
}

func (i *Indirect) note(side []transport.Address) {
	i.noted = i.Local().Summary
	if i.changed.IsZero() || !slices.Equal(side, i.side) {
		i.side, i.changed = side, i.Now
	}
}

// forget drops the recorded side, because no member is to be judged.
func (i *Indirect) forget() {
	i.side, i.noted, i.since, i.changed, i.picks = nil, nil, time.Time{}, time.Time{}, time.Time{}
}

// indirectlyConnected reports whether the accusations show more than a clean partition between the
// members marked in out and all others.
func (i *Indirect) indirectlyConnected(list *gossip.Accusations, out []bool) bool {
	g, f := i.Gossip, i.Local()
	for _, a := range list.List() {
		if g.Members[a.Observer].Status != gossip.Down && out[a.Observer] && !out[a.Subject] {
			return true
		}
	}
	for _, u := range f.Unreachable {
		if !out[u] || g.Members[u].Status == gossip.Down || i.Voters.LostToAll(g.Members[u].Address) {
			continue
		}
		if p := i.Peers.Known[g.Members[u].Address]; p != nil && i.Now.Sub(p.Company) <= i.Config.QuorumTimeout {
			return true
		}
		observers, content := 0, false
		f.Ring.Before(gossip.RingPlace(g.Members[u].Address), func(k int) bool {
			if !out[k] {
				observers++
				content = !slices.ContainsFunc(list.List(), func(a gossip.Accusation) bool { return a.Subject == u && a.Observer == k })
			}
			return observers < i.Config.MonitoredBy && !content
		})
		if content {
			return true
		}
	}
	return false
}

// mostBroken returns the index of the member with the most broken paths, the youngest of equals; -1
// if no path is broken. It ignores the members marked in out. With DetectionManyEdges it considers
// only unreachable members, because a broken path between reachable members may not matter.
func (i *Indirect) mostBroken(list *gossip.Accusations, out []bool) (worst int) {
	g := i.Gossip
	within := func(a gossip.Accusation) bool { return !out[a.Observer] && !out[a.Subject] }
	ways := make(map[int]int)
	pairs := make(map[[2]int]bool)
	for _, a := range list.List() {
		if pair := [2]int{min(a.Observer, a.Subject), max(a.Observer, a.Subject)}; within(a) && !pairs[pair] {
			pairs[pair] = true
			ways[a.Observer]++
			ways[a.Subject]++
		}
	}
	if i.Config.Detection == gossip.DetectionManyEdges {
		evidence := i.evidenceWithout(list, out)
		for i := range g.Members {
			if out[i] || evidence[i] == gossip.NoEvidence {
				delete(ways, i)
			}
		}
	}
	worst = -1
	most := 0
	for i, r := range g.Members {
		if n := ways[i]; n > most || n == most && n > 0 && r.CompareAge(g.Members[worst]) > 0 {
			most, worst = n, i
		}
	}
	return worst
}

// evidenceWithout returns the evidence that remains without the members marked in out.
func (i *Indirect) evidenceWithout(list *gossip.Accusations, out []bool) []gossip.Evidence {
	f := i.Local()
	evidence := list.Weigh(out)
	if own := list.UnheardBy(f.Self, evidence, out); own != nil {
		return own
	}
	return evidence
}

// dropHopeless adds an accused member to out if all its accusers are reachable, and if no observer
// that this node hears still hears the member. Otherwise, after a partition, mostBroken would
// choose members of this node's own side, because they report more broken paths.
func (i *Indirect) dropHopeless(list *gossip.Accusations, out []bool) {
	g, f := i.Gossip, i.Local()
	evidence := i.evidenceWithout(list, out)
	heard := list.HeardBy(f.Self, evidence, out, func(int) bool { return false })
	var hopeless []int
	list.EachSubject(func(subject int, against []gossip.Accusation) {
		if out[subject] || evidence[subject] == gossip.NoEvidence {
			return
		}
		accusing := 0
		for _, a := range against {
			switch {
			case out[a.Observer]:
			case evidence[a.Observer] != gossip.NoEvidence:
				return
			default:
				accusing++
			}
		}
		observers, hears := 0, false
		f.Ring.Before(gossip.RingPlace(g.Members[subject].Address), func(k int) bool {
			observers++
			hears = heard[k] && !gossip.ByObserver(against, k)
			return observers < i.Config.MonitoredBy && !hears
		})
		if accusing > 0 && !hears {
			hopeless = append(hopeless, subject)
		}
	})
	for _, i := range hopeless {
		out[i] = true
	}
}
