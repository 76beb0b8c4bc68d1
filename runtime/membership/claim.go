package membership

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/membership/splitbrain"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// A LeaseRequest asks the driver to take the lease that decides splits, and to
// answer with [LeaseAnswer]. The lease is named after the cluster and its
// Founder, its holder is this node, and it is never renewed.
type LeaseRequest struct {
	Seq     uint64            // of this machine's requests
	Founder transport.Address // of the cluster that splits
	TTL     time.Duration     // for how long nobody else may take it
	// Over is a holding that the lease may be taken over from; zero: none.
	Over uint64
	// Within is how long the driver may try.
	Within time.Duration
}

// LeaseAnswer is what became of a [LeaseRequest].
type LeaseAnswer struct {
	Seq uint64 // of the request
	// Token is above 0 if the lease was taken; then it was asked for in the request,
	// and nobody else can take it for the TTL.
	Token uint64
	// Held: another side has it. Otherwise Token is 0 because nobody could say.
	Held   bool
	Reason string // why it was not taken
}

func (LeaseAnswer) input() {}

// A claim is a request for the lease, while the split lasts for which it was made.
type claim struct {
	due, until time.Time // from when to ask, and when to give up
	seq        uint64    // of the request that is open; 0: none
	again      time.Time // when to ask again
	taken      bool
	lost       string // why it is another's; empty: it is not
	trouble    string // why there was no answer that says
}

const (
	// maxClaim is how long a side tries to take the lease.
	maxClaim = 10 * time.Second
	// claimAgain is the time from an answer that says nothing to the next request.
	claimAgain = time.Second
)

// leaseHold bounds how long a side may go on without having taken the lease,
// counted from when any one of the others was last heard to count on it: for as
// long as it takes to find that one unreachable, to judge that, and to take the
// lease. After it nobody on that side runs turns, so the side that took the lease
// may give away what was there; and as the lease is kept for twice as long, no
// side takes it later in good faith.
func (m *Machine) leaseHold() time.Duration {
	c := m.config
	return c.SilentAfter + 2*c.StableAfter + c.MinorityDelay + maxClaim + c.LeaseMajority
}

// unheard returns a voter, not Down, of whom this node has heard nothing that
// counts for longer than leaseHold. That one's side may have taken the lease, and
// given away what is here: no turns then, and no claim.
func (m *Machine) unheard() (gossip.Member, bool) {
	if m.config.Downing != splitbrain.DowningLeaseMajority {
		return gossip.Member{}, false
	}
	if !m.small() { // the collectors hear for this node
		since := maxTime(m.lease.every, m.spreading.memberSince)
		return gossip.Member{Address: transport.Address{Name: "some member"}}, m.now.Sub(since) > m.leaseHold()
	}
	for _, r := range m.state.Members {
		if r.Status == gossip.Down || !m.counted(r) || !m.config.votes(r) {
			continue
		}
		last, ok := m.downing.met[r.Address]
		if !ok {
			last = m.now
			m.downing.met[r.Address] = m.now
		}
		if p := m.detect.peers[r.Address]; p != nil {
			last = maxTime(last, p.vouched)
		}
		if m.now.Sub(last) > m.leaseHold() {
			return r, true
		}
	}
	return gossip.Member{}, false
}

// claimLease asks for the lease for this side, and does what the answer says.
func (m *Machine) claimLease(later bool, side []transport.Address) {
	c := &m.downing.claim
	if c.due.IsZero() {
		c.due = m.now
		if later {
			c.due = m.now.Add(m.config.MinorityDelay)
		}
		c.until = c.due.Add(maxClaim)
	}
	r, unheard := m.unheard()
	switch {
	case c.lost != "":
		m.loseClaim(side, c.lost)
	case unheard:
		m.loseClaim(side, fmt.Sprintf("nothing was heard of %s for more than %v: it is too late to take the lease", r.Name, m.leaseHold()))
	case c.taken:
		m.downLost(side, sentence{judged: true})
	case m.now.Before(c.due):
		m.wakeAt(c.due)
	case !m.now.Before(c.until):
		m.loseClaim(side, fmt.Sprintf("the lease could not be taken within %v: %s", maxClaim, cmp.Or(c.trouble, "no answer")))
	case c.seq == 0 && m.now.Before(c.again):
		m.wakeAt(c.again)
	case c.seq == 0:
		m.downing.claims++
		c.seq = m.downing.claims
		m.out.TakeLease = &LeaseRequest{
			Seq: c.seq, Founder: m.state.Founder, TTL: 2 * m.leaseHold(), Over: m.state.Ruling.Token, Within: c.until.Sub(m.now),
		}
		fallthrough
	default: // the answer is on its way
		m.wakeAt(c.until)
	}
}

// loseClaim stops this side as a whole: the others on it wait for this node's word.
func (m *Machine) loseClaim(side []transport.Address, reason string) {
	m.downMembers(slices.DeleteFunc(slices.Clone(m.state.Members), func(r gossip.Member) bool {
		return !gossip.HasAddress(side, r.Address)
	}), sentence{reason: fmt.Sprintf("%s cannot be reached, and %s", gossip.Names(m.downing.lost), reason)})
}

// onLeaseAnswer: also a lease that is not needed any more is told to all, or the
// next one of this cluster could not take it over.
func (m *Machine) onLeaseAnswer(in LeaseAnswer) {
	if m.phase != member {
		return
	}
	if ruling := (gossip.Ruling{Holder: m.config.Self, Token: in.Token}); in.Token > m.state.Ruling.Token {
		m.update(func(g *gossip.State) { g.Ruling = ruling })
	}
	c := &m.downing.claim
	if c.seq == 0 || c.seq != in.Seq {
		return
	}
	c.seq, c.again, c.trouble = 0, m.now.Add(claimAgain), in.Reason
	switch {
	case in.Token > 0:
		c.taken = true
	case in.Held:
		c.lost = "another side has taken the lease: " + in.Reason
	}
}
