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

// An Indirect finds this node's side when some members are indirectly connected, and says whether
// it may be acted on yet. It downs nobody: Majority and Splits do, by Execution. Majority also
// clears since and picks.
type Indirect struct {
	*core.Node
	Peers *detector.Peers
	since time.Time // since when this node would lose by a pick. See pickWait.
	// side is this node's side when the view was noted, and changed is since when it has been
	// the same. picks is since when sides have been picked. See unsettled.
	side           []transport.Address
	noted          *gossip.Summary
	changed, picks time.Time
}

// survivors returns this node's side, by address. After a clean partition these are the reachable
// members. But when ways between some members are broken, and others reach both ends, each end
// would down the other, and both decisions would be carried out. It shows in an unreachable member
// that is still heard, accuses in turn, or is not accused by all its observers. Then all members
// with the same accusations pick the same side: repeatedly the member with the most broken paths
// goes, of equal ones the youngest, until nobody is unreachable.
//
// In a large cluster only the leader downs, so nobody else has to pick.
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

// pickWait is how long a node that would have to stop waits for the evidence of others.
// When connections break one after another, a choice based on the first accusations may
// remove healthy members.
const pickWait = 2 * time.Second

// waitsForOthers reports whether a node that would have to stop still waits.
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

// sideSettles is how long a picked side must have stayed the same before anybody is downed
// for it. When a partition ends, the accusations across it are withdrawn one by one within
// some hundred milliseconds, and sides that are picked meanwhile lack healthy members.
const sideSettles = time.Second

// unsettled reports whether a side was picked and is not to be acted on yet. Sides that go
// on changing are acted on after lease.MaxUnsettled.
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

// watch notes the side while no unreachable member is due yet, so that the side may have settled
// when one is.
func (i *Indirect) watch() {
	if i.Small() && i.noted != i.Local().Summary {
		side, _ := i.survivors()
		i.note(side)
	}
}

// note keeps since when the side has been the same.
func (i *Indirect) note(side []transport.Address) {
	i.noted = i.Local().Summary
	if i.changed.IsZero() || !slices.Equal(side, i.side) {
		i.side, i.changed = side, i.Now
	}
}

// forget drops the side, where there is nothing to judge.
func (i *Indirect) forget() {
	i.side, i.noted, i.since, i.changed, i.picks = nil, nil, time.Time{}, time.Time{}, time.Time{}
}

// indirectlyConnected reports whether this is more than a clean partition from those that
// are out.
func (i *Indirect) indirectlyConnected(list *gossip.Accusations, out []bool) bool {
	g, f := i.Gossip, i.Local()
	for _, a := range list.List() {
		if g.Members[a.Observer].Status != gossip.Down && out[a.Observer] && !out[a.Subject] {
			return true
		}
	}
	for _, u := range f.Unreachable {
		if !out[u] || g.Members[u].Status == gossip.Down {
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

// mostBroken finds the member with the most broken ways among those that are not
// out, if anybody among them is still unreachable. Under many edges it is one of
// the unreachable ones, for others may have broken ways that do not matter.
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

// evidenceWithout returns the evidence against members when the members that are out do
// not count.
func (i *Indirect) evidenceWithout(list *gossip.Accusations, out []bool) []gossip.Evidence {
	f := i.Local()
	evidence := list.Weigh(out)
	if own := list.UnheardBy(f.Self, evidence, out); own != nil {
		return own
	}
	return evidence
}

// dropHopeless leaves out members not shown to be heard by anybody: their accusers are reachable,
// and no observer heard by this node hears them. After a partition of a large cluster these are all
// members of the other side, hundreds, and members of this side report more broken ways than those
// of the other side can.
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
