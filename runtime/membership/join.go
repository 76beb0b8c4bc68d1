package membership

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/membership/message"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// joining is what a node keeps until it is a member.
type joining struct {
	started time.Time
	helloAt time.Time // when the next hello is due
	// notBefore is the end of the pause after a refusal.
	notBefore time.Time
	attempt   uint32
	// heardSelf is when the first hello of this round came back through the broker.
	// Zero: others may not have heard this node either, so it must not form.
	heardSelf time.Time
	// vacant: the broker said in this round that no Up member listens.
	vacant     bool
	offered    time.Time   // when a member last answered: there is a cluster
	candidates []candidate // other joiners that may form, by address
	first      candidate   // the one of them that comes before all, when last looked
	asked      transport.Address
	askAt      time.Time // when asked is sent the Join; zero: it was
	askedUntil time.Time
	trouble    string // why the last attempt failed
}

// A candidate is another joiner.
type candidate struct {
	transport.Address
	until time.Time // it counts as long as it says hello
}

const (
	helloInterval = 100 * time.Millisecond
	// fewCandidates is how many joiners that come before it, and so are to form the
	// cluster, double the time until a joiner's next hello; it waits for longestHello
	// at most. So two thousand that start at once do not drown each other.
	fewCandidates = 8
	longestHello  = 10 * time.Second
	// candidateLife is for how many of its intervals a joiner counts after a hello.
	candidateLife = 5
	// askSpread is the time over which joiners spread their requests, for each other
	// one that they have heard.
	askSpread = 500 * time.Microsecond
	// joinWait is how long a member may take to answer a Join.
	joinWait = 500 * time.Millisecond
	// refusedWait is the time before a refused joiner asks again.
	refusedWait = 200 * time.Millisecond
	// offerLife is how long after a member's answer a joiner forms no cluster of
	// its own: the admission may merely have been lost.
	offerLife = 3 * time.Second
	// occupiedWait is how much longer a joiner waits for an answer where somebody
	// listens as members do. It may be a spectator who subscribed to everything.
	occupiedWait = 6 * time.Second
	// maxCandidates bounds what strangers can make a joiner remember.
	maxCandidates = 4096
)

func (m *Machine) onStart() {
	if m.phase != idle {
		return
	}
	m.phase = searching
	m.join.started = m.now
}

// search begins a new round: who answers, or else who forms?
func (m *Machine) search(after time.Duration) {
	m.phase = searching
	m.join.notBefore = m.now.Add(after)
	m.join.helloAt = m.join.notBefore
	m.join.heardSelf = time.Time{}
	m.join.vacant = false
}

// runJoining says hello, gives up on a member that does not answer, forms the
// cluster when it is this node's part, and ends at the time-out.
func (m *Machine) runJoining() {
	timeout := m.join.started.Add(m.config.JoinTimeout)
	if !m.now.Before(timeout) {
		m.emit(JoinFailed{m.joinError()})
		m.end()
		return
	}
	m.wakeAt(timeout)
	if m.phase == asking {
		if !m.join.askAt.IsZero() && !m.now.Before(m.join.askAt) {
			m.join.askAt = time.Time{}
			m.send(m.join.asked, message.Join{
				Target: message.TargetOf(m.join.asked), Roles: m.config.Roles, Meta: m.config.Meta, Compat: m.config.Compat,
			})
		}
		if m.now.Before(m.join.askedUntil) {
			if !m.join.askAt.IsZero() {
				m.wakeAt(m.join.askAt)
			}
			m.wakeAt(m.join.askedUntil)
			return
		}
		m.join.trouble = m.join.asked.String() + " offered to admit this node and then did not answer (is it overloaded, or cut off?)"
		m.search(0)
	}
	if m.mayForm() {
		m.form()
		return
	}
	if m.now.Before(m.join.helloAt) {
		m.wakeAt(m.join.helloAt)
		return
	}
	interval := m.helloInterval()
	if m.due(&m.join.helloAt, interval) && m.conn.Connected {
		m.join.attempt++
		m.broadcast(message.Hello{Attempt: m.join.attempt, Seeds: m.config.Seeds, Interval: interval})
		m.out.Probe = m.config.ProbeVacancy && len(m.config.Seeds) == 0 && !m.join.vacant
	}
}

// helloInterval is the time until the next hello.
func (m *Machine) helloInterval() time.Duration {
	before := 0
	for _, c := range m.join.candidates {
		if c.until.After(m.now) && gossip.FounderBefore(c.Address, m.config.Self) {
			before++
		}
	}
	return min(helloInterval<<min(before/fewCandidates, 10), longestHello)
}

// joinError says what is known about the failure, and the remedy.
func (m *Machine) joinError() error {
	if m.join.trouble != "" {
		return fmt.Errorf("join cluster %q: node %v: not admitted within %v: %s", m.config.Cluster, m.config.Self, m.config.JoinTimeout, m.join.trouble)
	}
	var cause, remedy string
	switch {
	case !m.conn.Connected:
		cause, remedy = "no connection to the broker", "is the broker's address right, and does it run?"
	case m.join.heardSelf.IsZero():
		cause, remedy = "own messages do not come back from the broker", "do its permissions allow this cluster's subjects?"
	case len(m.config.Seeds) > 0:
		cause, remedy = fmt.Sprintf("none of the seeds %v answered, nor any other member", m.config.Seeds), "does the first of them run?"
	default:
		cause, remedy = "no member answered and another joiner that should have formed the cluster did not", "start it again, or raise Config.JoinTimeout"
	}
	return fmt.Errorf("join cluster %q: node %v: %s within %v (%s)", m.config.Cluster, m.config.Self, cause, m.config.JoinTimeout, remedy)
}

// mayForm reports whether it is this node's part to form the cluster: nobody
// answered in time, and it is the first seed, or without seeds the joiner of the
// lowest incarnation.
func (m *Machine) mayForm() bool {
	if m.join.heardSelf.IsZero() || !m.conn.Connected {
		return false
	}
	window := m.config.FormWindow
	if len(m.config.Seeds) > 0 {
		if m.config.Seeds[0] != m.config.Self.Name {
			return false
		}
		window = m.config.SeedTimeout
	} else if m.config.ProbeVacancy && !m.join.vacant {
		window += occupiedWait
	}
	at := m.join.heardSelf.Add(window)
	if !m.join.offered.IsZero() {
		at = maxTime(at, m.join.offered.Add(offerLife))
	}
	if m.now.Before(at) {
		m.wakeAt(at)
		return false
	}
	return len(m.config.Seeds) > 0 || !m.precededBy()
}

// precededBy reports whether another joiner has more right to form the cluster.
func (m *Machine) precededBy() bool {
	if m.join.first.until.After(m.now) {
		m.wakeAt(m.join.first.until)
		return true
	}
	m.join.candidates = slices.DeleteFunc(m.join.candidates, func(c candidate) bool { return !c.until.After(m.now) })
	for _, c := range m.join.candidates {
		if gossip.FounderBefore(c.Address, m.config.Self) {
			m.join.first = c
			return true
		}
	}
	return false
}

// form makes this node the first member. The leader's duties, which are its own
// for want of others, make it Up at once.
func (m *Machine) form() {
	g := &gossip.State{Founder: m.config.Self}
	m.state = g.ChangedBy(m.config.Self, func(g *gossip.State) { g.SetMember(m.newSelf()) })
	m.own = true
	m.emit(Formed{m.config.Self})
	m.becomeMember()
}

func (m *Machine) newSelf() gossip.Member {
	return gossip.Member{Address: m.config.Self, Status: gossip.Joining, Roles: m.config.Roles, Meta: m.config.Meta}
}

func (m *Machine) becomeMember() {
	m.phase = member
	m.spreading.memberSince = m.now
	m.join = joining{}
	m.detect.cleared = m.now
	m.downing.company = m.now
}

func (m *Machine) onHelloAck(from transport.Address, msg message.HelloAck) {
	if msg.Target == message.TargetOf(m.config.Self) {
		m.join.offered = m.now
	}
	if m.phase != searching || msg.Target != message.TargetOf(m.config.Self) || m.now.Before(m.join.notBefore) {
		return
	}
	m.ask(from)
}

// ask asks a member for admission: at once, or where many do at its turn.
func (m *Machine) ask(from transport.Address) {
	m.phase = asking
	m.join.asked, m.join.askAt, m.join.askedUntil = from, m.now, m.now.Add(joinWait)
	if n := len(m.join.candidates); n > fewCandidates {
		spread := time.Duration(n) * askSpread
		m.join.askAt = m.now.Add(time.Duration(m.random.Int64N(int64(spread))))
		m.join.askedUntil = m.join.askAt.Add(joinWait + 2*spread)
	}
}

// onAliveAsJoiner takes a member's broadcast for an offer where many join: then
// the hellos are few.
func (m *Machine) onAliveAsJoiner(from transport.Address) {
	if len(m.join.candidates) > fewCandidates && !m.now.Before(m.join.notBefore) {
		m.join.offered = m.now
		m.ask(from)
	}
}

// onBroadcastWelcome takes the state that the leader tells all for a Welcome.
func (m *Machine) onBroadcastWelcome(msg message.Gossip) {
	if msg.Target == 0 && msg.State.CheckUnder(m.rule()) == nil {
		m.enter(msg.State)
	}
}

// onWelcome: this node is a member.
func (m *Machine) onWelcome(from transport.Address, msg message.Welcome) {
	if msg.Target != message.TargetOf(m.config.Self) {
		m.refuse(RefusedTarget)
		return
	}
	if m.phase != asking || from != m.join.asked {
		return
	}
	if msg.State.CheckUnder(m.rule()) != nil {
		m.refuse(RefusedMalformed)
		return
	}
	m.enter(msg.State)
}

// enter makes this node a member, if the state says so.
func (m *Machine) enter(g *gossip.State) {
	if r, ok := g.Member(m.config.Self); !ok || r.Status == gossip.Down || r.Quarantined {
		return
	}
	m.state = g.WithSeen(m.config.Self)
	m.becomeMember()
}

func (m *Machine) onJoinRefused(from transport.Address, msg message.JoinRefused) {
	if m.phase != asking || msg.Target != message.TargetOf(m.config.Self) || from != m.join.asked {
		return
	}
	if msg.Final {
		m.emit(JoinFailed{fmt.Errorf("join cluster %q: node %v: refused by %v: %s", m.config.Cluster, m.config.Self, from, msg.Reason)})
		m.end()
		return
	}
	m.join.trouble = msg.Reason
	m.search(refusedWait)
}

// onHelloAsJoiner notes other joiners, and the return of one's own hello.
func (m *Machine) onHelloAsJoiner(from transport.Address, msg message.Hello) {
	if from == m.config.Self {
		if m.join.heardSelf.IsZero() && msg.Attempt == m.join.attempt {
			m.join.heardSelf = m.now
		}
		return
	}
	if len(msg.Seeds) > 0 {
		return // it forms nothing, or waits for its seeds
	}
	interval := msg.Interval
	if interval <= 0 || interval > longestHello {
		interval = helloInterval
	}
	until := m.now.Add(candidateLife * interval)
	if from == m.join.first.Address {
		m.join.first.until = until
	}
	i, ok := slices.BinarySearchFunc(m.join.candidates, from, func(c candidate, a transport.Address) int { return c.Compare(a) })
	switch {
	case ok:
		m.join.candidates[i].until = until
	case len(m.join.candidates) < maxCandidates:
		m.join.candidates = slices.Insert(m.join.candidates, i, candidate{from, until})
	}
}
