package membership

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// A node runs turns only while a majority has lately given it their word that they
// count on it (see lease.go). How late the word counts depends on how it comes.
//
// Where all watch all (see [Machine.bound]) a word is bound to a heartbeat of the
// node itself: the answer to it, or a later heartbeat that names it. The lease counts
// from when the node sent its own heartbeat, so it does not matter how long the word
// was on its way, or lay in the socket of a process that stood still. And who gave
// the word knows when that was at the latest: when the heartbeat came. So when a
// member is judged dead, its lease ends LeaseMajority after the last heartbeat that
// any of the others had from it, and not after the judgement. Each of the others says
// when that was, once it knows the member to be Down and gives no word any more
// ([Record.Word]), and fence.go counts from the latest.
//
// In larger clusters most members hear from each other by broadcast alone. Such words
// are loose: they count from when they left the broker, as far as the receiver can
// tell. Nobody else can tell.

// bound reports whether words are bound to heartbeats: all watch all, often enough.
func (m *Machine) bound() bool {
	return m.small() && len(m.state.Members) <= m.config.Watched+1 &&
		wordsInLease*m.heartbeatInterval() <= m.config.LeaseMajority
}

// wordsInLease is how many heartbeats there must be in LeaseMajority for a lease to
// rest on their answers alone.
const wordsInLease = 4

// A wordGiven is the last word that this node gave another.
type wordGiven struct {
	at    time.Time // when the heartbeat came to which it is bound; zero: never
	heard uint64    // the Seq of that heartbeat
}

// A sentBeat is a heartbeat on its way.
type sentBeat struct {
	seq  uint64
	sent time.Time
}

// maxSentBeats bounds the heartbeats on their way to one member: more than
// LeaseMajority holds.
const maxSentBeats = 64

// ask notes a heartbeat that may be answered.
func (p *peer) ask(seq uint64, now time.Time) {
	if len(p.asked) == maxSentBeats {
		p.asked = slices.Delete(p.asked, 0, 1)
	}
	p.asked = append(p.asked, sentBeat{seq, now})
}

// answeredBeat takes a word that is bound to this node's heartbeat of that number.
func (m *Machine) answeredBeat(from transport.Address, seq uint64) {
	if _, ok := m.state.Member(from); !ok {
		return
	}
	p := m.peer(from)
	i := slices.IndexFunc(p.asked, func(b sentBeat) bool { return b.seq == seq })
	if i < 0 {
		return // too old to prolong a lease, or none of this node's
	}
	p.vouched = maxTime(p.vouched, p.asked[i].sent)
	p.asked = slices.Delete(p.asked, 0, i) // the same one may be named again
}

// giveWord notes that a member's heartbeat is about to be answered.
func (m *Machine) giveWord(to transport.Address, seq uint64) {
	if _, ok := m.state.Member(to); ok {
		p := m.peer(to)
		p.word = wordGiven{m.now, max(p.word.heard, seq)}
	}
}

// vouched takes a loose word: the member would not have sent the message to a Down or
// removed one.
//
// The message may have waited long for a process that stood still. All that is
// known is that it left the broker after the last returned echo came there: they
// share one connection and its order.
func (m *Machine) vouched(node transport.Address) {
	if _, ok := m.state.Member(node); ok && m.detect.echoGood {
		p := m.peer(node)
		p.vouched = maxTime(p.vouched, m.detect.echoSent)
	}
}

// keptCompany notes that a member counts on this node, whether or not that prolongs
// the lease. It counts from when a loose word would.
func (m *Machine) keptCompany(node transport.Address) {
	if _, ok := m.state.Member(node); ok && m.detect.echoGood {
		p := m.peer(node)
		p.company = maxTime(p.company, m.detect.echoSent)
	}
}

// reportWords says of the Down members that this node misses when it gave them its
// last word. It cannot say so of those that may have had a loose one since: nobody
// knows when those arrive.
func (m *Machine) reportWords() {
	if m.phase != member || len(m.local().Down) == 0 || m.now.Sub(m.detect.loose) <= m.config.SilentAfter {
		return
	}
	var said []gossip.Record
	for _, held := range m.state.Records(m.config.Self) {
		r, _ := m.state.Member(held.Subject)
		p := m.detect.peers[held.Subject]
		if r.Status != gossip.Down || r.Fenced || held.Evidence == gossip.EvidenceGone || held.Vouched != 0 || p == nil || p.word.at.IsZero() {
			continue
		}
		held.Vouched = max(m.now.Sub(p.word.at).Truncate(time.Millisecond), time.Millisecond)
		said = append(said, held)
	}
	if len(said) == 0 {
		return
	}
	m.update(func(g *gossip.State) {
		for _, held := range said {
			g.Rows = gossip.WithRecord(g.Rows, m.config.Self, held)
		}
	})
}

// noteWords keeps what others say of their last words to a Down member, by the own
// clock: what was said had been so when it was said, and that is not after now.
func (m *Machine) noteWords(subject transport.Address) map[transport.Address]time.Time {
	words := m.downing.words[subject]
	for _, row := range m.state.Rows {
		held, ok := gossip.RecordOf(row.Records, subject)
		if _, known := words[row.Observer]; !ok || known || held.Vouched == 0 {
			continue
		}
		if words == nil {
			words = make(map[transport.Address]time.Time)
			m.downing.words[subject] = words
		}
		words[row.Observer] = m.now.Add(held.Vouched/clockSpread - held.Vouched)
	}
	return words
}

// wordsOver is when the others gave a Down member the last word that it can have, if
// all of them have said it who are not Down themselves, and no quorum is left for it
// among those. Then no word follows.
func (m *Machine) wordsOver(r gossip.Member) (last time.Time, known bool) {
	words := m.noteWords(r.Address)
	if len(words) == 0 {
		return time.Time{}, false
	}
	for _, other := range m.state.Members {
		if other.Status == gossip.Down {
			continue
		}
		at, said := words[other.Address]
		if !said {
			return time.Time{}, false
		}
		last = maxTime(last, at)
	}
	without := func(node transport.Address) bool {
		_, said := words[node]
		return said
	}
	return last, m.quorumBroken(r, without)
}
