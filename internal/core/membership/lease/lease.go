package lease

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/detector"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/splitbrain"
	"github.com/shardgen/shardgen/transport"
)

// RenewLease computes the lease: the time until which this node may start turns. The output has the
// lease, and reports whether it has changed.
func (l *Lease) RenewLease() {
	lease := l.leaseNow()
	l.Out.LeaseChanged = !lease.Equal(l.Until)
	l.Until, l.Out.Lease = lease, lease
}

// A Lease computes the time until which this node may run turns.
type Lease struct {
	*core.Node
	Echo       *detector.Echo
	Presence   *detector.Presence
	Peers      *detector.Peers
	Beats      *detector.Heartbeats
	Voters     *Voters
	Collectors *Collectors
	Votes      *Votes

	Until time.Time
	// since is when the lease last ran out or came into doubt. While Heartbeats.AskAll is set,
	// turns start again only after all reachable members and a majority have vouched since then. A
	// majority alone could have stood still while others judged this node; and just after a
	// reconnection perhaps no member is reachable.
	since time.Time
	moved bool       // in doubt only because of Moved, and not run out
	kept  leaseBench // for small clusters
	// Met is when this node first counted each voter. See Unheard.
	Met map[transport.Address]time.Time
}

// leaseNow returns the end of the lease. It is computed from the time at which a quorum last
// vouched for this node, and from the sending time of the last returned echo.
func (l *Lease) leaseNow() time.Time {
	over := l.Until
	l.moved = l.moved && over.After(l.Now)
	if over.IsZero() || over.After(l.Now) && !l.moved {
		over = l.Now.Add(-1)
	}
	if l.Phase != core.Joined {
		return over
	}
	alone := l.Votes.otherVoters() == 0
	if alone && l.Self().UpNumber == 0 && len(l.Gossip.Members) > 1 {
		return over // the others may be Up by now, and this node downed by them
	}
	if alone && l.Gossip.UpCounter <= 1 && l.enoughAlone() {
		l.Beats.AskAll, l.Votes.majority = false, l.Now
		return time.Time{}
	}
	var all bool
	if l.Small() {
		all = l.countVouched()
	} else {
		all = !l.Votes.all.Before(l.since)
	}
	if !l.Beats.AskAll && !l.Until.IsZero() && !l.Until.After(l.Now) {
		l.Doubt()
		return over
	}
	if l.Beats.AskAll && (!all && !l.moved || l.Votes.majority.Before(l.since)) {
		return over
	}
	if alone && l.Echo.Sent.Before(l.Echo.Muffled.Add(l.Config.SelfHeartbeatTimeout)) {
		return over // a former member that missed its removal may have judged this node, and answers Alive
	}
	if _, unheard := l.Unheard(); unheard {
		return over
	}
	lease := l.Votes.majority.Add(l.Config.QuorumTimeout)
	if byEcho := l.Echo.Sent.Add(l.Config.SelfHeartbeatTimeout); byEcho.Before(lease) {
		lease = byEcho
	}
	if !lease.After(l.Now) {
		return over
	}
	if l.Beats.AskAll {
		l.Beats.AskAll, l.Beats.Stale, l.moved = false, true, false
	}
	return lease
}

// enoughAlone reports whether this node alone is a quorum if no other member counts.
func (l *Lease) enoughAlone() bool {
	var voters []transport.Address
	if l.Config.Votes(l.Self()) {
		voters = append(voters, l.Config.Self)
	}
	return l.Strategy.Quorum(l.Voters.Electorate(voters)).Met(func(node transport.Address) bool { return node == l.Config.Self })
}

// leaseBench has two sets of voters, all and settled. The lease needs the vouching of a quorum of
// each set. A leaseBench is cached for one view and one electorate.
//
// settled are the voters of the last converged view. A quorum of all is not enough if some voters
// came Up after that view, or if this node is not Up yet. The other side of a split may not count
// these newcomers, and may then have a majority of the rest (ADR 0008).
type leaseBench struct {
	of, elected  *gossip.Summary
	all, settled bench
	others       []leaseVoter
}

// bench is a set of voters; a quorum of them must vouch.
type bench struct {
	quorum splitbrain.Quorum
	voters []*detector.Peer // in the order of quorum.voters; nil means this node
	times  []time.Time
}

type leaseVoter struct {
	*detector.Peer
	reachable bool
}

func (l *Lease) bench() *leaseBench {
	f, b := l.Local(), &l.kept
	if b.of == f.Summary && b.elected == l.Voters.Elected {
		return b
	}
	*b = leaseBench{of: f.Summary, elected: l.Voters.Elected}
	var voters []transport.Address
	for i, r := range l.Gossip.Members {
		if i != f.Self && !l.Voters.counted(r) {
			continue
		}
		if l.Config.Votes(r) {
			voters = append(voters, r.Address)
		}
		if i != f.Self && r.Status != gossip.Down {
			b.others = append(b.others, leaseVoter{l.Peers.Peer(r.Address), f.Evidence[i] == gossip.NoEvidence})
		}
	}
	b.all, b.settled = l.benchOf(voters), l.benchOf(l.Voters.settledOf(voters))
	return b
}

func (l *Lease) benchOf(voters []transport.Address) bench {
	b := bench{l.Strategy.Quorum(l.Voters.Electorate(voters)), make([]*detector.Peer, len(voters)), make([]time.Time, len(voters))}
	for i, node := range voters {
		if node != l.Config.Self {
			b.voters[i] = l.Peers.Peer(node)
		}
	}
	return b
}

func (l *Lease) vouchedBy(b *bench) time.Time {
	for i, p := range b.voters {
		b.times[i] = l.Now
		if p != nil {
			b.times[i] = p.Vouched
		}
	}
	return b.quorum.SinceTimes(b.times, l.Peers.VouchedAt)
}

// countVouched records, in a small cluster, when a quorum of members last vouched for this node
// directly, and when all did. It reports whether all reachable members have vouched since the lease
// came into doubt.
func (l *Lease) countVouched() (all bool) {
	b := l.bench()
	since := l.vouchedBy(&b.all)
	if len(b.settled.voters) > 0 {
		since = core.Earlier(since, l.vouchedBy(&b.settled))
	}
	l.Votes.majority = core.Later(l.Votes.majority, since)
	all, l.Votes.every = true, l.Now
	for _, p := range b.others {
		l.Votes.every = core.Earlier(l.Votes.every, p.Vouched)
		if p.reachable && p.Absent.IsZero() && p.Vouched.Before(l.since) {
			all = false
		}
	}
	return all
}

// Moved is called when this node has connected to another server, because members at the former
// server may then find this node gone. The lease runs out unless a majority vouches for this node
// from now on. In a large cluster, that takes longer than a lease lasts, so Moved has no effect
// there (ADR 0009).
func (l *Lease) Moved() {
	if l.Phase == core.Joined && l.Small() && !l.Beats.AskAll {
		l.Doubt()
		l.moved = true
	}
}

// Doubt puts the lease in doubt, and makes Alive, votes and heartbeats to all members due at once.
// It may be called again while the lease is in doubt.
func (l *Lease) Doubt() {
	l.Beats.AskAll, l.since = true, l.Now
	l.Echo.At, l.Presence.At, l.Beats.Stale = l.Now, l.Now, true
	for i := range l.Collectors.list {
		l.Collectors.list[i].due = l.Now
	}
	//arch:order-free each peer is treated alike
	for _, p := range l.Peers.Known {
		p.Beat = l.Now
	}
	l.WakeAt(l.Now)
}

// LeaseHold bounds how long a side of a split still runs turns after another side has taken the
// split lease, which the strategy "lease majority" uses. LeaseHold is the sum of two times. The
// first begins when a voter of the other side last vouches for this side, and ends when the other
// side has the split lease. The second is QuorumTimeout. After LeaseHold and a margin, the side
// with the split lease may give away the shards of the other sides. It keeps the split lease for
// twice LeaseHold, so that no other side takes it later.
func (l *Lease) LeaseHold() time.Duration {
	c := l.Config
	return c.SilentAfter + 2*c.StableAfter + MaxUnsettled + c.MinorityDelay + MaxClaim + c.QuorumTimeout
}

// Unheard returns a voter, not Down, that has not vouched for this node for longer than LeaseHold;
// in a large cluster, a placeholder for any such member. Its side may have taken the lease and given
// away this node's shards. This node then runs no turns and claims no lease.
func (l *Lease) Unheard() (gossip.Member, bool) {
	if l.Config.Downing != splitbrain.DowningLeaseMajority {
		return gossip.Member{}, false
	}
	if !l.Small() { // the collectors hear for this node
		since := core.Later(l.Votes.every, l.MemberSince)
		return gossip.Member{Address: transport.Address{Name: "some member"}}, l.Now.Sub(since) > l.LeaseHold()
	}
	for _, r := range l.Gossip.Members {
		if r.Status == gossip.Down || !l.Voters.counted(r) || !l.Config.Votes(r) {
			continue
		}
		last, ok := l.Met[r.Address]
		if !ok {
			last = l.Now
			l.Met[r.Address] = l.Now
		}
		if p := l.Peers.Known[r.Address]; p != nil {
			last = core.Later(last, p.Vouched)
		}
		if l.Now.Sub(last) > l.LeaseHold() {
			return r, true
		}
	}
	return gossip.Member{}, false
}

const (
	// MaxUnsettled is how long a split may stay unjudged because its sides keep changing, in
	// addition to twice StableAfter.
	MaxUnsettled = 5 * time.Second
	// MaxClaim is how long a side tries to take the lease.
	MaxClaim = 10 * time.Second
	// ClaimAgain is the time from an inconclusive answer to the next request.
	ClaimAgain = time.Second
)
