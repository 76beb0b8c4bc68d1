package downing

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/membership/core"
	"github.com/shardgen/shardgen/internal/membership/gossip"
	"github.com/shardgen/shardgen/internal/membership/lease"
	"github.com/shardgen/shardgen/internal/membership/splitbrain"
	"github.com/shardgen/shardgen/transport"
)

// Splits asks the strategy for a verdict once a split is due, and carries it out.
type Splits struct {
	*core.Node
	Voters      *lease.Voters
	Lease       *lease.Lease
	Execution   *Execution
	Indirect    *Indirect
	Unreachable *Unreachables

	// lost are the unreachable members since changed, and first is since when there are
	// any. See splitDue.
	lost           []transport.Address
	first, changed time.Time
	claim          claim
	claims         uint64 // requests so far
}

// judgeSplit asks the strategy once the split is due.
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
	missing := gossip.Names(s.lost)
	if !gossip.HasAddress(side.Side, s.Config.Self) {
		s.Execution.stopAsMinority(missing + " cannot be reached by all, nor can this node")
		return
	}
	switch v := s.Strategy.Decide(side); v {
	case splitbrain.Wait:
	case splitbrain.GoOn:
		if s.Execution.acts(reachable) { // else another reachable member does
			s.downLost(reachable, Sentence{})
		}
	case splitbrain.Stop:
		s.Execution.stopAsMinority(fmt.Sprintf("%s cannot be reached, and this side does not go on (%v: %d of %d votes)",
			missing, s.Config.Downing, side.Votes(), len(side.Voters)))
	case splitbrain.StopAll:
		if !s.Small() && !s.Execution.acts(reachable) {
			return // it tells all; if it cannot, the next one is the first
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

// splitDue reports whether members are unreachable whose set has not changed for
// StableAfter, or has gone on changing for twice that. Even then it must not have changed a
// moment ago, unless it is the latest time: what members hold against each other when a
// partition has just ended is no split.
func (s *Splits) splitDue() bool {
	var lost []transport.Address
	for _, i := range s.Local().Unreachable {
		r := s.Gossip.Members[i]
		if _, ok := s.Unreachable.since[r.Address]; ok && r.Address != s.Config.Self && r.Status != gossip.Exiting {
			lost = append(lost, r.Address)
		}
	}
	if !slices.Equal(lost, s.lost) {
		if len(s.lost) == 0 {
			s.first = s.Now
		}
		s.lost, s.changed = lost, s.Now
	}
	if len(lost) == 0 {
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

// latest is when a split is judged in any case.
func (s *Splits) latest() time.Time {
	return s.first.Add(2*s.Config.StableAfter + lease.MaxUnsettled)
}

// downLost downs the unreachable members that are not on this side.
func (s *Splits) downLost(side []transport.Address, by Sentence) {
	var victims []gossip.Member
	for _, node := range s.lost {
		r, ok := s.Gossip.Member(node)
		if !ok || gossip.HasAddress(side, node) {
			continue
		}
		victims = append(victims, r)
	}
	// Those that are left out because their ways are broken, though reachable.
	for _, r := range s.Gossip.Members {
		if r.Status != gossip.Down && !gossip.HasAddress(side, r.Address) && !slices.Contains(s.lost, r.Address) {
			victims = append(victims, r)
		}
	}
	s.Execution.DownMembers(victims, by)
}

// autoDown downs members that were unreachable for long enough, if this node is the
// leader.
func (s *Splits) autoDown() {
	if !s.Leads() {
		return
	}
	var victims []gossip.Member
	for _, i := range s.Local().Unreachable {
		r := s.Gossip.Members[i]
		since, ok := s.Unreachable.since[r.Address]
		if !ok || r.Address == s.Config.Self {
			continue
		}
		if at := since.Add(s.Config.AutoDownAfter); s.Now.Before(at) {
			s.WakeAt(at)
			continue
		}
		victims = append(victims, r)
	}
	s.Execution.downTogether(victims)
}

// claimLease asks for the lease for this side, and acts on the answer.
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
	case c.lost != "":
		s.loseClaim(side, c.lost)
	case unheard:
		s.loseClaim(side, fmt.Sprintf("nothing was heard of %s for more than %v: it is too late to take the lease", r.Name, s.Lease.LeaseHold()))
	case c.taken:
		s.downLost(side, Sentence{judged: true})
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

// loseClaim stops this side as a whole: its other members wait for this node's
// decision.
func (s *Splits) loseClaim(side []transport.Address, reason string) {
	s.Execution.DownMembers(slices.DeleteFunc(slices.Clone(s.Gossip.Members), func(r gossip.Member) bool {
		return !gossip.HasAddress(side, r.Address)
	}), Sentence{reason: fmt.Sprintf("%s cannot be reached, and %s", gossip.Names(s.lost), reason)})
}

// OnLeaseAnswer handles the answer to a claim. A lease that is no longer needed is
// published to all members as well, so that the next claim of this cluster can take it
// over.
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
		c.lost = "another side has taken the lease: " + in.Reason
	}
}

// A claim is a request for the lease during one split.
type claim struct {
	due, until time.Time // when to ask first, and when to give up
	seq        uint64    // of the request that is open; 0 means none
	again      time.Time // when to ask again
	taken      bool
	lost       string // why another side has it; empty means no other side has
	trouble    string // why there was no conclusive answer
}
