package membership

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/membership/splitbrain"

	"github.com/shardgen/shardgen/internal/membership/message"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// A node runs turns only while a majority has lately counted on it (see lease.go).
// In a small cluster all hear from all. In a large one each member tells a few
// collectors on whom it counts: on everybody but the barred, those that it holds
// Down or removed, of which it sends a fingerprint. A collector answers a vote
// with the age of the vote that makes a quorum for the voter: of those with the
// same fingerprint, for they count on it as it does on itself.
//
// The ages are safe in the same way as [Machine.vouched] is: a vote is as old as
// the collector's last returned echo, before which it cannot have come to the
// broker unseen; and the voter takes the ages as of the time at which it sent the
// vote that is answered. So whatever stands still on the way makes leases shorter.

// voting is what votes need, at the voter and at a collector.
type voting struct {
	// collectors are who may collect, the first to be asked first; made for a shape.
	// See collect.go.
	collectors []collector
	chosen     *gossip.Summary
	turn       time.Time // from which the turns are counted
	seq        uint64
	sent       []sentVote // not answered yet

	counted *gossip.Summary // for which others was counted
	others  int
	voters  int                          // with a vote, this node included
	ballots map[transport.Address]ballot // of the voters, at a collector
	tally   tally                        // kept for tallyLife: a thousand voters ask for much the same
}

// A sentVote waits for its answer.
type sentVote struct {
	seq  uint64
	sent time.Time
}

// maxSentVotes bounds the votes on their way: more than LeaseMajority holds.
const maxSentVotes = 2 * maxCollectors

// A ballot is a member's last vote.
type ballot struct {
	barred uint64
	at     time.Time // since when it certainly stood last
}

// A tally is what a collector counts for all that bar the same.
type tally struct {
	of     *gossip.Summary
	barred uint64
	made   time.Time
	quorum splitbrain.Quorum
	same   map[transport.Address]time.Time // since when who bars the same counts on the others
	enough time.Time                       // since when a quorum does
	half   time.Time                       // since when half of all were heard, whomever they bar
	// oldest is the oldest vote of those that can be reached and bar the same, every
	// that of all that are not Down; zero: one is missing.
	oldest, every time.Time
}

// tallyLife is for how long a tally is good. It makes leases shorter by as much.
const tallyLife = 50 * time.Millisecond

// runVotes sends the votes that are due: one to each collector in its time.
func (m *Machine) runVotes() {
	v := &m.voting
	if m.small() || m.phase != member {
		v.collectors, v.chosen = nil, nil
		return
	}
	v.walk(m.state, m.local())
	used := m.inUse()
	for i := range used {
		if c := &used[i]; !m.now.Before(c.due) {
			c.due = m.nextVote(i)
			m.vote(c)
		}
		m.wakeAt(used[i].due)
	}
}

// nextVote is when the i-th collector gets its next vote. The turns of three in a
// row are even, or the lease would lapse between two answers that come together;
// those of several members are not, though they may have begun at the same time.
func (m *Machine) nextVote(i int) time.Time {
	v := &m.voting
	if v.turn.IsZero() {
		v.turn = m.now.Add(time.Duration(m.random.Int64N(int64(voteInterval))))
	}
	const part = voteInterval / collectors
	next := v.turn.Add(time.Duration(i%collectors) * part)
	rounds := m.now.Add(part/2).Sub(next)/voteInterval + 1
	if next.After(m.now.Add(part / 2)) {
		rounds = 0
	}
	return next.Add(rounds * voteInterval)
}

// vote sends one.
func (m *Machine) vote(c *collector) {
	v := &m.voting
	m.detect.loose = m.now
	v.seq++
	if len(v.sent) == maxSentVotes {
		v.sent = slices.Delete(v.sent, 0, 1)
	}
	v.sent = append(v.sent, sentVote{v.seq, m.now})
	m.countVoters()
	vote := message.Vote{
		Seq: v.seq, Barred: m.local().Barred, Voters: uint32(v.voters), Server: m.mark,
	}
	if c.node == m.config.Self {
		if m.echoAlive() {
			m.onVoteAck(c.node, m.answer(c.node, vote))
		}
		return
	}
	if c.asked.IsZero() {
		c.asked = m.now
		m.wakeAt(m.now.Add(collectorMute))
	}
	vote.Target = message.TargetOf(c.node)
	m.send(c.node, vote)
}

// otherVoters is how many other members count, whether or not they have a vote.
func (m *Machine) otherVoters() int {
	m.countVoters()
	return m.voting.others
}

// countVoters counts once for a shape.
func (m *Machine) countVoters() {
	f := m.local()
	if m.voting.counted == f.Summary {
		return
	}
	m.voting.counted, m.voting.others, m.voting.voters = f.Summary, 0, 0
	for i, r := range m.state.Members {
		counted := m.counted(r)
		if counted {
			m.voting.others++
		}
		if (counted || i == f.Self) && m.config.votes(r) {
			m.voting.voters++
		}
	}
}

// onVote notes a vote and answers it.
func (m *Machine) onVote(in Receive, msg message.Vote) {
	if _, ok := m.state.Index(in.From); !ok || msg.Target != message.TargetOf(m.config.Self) {
		return
	}
	if m.small() && msg.Barred == m.local().Barred {
		m.keptCompany(in.From)
		m.vouched(in.From)
	}
	m.namedServer(in, msg.Server)
	if !m.detect.echoGood {
		return
	}
	if m.voting.ballots == nil {
		m.voting.ballots = make(map[transport.Address]ballot)
	}
	m.voting.ballots[in.From] = ballot{msg.Barred, m.detect.echoSent}
	m.send(in.From, m.answer(in.From, msg))
}

// answer counts for a voter.
func (m *Machine) answer(voter transport.Address, msg message.Vote) message.VoteAck {
	t := m.tallied(msg.Barred)
	enough := t.enough
	if need := splitbrain.MajorityOf(int(msg.Voters)); need > t.quorum.Need {
		// The voter knows of more: it takes a majority in the eyes of both.
		q := t.quorum
		q.Need = need
		enough = q.Since(func(node transport.Address) time.Time { return t.same[node] })
	}
	return message.VoteAck{
		Target: message.TargetOf(voter), Seq: msg.Seq,
		Majority: m.ageOf(enough), All: m.ageOf(t.oldest), Every: m.ageOf(t.every), Heard: m.ageOf(t.half),
	}
}

// ageOf is at least a millisecond, or 0 for never.
func (m *Machine) ageOf(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(m.now.Sub(at), time.Millisecond)
}

// tallied counts the ballots that bar the same, and this node's own, which is
// cast now.
func (m *Machine) tallied(barred uint64) *tally {
	v, f := &m.voting, m.local()
	if v.tally.of == f.Summary && v.tally.barred == barred && m.now.Sub(v.tally.made) <= tallyLife {
		return &v.tally
	}
	t := tally{of: f.Summary, barred: barred, made: m.now, same: v.tally.same, oldest: m.now, every: m.now}
	if t.same == nil {
		t.same = make(map[transport.Address]time.Time)
	}
	clear(t.same)
	var voters []transport.Address
	var heard []time.Time
	for i, r := range m.state.Members {
		if i != f.Self && !m.counted(r) {
			continue
		}
		b := v.ballots[r.Address] // none has a zero time
		if i == f.Self {
			b = ballot{f.Barred, m.now}
		}
		if m.config.votes(r) {
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
		t.every = earlier(t.every, b.at)
		if f.Evidence[i] == gossip.NoEvidence {
			t.oldest = earlier(t.oldest, b.at)
		}
	}
	t.quorum = m.strategy.Quorum(m.electorate(voters))
	t.enough = t.quorum.Since(func(node transport.Address) time.Time { return t.same[node] })
	if n := (len(heard) + 1) / 2; n > 0 {
		slices.SortFunc(heard, func(a, b time.Time) int { return b.Compare(a) })
		t.half = heard[n-1]
	}
	v.tally = t
	return &v.tally
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// onVoteAck prolongs the lease.
func (m *Machine) onVoteAck(from transport.Address, msg message.VoteAck) {
	if msg.Target != message.TargetOf(m.config.Self) {
		return
	}
	v := &m.voting
	i := slices.IndexFunc(v.sent, func(s sentVote) bool { return s.seq == msg.Seq })
	k := slices.IndexFunc(v.collectors, func(c collector) bool { return c.node == from })
	if i < 0 || k < 0 {
		return
	}
	v.collectors[k].asked, v.collectors[k].answered = time.Time{}, m.now
	sent := v.sent[i].sent
	v.sent = slices.Delete(v.sent, i, i+1)
	if msg.Heard != 0 {
		m.lease.heard = maxTime(m.lease.heard, sent.Add(-msg.Heard))
	}
	if msg.Majority != 0 {
		m.lease.majority = maxTime(m.lease.majority, sent.Add(-msg.Majority))
	}
	if msg.Every != 0 {
		m.lease.every = maxTime(m.lease.every, sent.Add(-msg.Every))
	}
	if msg.All != 0 {
		m.lease.all = maxTime(m.lease.all, sent.Add(-msg.All))
	}
}
