package downing

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/lease"
	"github.com/shardgen/shardgen/internal/core/membership/splitbrain"
	"github.com/shardgen/shardgen/transport"
)

// Splits asks the strategy for a verdict once a split is due, and carries the verdict out. Only the
// node's step uses it, so it needs no lock.
type Splits struct {
	*core.Node
	Voters      *lease.Voters
	Lease       *lease.Lease
	Execution   *Execution
	Indirect    *Indirect
	Unreachable *Unreachables

	// unreachable has the unreachable members, changed is when that set last changed, and first
	// since when it has not been empty. See splitDue.
	unreachable    []transport.Address
	first, changed time.Time
	claim          claim
	claims         uint64 // requests so far
}

func (s *Splits) judgeSplit() {
	if !s.splitDue() {
		s.Indirect.forget()
		return
	}
	if !s.Small() && !s.Due(&s.Execution.judgeAt, judgeInterval) {
		return
	}
	reachable, picked := s.Indirect.survivors()
	if s.Indirect.unsettled(reachable, picked) && s.Now.Before(s.latest()) {
		return
	}
	side := s.Voters.Split(reachable)
	missing := gossip.Names(s.unreachable)
	if !gossip.HasAddress(side.Side, s.Config.Self) {
		s.Execution.stopAsMinority(missing + " and this node cannot be reached by all members")
		return
	}
	switch v := s.Strategy.Decide(side); v {
	case splitbrain.Wait:
	case splitbrain.GoOn:
		if s.Execution.acts(reachable) { // else another reachable member does
			s.downOthers(reachable, Sentence{})
		}
	case splitbrain.Stop:
		s.Execution.stopAsMinority(fmt.Sprintf("%s cannot be reached, and this side does not go on (%v: %d of %d votes)",
			missing, s.Config.Downing, side.Votes(), len(side.Voters)))
	case splitbrain.StopAll:
		if !s.Small() && !s.Execution.acts(reachable) {
			return // the member that acts downs all; if it fails, the next one acts
		}
		s.Execution.DownMembers(slices.Clone(s.Gossip.Members), Sentence{
			reason: fmt.Sprintf("%s cannot be reached, and so all nodes stop (%v)", missing, s.Config.Downing),
		})
	case splitbrain.AskFirst, splitbrain.AskLater:
		if s.Execution.acts(reachable) {
			s.claimLease(v == splitbrain.AskLater, reachable)
		}
	}
}

// splitDue reports whether to judge the split: the set of unreachable members has been the same for
// StableAfter, or has kept changing for twice StableAfter. A changing set must have been the same
// for sideSettles, unless latest has passed.
func (s *Splits) splitDue() bool {
	var now []transport.Address
	for _, i := range s.Local().Unreachable {
		r := s.Gossip.Members[i]
		if _, ok := s.Unreachable.since[r.Address]; ok && r.Address != s.Config.Self {
			now = append(now, r.Address)
		}
	}
	if !slices.Equal(now, s.unreachable) {
		if len(s.unreachable) == 0 {
			s.first = s.Now
		}
		s.unreachable, s.changed = now, s.Now
	}
	if len(now) == 0 {
		s.claim = claim{}
		return false
	}
	at := s.changed.Add(s.Config.StableAfter)
	limit := s.first.Add(2 * s.Config.StableAfter)
	at = core.Earlier(at, core.Later(limit, core.Earlier(s.changed.Add(sideSettles), s.latest())))
	if s.Now.Before(at) {
		s.claim = claim{}
		s.WakeAt(at)
		return false
	}
	return true
}

// latest returns when a split is judged even if its sides still change.
func (s *Splits) latest() time.Time {
	return s.first.Add(2*s.Config.StableAfter + lease.MaxUnsettled)
}

func (s *Splits) downOthers(side []transport.Address, by Sentence) {
	var victims []gossip.Member
	for _, address := range s.unreachable {
		r, ok := s.Gossip.Member(address)
		if !ok || gossip.HasAddress(side, address) {
			continue
		}
		victims = append(victims, r)
	}
	// The side also leaves out indirectly connected members that are reachable.
	for _, r := range s.Gossip.Members {
		if r.Status != gossip.Down && !gossip.HasAddress(side, r.Address) && !slices.Contains(s.unreachable, r.Address) {
			victims = append(victims, r)
		}
	}
	s.Execution.DownMembers(victims, by)
}

// claimLease requests the lease, after MinorityDelay if later is true. OnLeaseAnswer acts on the
// answer.
func (s *Splits) claimLease(later bool, side []transport.Address) {
	c := &s.claim
	if c.due.IsZero() {
		c.due = s.Now
		if later {
			c.due = s.Now.Add(s.Config.MinorityDelay)
		}
		c.until = c.due.Add(lease.MaxClaim)
	}
	r, unheard := s.Lease.Unheard()
	switch {
	case c.refused != "":
		s.loseClaim(side, c.refused)
	case unheard:
		s.loseClaim(side, fmt.Sprintf("nothing was heard from %s for more than %v, so another side may hold the lease", r.Name, s.Lease.LeaseHold()))
	case c.taken:
		s.downOthers(side, Sentence{judged: true})
	case s.Now.Before(c.due):
		s.WakeAt(c.due)
	case !s.Now.Before(c.until):
		s.loseClaim(side, fmt.Sprintf("the lease could not be taken within %v: %s", lease.MaxClaim, cmp.Or(c.trouble, "no answer")))
	case c.seq == 0 && s.Now.Before(c.again):
		s.WakeAt(c.again)
	case c.seq == 0:
		s.claims++
		c.seq = s.claims
		s.Out.TakeLease = &core.LeaseRequest{
			Seq: c.seq, Founder: s.Gossip.Founder, TTL: 2 * s.Lease.LeaseHold(), Over: s.Gossip.Ruling.Token, Within: c.until.Sub(s.Now),
		}
		fallthrough
	default: // the answer is on its way
		s.WakeAt(c.until)
	}
}

// loseClaim downs all members of this side, including this node, which alone decides for the side.
func (s *Splits) loseClaim(side []transport.Address, reason string) {
	s.Execution.DownMembers(slices.DeleteFunc(slices.Clone(s.Gossip.Members), func(r gossip.Member) bool {
		return !gossip.HasAddress(side, r.Address)
	}), Sentence{reason: fmt.Sprintf("%s cannot be reached, and %s", gossip.Names(s.unreachable), reason)})
}

// OnLeaseAnswer handles the answer to a claim. It publishes every taken lease to all members, even
// if the lease is not needed any more. The cluster's next claim can then take it over.
func (s *Splits) OnLeaseAnswer(in core.LeaseAnswer) {
	if s.Phase != core.Joined {
		return
	}
	if ruling := (gossip.Ruling{Holder: s.Config.Self, Token: in.Token}); in.Token > s.Gossip.Ruling.Token {
		s.Change(func(g *gossip.State) { g.Ruling = ruling })
	}
	c := &s.claim
	if c.seq == 0 || c.seq != in.Seq {
		return
	}
	c.seq, c.again, c.trouble = 0, s.Now.Add(lease.ClaimAgain), in.Reason
	switch {
	case in.Token > 0:
		c.taken = true
	case in.Held:
		c.refused = "another side has taken the lease: " + in.Reason
	}
}

type claim struct {
	due, until time.Time // when to ask first, and when to give up
	seq        uint64    // of the request that is open; 0 means none
	again      time.Time // when to ask again
	taken      bool
	refused    string // the reason that another side has it; empty if none has
	trouble    string // the reason for the last inconclusive answer
}
