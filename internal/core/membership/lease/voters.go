package lease

import (
	"math"
	"slices"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/splitbrain"
	"github.com/shardgen/shardgen/transport"
)

// Voters determines the members with a deciding vote.
type Voters struct {
	*core.Node
	Converged []transport.Address // the electorate of the last converged view
	Elected   *gossip.Summary     // the view for which Converged was made
	// joined are the voters that this node last knew before it was Up itself.
	joined []transport.Address
}

// Note records the voters of the present view if the view has converged, or if this node is still
// joining.
func (v *Voters) Note() {
	f := v.Local()
	switch {
	case f.Why == "" && v.Elected != f.Summary:
		v.Elected, v.Converged = f.Summary, v.Gossip.Electorate()
	case len(v.Converged) == 0 && v.Self().UpNumber == 0:
		v.joined = v.settled()
	}
}

// Voters returns the members with a deciding vote: those of the last converged view, except members
// that are gone, left, or fenced, or that an operator has downed (see gaveUp). Any other Down
// member keeps its vote until it is fenced. If it lost the vote at once, members that stood still
// through several decisions could wake up as a majority of their old view.
func (v *Voters) Voters() []transport.Address { return slices.DeleteFunc(v.settled(), v.voteless) }

func (v *Voters) voteless(node transport.Address) bool {
	r, ok := v.Gossip.Member(node)
	return !ok || r.Status == gossip.Exiting || v.gaveUp(r) || !v.Config.Votes(r) ||
		v.Config.Downing.DiscountsGone() && v.EvidenceAgainst(node) == gossip.EvidenceGone
}

// gaveUp reports whether a member has lost its vote because it is fenced, or because an operator has
// downed it and all other members are reachable. Unreachable members may have decided together with
// the downed one before it died.
func (v *Voters) gaveUp(r gossip.Member) bool {
	if r.Fenced || !r.Forced {
		return r.Fenced
	}
	for i, other := range v.Gossip.Members {
		if v.Local().Evidence[i] != gossip.NoEvidence && !other.Fenced && !other.Forced {
			return false
		}
	}
	return true
}

// Newcomers returns the members that came Up after the last converged view.
func (v *Voters) Newcomers() []transport.Address {
	settled := v.settled()
	return slices.DeleteFunc(v.Gossip.Electorate(), func(node transport.Address) bool {
		return slices.Contains(settled, node) || v.voteless(node)
	})
}

// Split returns one side of a partition for a strategy to judge. Newcomers on this side have no
// vote, because the other side may not know them. Newcomers on the other side have a vote, because
// the other side may know that the view with them has converged. The same holds for Exiting
// members, which the other side may still know as Leaving. By these rules two sides never both win
// (ADR 0008).
func (v *Voters) Split(side []transport.Address) splitbrain.Split {
	voters := v.Voters()
	for _, node := range append(v.Newcomers(), v.exiting()...) {
		if !gossip.HasAddress(side, node) {
			voters = gossip.WithAddress(voters, node)
		}
	}
	return splitbrain.Split{Electorate: v.Electorate(voters), Side: side}
}

func (v *Voters) exiting() []transport.Address {
	return slices.DeleteFunc(v.settled(), func(node transport.Address) bool {
		r, ok := v.Gossip.Member(node)
		return !ok || r.Status != gossip.Exiting || v.gaveUp(r) || !v.Config.Votes(r) ||
			v.Config.Downing.DiscountsGone() && v.EvidenceAgainst(node) == gossip.EvidenceGone
	})
}

// settled returns the electorate of the last converged view. An Up node that has seen
// no converged view uses the voters that it knew before it was Up: the leader has seen these in a
// converged view. Before any member is Up, the joining members vote.
func (v *Voters) settled() []transport.Address {
	nodes := slices.Clone(v.Converged)
	if len(nodes) == 0 && v.Self().UpNumber != 0 {
		return slices.Clone(v.joined)
	}
	if len(nodes) == 0 {
		nodes = v.Gossip.Electorate()
	}
	if len(nodes) == 0 {
		for _, r := range v.Gossip.Members {
			if r.UpNumber == 0 && r.Status != gossip.Down {
				nodes = append(nodes, r.Address)
			}
		}
	}
	return nodes
}

func (v *Voters) settledOf(nodes []transport.Address) []transport.Address {
	settled := v.settled()
	return slices.DeleteFunc(slices.Clone(nodes), func(node transport.Address) bool { return !slices.Contains(settled, node) })
}

// Electorate returns an electorate with the given voters. Its oldest members are the oldest of the
// last converged view and the oldest of the voters.
func (v *Voters) Electorate(voters []transport.Address) splitbrain.Electorate {
	e := splitbrain.Electorate{Voters: voters}
	settled := slices.DeleteFunc(v.settled(), func(node transport.Address) bool {
		r, ok := v.Gossip.Member(node)
		return !ok || v.gaveUp(r) || !v.Config.Votes(r)
	})
	for _, oldest := range []transport.Address{v.Gossip.OldestOf(settled), v.Gossip.OldestOf(voters)} {
		if !oldest.IsZero() && !slices.Contains(e.Oldest, oldest) {
			e.Oldest = append(e.Oldest, oldest)
		}
	}
	return e
}

// LostToAll reports whether all reachable voters hold EvidenceLost, or more, against a member, and
// all vouching is bound (see package detector). Then no such voter has vouched for the member since
// its server lost it. If they are a majority, the member's lease has ended: at another server the
// member would need a majority that vouches for it there.
func (v *Voters) LostToAll(node transport.Address) (lost bool) {
	if !v.Bound() {
		return false
	}
	for _, voter := range v.Voters() {
		if voter == node || v.EvidenceAgainst(voter) != gossip.NoEvidence {
			continue
		}
		if held, _ := v.Gossip.Record(voter, node); held.Evidence < gossip.EvidenceLost {
			return false
		}
		lost = true
	}
	return lost
}

func (v *Voters) counted(r gossip.Member) bool {
	if r.Address == v.Config.Self || v.Config.Downing.DiscountsGone() && v.EvidenceAgainst(r.Address) == gossip.EvidenceGone {
		return false
	}
	switch r.Status {
	case gossip.Up, gossip.Leaving:
		return true
	case gossip.Down:
		// A Down member counts until it is fenced. Otherwise an operator's command on the wrong
		// side of a partition could leave this node as the only voter.
		return !r.Fenced && r.UpNumber != 0 && v.Config.Downing != splitbrain.DowningAuto
	case gossip.NoStatus, gossip.Joining, gossip.WeaklyUp, gossip.Exiting, gossip.Removed:
	}
	return false
}

// Room returns how many more voters the strategy allows, so that two sides never both have a static
// quorum.
func (v *Voters) Room() int {
	most, bounded := splitbrain.MostVoters(v.Strategy)
	if !bounded {
		return math.MaxInt
	}
	n := 0
	for _, r := range v.Gossip.Members {
		if r.UpNumber != 0 && v.Config.Votes(r) {
			n++
		}
	}
	return most - n
}
