package downing

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/membership/core"
	"github.com/shardgen/shardgen/internal/membership/gossip"
	"github.com/shardgen/shardgen/internal/membership/lease"
	"github.com/shardgen/shardgen/transport"
)

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
	case c.refused != "":
		s.loseClaim(side, c.refused)
	case unheard:
		s.loseClaim(side, fmt.Sprintf("nothing was heard of %s for more than %v: it is too late to take the lease", r.Name, s.Lease.LeaseHold()))
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

// loseClaim downs all members of this side, because the others wait for this node's
// decision.
func (s *Splits) loseClaim(side []transport.Address, reason string) {
	s.Execution.DownMembers(slices.DeleteFunc(slices.Clone(s.Gossip.Members), func(r gossip.Member) bool {
		return !gossip.HasAddress(side, r.Address)
	}), Sentence{reason: fmt.Sprintf("%s cannot be reached, and %s", gossip.Names(s.unreachable), reason)})
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
		c.refused = "another side has taken the lease: " + in.Reason
	}
}

// A claim is a request for the lease during one split.
type claim struct {
	due, until time.Time // when to ask first, and when to give up
	seq        uint64    // of the request that is open; 0 means none
	again      time.Time // when to ask again
	taken      bool
	refused    string // the reason that another side has it; empty if none has
	trouble    string // the reason for the last inconclusive answer
}
