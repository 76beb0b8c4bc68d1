package lease

import (
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/detector"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/membership/splitbrain"
	"github.com/shardgen/shardgen/transport"
)

// A node runs turns only while a majority has lately counted on it (see lease.go). In a small
// cluster all members hear from all. In a large one each member sends its vote to a few collectors.
// The member counts on all members but the barred ones, those that are Down or removed in its view;
// the vote has a fingerprint of the barred ones. A collector answers a voter with the age of the
// vote that completes a quorum for the voter. It counts only votes with the voter's own
// fingerprint: their senders bar the same nodes, so they count on the voter.
//
// The ages are safe like [detector.Peers.Vouched]. A vote counts as old as the collector's last
// returned echo: a vote that had reached the broker earlier would have arrived before that echo.
// The voter counts the ages from when it sent the answered vote. So any process that stands still
// on the way makes leases shorter.

// Votes sends this node's votes to collectors and, as a collector, counts the votes of others.
type Votes struct {
	*core.Node
	Echo       *detector.Echo
	Peers      *detector.Peers
	Beats      *detector.Heartbeats
	Voters     *Voters
	Collectors *Collectors

	first time.Time // a random time; votes are due in intervals from it
	seq   uint64
	sent  []sentVote // not answered yet

	counted  *gossip.Summary              // the view for which others was counted
	others   int                          // other members that count, whether or not they have a vote
	withVote int                          // members with a vote, this node included
	ballots  map[transport.Address]ballot // of the voters, at a collector
	tally    tally                        // kept for tallyLife, because most voters bar the same members

	// majority is when a quorum certainly last vouched for this node; that proof stays valid even
	// if members join or leave later. all is a time since which each reachable member has vouched
	// for this node, and every is the same for all members that are not Down.
	majority, all, every time.Time
}

type sentVote struct {
	seq  uint64
	sent time.Time
}

// maxSentVotes bounds the unanswered votes. A node sends fewer within QuorumTimeout.
const maxSentVotes = 2 * maxCollectors

type ballot struct {
	barred uint64
	at     time.Time // the vote was certainly sent after this time
}

// tally is a collector's count of the votes whose senders bar, as Down or removed, the same nodes.
type tally struct {
	of     *gossip.Summary
	barred uint64
	made   time.Time
	quorum splitbrain.Quorum
	same   map[transport.Address]time.Time // the time of each such member's vote
	enough time.Time                       // the time of the vote that completes a quorum
	half   time.Time                       // the time of the vote that completes half of all, whomever they bar
	// oldest is the time of the oldest vote, among reachable members that bar the same nodes. every
	// is the same among all members that are not Down. Zero means that a vote is missing.
	oldest, every time.Time
}

// tallyLife is how long a tally is reused. Reuse shortens leases by up to this time.
const tallyLife = 50 * time.Millisecond

// RunVotes sends the votes that are due. Votes for different collectors are due at different times.
func (v *Votes) RunVotes() {
	if v.Small() || v.Phase != core.Joined {
		v.Collectors.list, v.Collectors.chosen = nil, nil
		return
	}
	v.Collectors.walk()
	used := v.Collectors.inUse()
	for i := range used {
		if c := &used[i]; !v.Now.Before(c.due) {
			c.due = v.nextVote(i)
			v.vote(c)
		}
		v.WakeAt(used[i].due)
	}
}

// ForgetBallots drops the votes of nodes that are no longer members.
func (v *Votes) ForgetBallots() {
	maps.DeleteFunc(v.ballots, func(node transport.Address, _ ballot) bool {
		_, ok := v.Gossip.Index(node)
		return !ok
	})
}

// nextVote returns when the i-th collector gets its next vote. Three consecutive collectors get
// votes evenly spaced, or the lease could lapse before the next answer. The times are random at
// each member.
func (v *Votes) nextVote(i int) time.Time {
	if v.first.IsZero() {
		v.first = v.Now.Add(time.Duration(v.Random.Int64N(int64(VoteInterval))))
	}
	const part = VoteInterval / collectors
	next := v.first.Add(time.Duration(i%collectors) * part)
	rounds := v.Now.Add(part/2).Sub(next)/VoteInterval + 1
	if next.After(v.Now.Add(part / 2)) {
		rounds = 0
	}
	return next.Add(rounds * VoteInterval)
}

func (v *Votes) vote(c *collector) {
	v.Beats.Loose = v.Now
	v.seq++
	if len(v.sent) == maxSentVotes {
		v.sent = slices.Delete(v.sent, 0, 1)
	}
	v.sent = append(v.sent, sentVote{v.seq, v.Now})
	v.countVoters()
	vote := message.Vote{
		Seq: v.seq, Barred: v.Local().Barred, Voters: uint32(v.withVote), Server: v.Mark,
	}
	if c.node == v.Config.Self {
		if v.Echo.EchoAlive() {
			v.OnVoteAck(c.node, v.answer(c.node, vote))
		}
		return
	}
	if c.asked.IsZero() {
		c.asked = v.Now
		v.WakeAt(v.Now.Add(collectorMute))
	}
	vote.Target = message.TargetOf(c.node)
	v.Send(c.node, vote)
}

// otherVoters returns the number of other members that count, even if DowningRole denies them a
// vote.
func (v *Votes) otherVoters() int {
	v.countVoters()
	return v.others
}

func (v *Votes) countVoters() {
	f := v.Local()
	if v.counted == f.Summary {
		return
	}
	v.counted, v.others, v.withVote = f.Summary, 0, 0
	for i, r := range v.Gossip.Members {
		counted := v.Voters.counted(r)
		if counted {
			v.others++
		}
		if (counted || i == f.Self) && v.Config.Votes(r) {
			v.withVote++
		}
	}
}

// OnVote records a member's vote and answers it.
func (v *Votes) OnVote(in core.Receive, msg message.Vote) {
	if _, ok := v.Gossip.Index(in.From); !ok || msg.Target != message.TargetOf(v.Config.Self) {
		return
	}
	if v.Small() && msg.Barred == v.Local().Barred {
		v.Peers.KeptCompany(in.From)
		v.Peers.Vouched(in.From)
	}
	v.Peers.NamedServer(in.From, in.Server, msg.Server)
	if !v.Echo.Good {
		return
	}
	if v.ballots == nil {
		v.ballots = make(map[transport.Address]ballot)
	}
	v.ballots[in.From] = ballot{msg.Barred, v.Echo.Sent}
	v.Send(in.From, v.answer(in.From, msg))
}

func (v *Votes) answer(voter transport.Address, msg message.Vote) message.VoteAck {
	t := v.tallied(msg.Barred)
	enough := t.enough
	if need := splitbrain.MajorityOf(int(msg.Voters)); need > t.quorum.Need {
		// The voter knows more voters than this collector, so the vote needs a majority of the
		// larger number.
		q := t.quorum
		q.Need = need
		enough = q.Since(func(node transport.Address) time.Time { return t.same[node] })
	}
	return message.VoteAck{
		Target: message.TargetOf(voter), Seq: msg.Seq,
		Majority: v.ageOf(enough), All: v.ageOf(t.oldest), Every: v.ageOf(t.every), Heard: v.ageOf(t.half),
	}
}

// ageOf returns the time that has passed since at, but at least 1 ms; 0 means never.
func (v *Votes) ageOf(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(v.Now.Sub(at), time.Millisecond)
}

func (v *Votes) tallied(barred uint64) *tally {
	f := v.Local()
	if v.tally.of == f.Summary && v.tally.barred == barred && v.Now.Sub(v.tally.made) <= tallyLife {
		return &v.tally
	}
	t := tally{of: f.Summary, barred: barred, made: v.Now, same: v.tally.same, oldest: v.Now, every: v.Now}
	if t.same == nil {
		t.same = make(map[transport.Address]time.Time)
	}
	clear(t.same)
	var voters []transport.Address
	var heard []time.Time
	for i, r := range v.Gossip.Members {
		if i != f.Self && !v.Voters.counted(r) {
			continue
		}
		b := v.ballots[r.Address] // none has a zero time
		if i == f.Self {
			b = ballot{f.Barred, v.Now}
		}
		if v.Config.Votes(r) {
			voters = append(voters, r.Address)
			heard = append(heard, b.at)
		}
		if b.barred != barred {
			b.at = time.Time{}
		}
		t.same[r.Address] = b.at
		if r.Status == gossip.Down {
			continue
		}
		t.every = core.Earlier(t.every, b.at)
		if f.Evidence[i] == gossip.NoEvidence {
			t.oldest = core.Earlier(t.oldest, b.at)
		}
	}
	t.quorum = v.Strategy.Quorum(v.Voters.Electorate(voters))
	t.enough = t.quorum.Since(func(node transport.Address) time.Time { return t.same[node] })
	if n := (len(heard) + 1) / 2; n > 0 {
		slices.SortFunc(heard, func(a, b time.Time) int { return b.Compare(a) })
		t.half = heard[n-1]
	}
	v.tally = t
	return &v.tally
}

// OnVoteAck handles a collector's answer, which prolongs the lease.
func (v *Votes) OnVoteAck(from transport.Address, msg message.VoteAck) {
	if msg.Target != message.TargetOf(v.Config.Self) {
		return
	}
	i := slices.IndexFunc(v.sent, func(s sentVote) bool { return s.seq == msg.Seq })
	k := slices.IndexFunc(v.Collectors.list, func(c collector) bool { return c.node == from })
	if i < 0 || k < 0 {
		return
	}
	v.Collectors.list[k].asked, v.Collectors.list[k].answered = time.Time{}, v.Now
	sent := v.sent[i].sent
	v.sent = slices.Delete(v.sent, i, i+1)
	if msg.Heard != 0 {
		v.Beats.HalfHeard = core.Later(v.Beats.HalfHeard, sent.Add(-msg.Heard))
	}
	if msg.Majority != 0 {
		v.majority = core.Later(v.majority, sent.Add(-msg.Majority))
	}
	if msg.Every != 0 {
		v.every = core.Later(v.every, sent.Add(-msg.Every))
	}
	if msg.All != 0 {
		v.all = core.Later(v.all, sent.Add(-msg.All))
	}
}
