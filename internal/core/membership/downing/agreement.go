package downing

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/lease"
	"github.com/shardgen/shardgen/internal/core/membership/splitbrain"
	"github.com/shardgen/shardgen/transport"
)

// In a cluster in which all members watch each other, a silent member is judged after AgreedAfter
// instead of SilentAfter if more than half of the voters miss it themselves. A single broken
// connection, or a slow observer that hears late, cannot make so many voters miss it.

type missing struct {
	quiet time.Duration // as the observer reported
	since time.Time     // its latest possible beginning, by this node's clock
}

// An Agreement records since when each observer has missed each member.
type Agreement struct {
	*core.Node
	Voters *lease.Voters
	missed map[[2]transport.Address]missing // by observer and member
}

func (a *Agreement) noteMissed() {
	old := a.missed
	a.missed = nil
	if !a.Bound() {
		return
	}
	for _, row := range a.Gossip.Rows {
		for _, r := range row.Records {
			way := [2]transport.Address{row.Observer, r.Subject}
			was, ok := old[way]
			if !ok || was.quiet != r.Quiet {
				was = missing{r.Quiet, a.Now.Add(-r.Quiet)}
			}
			if a.missed == nil {
				a.missed = make(map[[2]transport.Address]missing)
			}
			a.missed[way] = was
		}
	}
}

// agreedSince returns since when more than half of the voters have missed a member, by the records
// of reachable voters.
func (a *Agreement) agreedSince(place int) (since time.Time, agreed bool) {
	f := a.Local()
	if len(a.missed) == 0 || !a.Bound() {
		return time.Time{}, false
	}
	voters := a.Voters.Voters()
	var all []time.Time
	for _, node := range voters {
		i, ok := a.Gossip.Index(node)
		if !ok || f.Evidence[i] != gossip.NoEvidence {
			continue
		}
		if missed, ok := a.missed[[2]transport.Address{node, a.Gossip.Members[place].Address}]; ok {
			all = append(all, missed.since)
		}
	}
	need := splitbrain.MajorityOf(len(voters))
	if len(all) < need {
		return time.Time{}, false
	}
	slices.SortFunc(all, time.Time.Compare)
	return all[need-1], true
}
