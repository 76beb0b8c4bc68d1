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
// that are gone, have left, are fenced or lack Config.DowningRole, and except members that an
// operator has downed (see gaveUp). Any other Down member keeps its vote until it is fenced.
// Without this rule, members that were paused during several decisions could wake up, be a majority
// of the old view that they know, and run turns.
func (v *Voters) Voters() []transport.Address { return slices.DeleteFunc(v.settled(), v.voteless) }

func (v *Voters) voteless(node transport.Address) bool {
	r, ok := v.Gossip.Member(node)
	return !ok || r.Status == gossip.Exiting || v.gaveUp(r) || !v.Config.Votes(r) ||
		v.Config.Downing.DiscountsGone() && v.EvidenceAgainst(node) == gossip.EvidenceGone
}

// gaveUp reports whether a member has lost its vote. It has if it is fenced, or if an operator has
// downed it and every other member is reachable, fenced, or downed by an operator too. While
// another member is unreachable, the downed member keeps its vote, because the two may have made a
// decision together before the downed member died.
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

// Split describes one side of a partition, for a strategy to judge. A newcomer on this side has no
// vote, because the other side may not know the newcomer. A newcomer on the other side has a vote,
// because that side may know a converged view with the newcomer. An Exiting member, too, has a vote
// only on the other side, which may still know the member as Leaving. So the two sides never both
// win (ADR 0008).
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

// settled returns the electorate of the last converged view that this node has seen. If this node
// has seen none, but is Up, settled returns the voters that this node last knew before it was Up:
// the leader has seen a converged view with these voters. Before that, it returns the electorate of
// the present view or, if that is empty, the joining members.
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

// LostToAll reports whether every reachable voter except the member itself has EvidenceLost, or
// stronger evidence, against the member. It is false unless vouching is bound (see
// [core.Node.Bound]). Then no such voter has vouched for the member since the member's server lost
// it. If these voters are a majority, the member's lease has ended: to get a new lease through
// another server, the member would need a majority that vouches for it there.
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
