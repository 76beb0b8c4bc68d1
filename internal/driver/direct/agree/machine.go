package agree

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

// Times of the agreement.
const (
	OfferFor   = 3 * time.Second  // how long an offer waits for its answer
	ExpectFor  = 10 * time.Second // how long an accepted process may dial
	DialFor    = 2 * time.Second  // how long dialing takes at most, with TLS and the nonce
	RenewEvery = 2 * time.Second
	HeardFor   = 5 * time.Second // a peer that was not heard for this long loses its connections
	UnusedFor  = time.Minute     // a connection without frames for this long is closed
	// SteadyFor is how long a connection stays open before its peer's earlier failures do not
	// count any more.
	SteadyFor = 10 * time.Second
	// MinBackOff is the time between the first failure with a peer and the next offer. It
	// doubles with each failure, up to MaxBackOff, and is shortened at random by up to half.
	MinBackOff = time.Second
	MaxBackOff = time.Minute
)

// Bounds of the pairs, connected or not. Beyond them, offers of others are refused.
const (
	MaxLanes = 4096 // all
	MaxNamed = 1024 // with clients of one name; the broker decides who may use a name
)

// A Config describes the process.
type Config struct {
	Self    transport.Peer
	Lanes   int
	Key     Key
	Address string        // where others can reach the process; "" means it does not listen
	Seed    uint64        // of the back-off's randomness
	BackOff time.Duration // after the first failure with a peer; default MinBackOff, and tests have less
}

// A Machine has the direct lanes of one process. It is not safe for concurrent use.
//
// Invariants:
//  1. There is at most one pair for each peer and lane, and it has at most one connection.
//  2. expected has exactly the nonces of the expecting pairs, and open exactly the connections of
//     the connected ones.
//  3. named counts the pairs of clients by name, and a name without pairs is not in it.
//  4. keys counts the expecting pairs by key.
//  5. A peer's open is the number of its connections.
type Machine struct {
	cfg      Config
	rng      *rand.Rand
	pairs    map[pairKey]*pair
	expected map[Nonce]pairKey
	keys     map[Key]int
	open     map[uint64]pairKey
	named    map[string]int
	peers    map[transport.Address]*peer
}

// A pairKey names a lane with a peer.
type pairKey struct {
	peer transport.Address
	lane int
}

func (k pairKey) compare(o pairKey) int {
	return cmp.Or(k.peer.Compare(o.peer), cmp.Compare(k.lane, o.lane))
}

// A status is the state of a pair. There is no pair without an agreement.
type status uint8

const (
	offered   status = iota // an Offer was sent
	dialing                 // it was accepted, and this process dials
	expecting               // an Offer was accepted, and the peer dials
	connected               // the connection is open
)

// A pair is the agreement with a peer about a lane.
type pair struct {
	peer   transport.Peer
	lane   int
	status status
	nonce  Nonce
	key    Key       // the peer's
	until  time.Time // when the agreement is given up; not of an open connection
	agreed time.Time // when the peer was heard with its key
	id     uint64    // of the open connection
	opened time.Time
	used   time.Time // when it last carried a frame
}

// A peer is a process with pairs, or with remembered failures.
type peer struct {
	transport.Peer
	open     int       // connections
	heard    time.Time // through the broker
	renewAt  time.Time
	failures int
	until    time.Time // no offer before
}

// New returns a Machine without connections.
func New(cfg Config) *Machine {
	if cfg.BackOff == 0 {
		cfg.BackOff = MinBackOff
	}
	return &Machine{
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 1)),
		pairs: map[pairKey]*pair{}, expected: map[Nonce]pairKey{}, keys: map[Key]int{}, open: map[uint64]pairKey{},
		named: map[string]int{}, peers: map[transport.Address]*peer{},
	}
}

// Idle reports whether Tick has nothing to do.
func (m *Machine) Idle() bool { return len(m.pairs) == 0 && len(m.peers) == 0 }

// Open returns the number of open connections.
func (m *Machine) Open() int { return len(m.open) }

// Expects reports whether any process that is expected to dial has the key.
func (m *Machine) Expects(k Key) bool { return m.keys[k] > 0 }

// Connected returns the open connection with a peer for a lane, if there is one.
func (m *Machine) Connected(peer transport.Address, lane int) (id uint64, ok bool) {
	if p := m.pairs[pairKey{peer, lane}]; p != nil && p.status == connected {
		return p.id, true
	}
	return 0, false
}

// Want offers a peer a connection, because there are frames for it. It does nothing while
// there is an agreement, or the peer's back-off has not passed.
func (m *Machine) Want(now time.Time, to transport.Peer, lane int, nonce Nonce) (out Output) {
	if isClient(to) || to.Address == m.cfg.Self.Address || m.pairs[pairKey{to.Address, lane}] != nil {
		return out
	}
	if p := m.peers[to.Address]; p != nil && now.Before(p.until) {
		return out
	}
	m.offer(now, to, lane, nonce, &out)
	return out
}

func isClient(p transport.Peer) bool {
	return p.Client || identity.Of(p.Incarnation) != identity.Member
}

func (m *Machine) offer(now time.Time, to transport.Peer, lane int, nonce Nonce, out *Output) {
	m.add(&pair{peer: to, lane: lane, status: offered, nonce: nonce, until: now.Add(OfferFor)})
	out.Send = append(out.Send, Send{to, Offer{Lane: lane, Nonce: nonce, Key: m.cfg.Key, Address: m.cfg.Address}})
}

// Receive takes a message of a process. nonce is a fresh one, for an Offer that may be the
// answer. refusal is the reason why this process agrees to no connection at the moment, or "".
func (m *Machine) Receive(now time.Time, from transport.Peer, msg Message, nonce Nonce, refusal string) (out Output) {
	if p := m.peers[from.Address]; p != nil {
		p.heard = now
	}
	switch msg := msg.(type) {
	case Offer:
		m.offeredBy(now, from, msg, nonce, refusal, &out)
	case Accept:
		at := pairKey{from.Address, msg.Lane}
		p := m.pairs[at]
		if p == nil || p.status != offered || p.nonce != msg.Nonce || isClient(from) || msg.Address == "" {
			return out // late
		}
		if refusal != "" {
			m.remove(at)
			out.Refused = append(out.Refused, Refused{Peer: from, Here: true, Reason: refusal})
			return out
		}
		p.status, p.key, p.until, p.agreed = dialing, msg.Key, now.Add(2*DialFor), now
		out.Dial = append(out.Dial, Dial{Peer: from, Lane: p.lane, Address: msg.Address, Key: msg.Key, Nonce: msg.Nonce})
	case Refusal:
		at := pairKey{from.Address, msg.Lane}
		if p := m.pairs[at]; p != nil && p.status == offered && p.nonce == msg.Nonce {
			m.remove(at)
			m.failed(now, from)
			out.Refused = append(out.Refused, Refused{Peer: from, Reason: msg.Reason})
		}
	}
	return out
}

// offeredBy answers an Offer.
func (m *Machine) offeredBy(now time.Time, from transport.Peer, o Offer, nonce Nonce, refusal string, out *Output) {
	if isClient(from) {
		o.Address = ""
	}
	at := pairKey{from.Address, o.Lane}
	old := m.pairs[at]
	if refusal == "" {
		refusal = m.refusal(from, o, old)
	}
	switch {
	case refusal != "":
		out.Send = append(out.Send, Send{from, Refusal{Lane: o.Lane, Nonce: o.Nonce, Reason: refusal}})
		out.Refused = append(out.Refused, Refused{Peer: from, Here: true, Reason: refusal})
		return
	case old != nil && old.status == dialing:
		return // the peer has accepted an offer since
	case old != nil && old.status == offered && (m.cfg.Address == "" || o.Address != "" && m.cfg.Self.Compare(from.Address) < 0):
		return // the peer answers this process's own
	}
	if old != nil {
		if old.status == connected {
			out.Close = append(out.Close, Close{old.id, Replaced})
		}
		m.remove(at)
	}
	if m.cfg.Address == "" {
		m.offer(now, from, o.Lane, nonce, out)
		return
	}
	m.add(&pair{peer: from, lane: o.Lane, status: expecting, nonce: o.Nonce, key: o.Key, until: now.Add(ExpectFor), agreed: now})
	out.Send = append(out.Send, Send{from, Accept{Lane: o.Lane, Nonce: o.Nonce, Key: m.cfg.Key, Address: m.cfg.Address}})
}

// refusal returns the reason to refuse an offer, or "".
func (m *Machine) refusal(from transport.Peer, o Offer, old *pair) string {
	_, known := m.expected[o.Nonce]
	switch {
	case o.Lane < 0 || o.Lane >= m.cfg.Lanes:
		return "there is no such lane"
	case known:
		return "the nonce is known already"
	case m.cfg.Address == "" && o.Address == "":
		return "neither side listens (set Config.Direct.Listen at members)"
	case old == nil && len(m.pairs) >= MaxLanes:
		return "too many direct lanes"
	case old == nil && isClient(from) && m.named[from.Name] >= MaxNamed:
		return "too many direct lanes of clients of this name"
	}
	return ""
}

// Arrived takes a process that has dialed, shown a key and then a nonce. id names its connection.
// It returns the process and the lane; ok is false if nobody is expected with them.
func (m *Machine) Arrived(now time.Time, key Key, nonce Nonce, id uint64) (from transport.Peer, lane int, ok bool, out Output) {
	at, known := m.expected[nonce]
	if !known {
		return from, 0, false, out
	}
	p := m.pairs[at]
	if p.key != key || !now.Before(p.until) {
		return from, 0, false, out
	}
	m.connect(now, p, id, &out)
	return p.peer, p.lane, true, out
}

// Dialed takes the result of a Dial. id names the connection; 0 means there is none.
func (m *Machine) Dialed(now time.Time, d Dial, id uint64) (ok bool, out Output) {
	at := pairKey{d.Peer.Address, d.Lane}
	p := m.pairs[at]
	if p == nil || p.status != dialing || p.nonce != d.Nonce {
		return false, out
	}
	if id == 0 {
		m.remove(at)
		m.failed(now, d.Peer)
		return false, out
	}
	m.connect(now, p, id, &out)
	return true, out
}

// connect records the open connection of a pair, and sends the first Renewal to a newly connected
// peer.
func (m *Machine) connect(now time.Time, p *pair, id uint64, out *Output) {
	m.unexpect(p)
	p.status, p.id, p.opened, p.used = connected, id, now, now
	m.open[id] = pairKey{p.peer.Address, p.lane}
	of := m.peerOf(p.peer)
	if of.heard.Before(p.agreed) {
		of.heard = p.agreed
	}
	of.open++
	if of.open == 1 {
		m.renew(now, of, out)
	}
}

func (m *Machine) renew(now time.Time, p *peer, out *Output) {
	p.renewAt = now.Add(RenewEvery)
	out.Send = append(out.Send, Send{p.Peer, Renewal{}})
}

// Used notes that a connection has carried a frame.
func (m *Machine) Used(now time.Time, id uint64) {
	if at, ok := m.open[id]; ok {
		m.pairs[at].used = now
	}
}

// Ended notes that a connection has ended for a reason.
func (m *Machine) Ended(now time.Time, id uint64, why Reason) {
	at, ok := m.open[id]
	if !ok {
		return
	}
	p := m.pairs[at]
	m.remove(at)
	if !why.IsFault() {
		return
	}
	if now.Sub(p.opened) >= SteadyFor {
		m.peerOf(p.peer).failures = 0
	}
	m.failed(now, p.peer)
}

// failed has the next offer to a peer wait. Failures of several lanes at once count as one.
func (m *Machine) failed(now time.Time, with transport.Peer) {
	if isClient(with) {
		return // it is never offered anything
	}
	p := m.peerOf(with)
	if now.Before(p.until) {
		return
	}
	wait := min(MaxBackOff, m.cfg.BackOff<<min(p.failures, 6))
	p.failures++
	p.until = now.Add(wait - time.Duration(m.rng.Int64N(int64(wait/2))))
}

// Gone ends all agreements with a process that left or was removed.
func (m *Machine) Gone(a transport.Address) (out Output) {
	for lane := range m.cfg.Lanes {
		at := pairKey{a, lane}
		p := m.pairs[at]
		if p == nil {
			continue
		}
		if p.status == connected {
			out.Close = append(out.Close, Close{p.id, Removed})
		}
		m.remove(at)
	}
	delete(m.peers, a)
	return out
}

// Tick gives up agreements whose time has passed, sends Renewals, and closes connections that are
// unused or have a silent peer. It is to be called at least twice a second unless the Machine is
// Idle.
func (m *Machine) Tick(now time.Time) (out Output) {
	for _, at := range slices.SortedFunc(maps.Keys(m.pairs), pairKey.compare) {
		switch p := m.pairs[at]; {
		case p.status == connected && now.Sub(p.used) >= UnusedFor:
			out.Close = append(out.Close, Close{p.id, Unused})
			m.remove(at)
		case p.status == connected || now.Before(p.until):
		default:
			m.remove(at)
			if p.status != expecting {
				m.failed(now, p.peer)
			}
		}
	}
	for _, a := range slices.SortedFunc(maps.Keys(m.peers), transport.Address.Compare) {
		p := m.peers[a]
		switch {
		case p.open > 0 && now.Sub(p.heard) >= HeardFor:
			m.revoke(now, p, &out)
		case p.open > 0 && !now.Before(p.renewAt):
			m.renew(now, p, &out)
		case p.open == 0 && now.Sub(p.until) >= MaxBackOff && now.Sub(p.heard) >= MaxBackOff:
			delete(m.peers, a) // its failures are forgotten
		}
	}
	return out
}

// revoke closes the connections with a peer that was not heard.
func (m *Machine) revoke(now time.Time, p *peer, out *Output) {
	for lane := range m.cfg.Lanes {
		at := pairKey{p.Address, lane}
		if o := m.pairs[at]; o != nil && o.status == connected {
			out.Close = append(out.Close, Close{o.id, Revoked})
			m.remove(at)
		}
	}
	m.failed(now, p.Peer)
}

func (m *Machine) peerOf(to transport.Peer) *peer {
	p := m.peers[to.Address]
	if p == nil {
		p = &peer{Peer: to}
		m.peers[to.Address] = p
	}
	return p
}

func (m *Machine) add(p *pair) {
	m.pairs[pairKey{p.peer.Address, p.lane}] = p
	if isClient(p.peer) {
		m.named[p.peer.Name]++
	}
	if p.status == expecting {
		m.expected[p.nonce] = pairKey{p.peer.Address, p.lane}
		m.keys[p.key]++
	}
}

// unexpect ends the wait for a process to dial.
func (m *Machine) unexpect(p *pair) {
	if p.status != expecting {
		return
	}
	delete(m.expected, p.nonce)
	if m.keys[p.key]--; m.keys[p.key] == 0 {
		delete(m.keys, p.key)
	}
}

func (m *Machine) remove(at pairKey) {
	p := m.pairs[at]
	delete(m.pairs, at)
	m.unexpect(p)
	if p.status == connected {
		delete(m.open, p.id)
		m.peerOf(p.peer).open--
	}
	if isClient(p.peer) {
		if m.named[p.peer.Name]--; m.named[p.peer.Name] == 0 {
			delete(m.named, p.peer.Name)
		}
	}
	if of := m.peers[p.peer.Address]; of != nil && isClient(p.peer) && of.open == 0 {
		delete(m.peers, p.peer.Address)
	}
}

// Check returns the first broken invariant.
func (m *Machine) Check() error {
	expected, open, keys, named := 0, 0, map[Key]int{}, map[string]int{}
	perPeer := map[transport.Address]int{}
	for _, at := range slices.SortedFunc(maps.Keys(m.pairs), pairKey.compare) {
		p := m.pairs[at]
		if isClient(p.peer) {
			named[p.peer.Name]++
		}
		switch p.status {
		case expecting:
			expected++
			keys[p.key]++
			if m.expected[p.nonce] != at {
				return fmt.Errorf("invariant 2: the nonce of %v is expected of %v", at, m.expected[p.nonce])
			}
		case connected:
			open++
			perPeer[at.peer]++
			if m.open[p.id] != at {
				return fmt.Errorf("invariant 2: connection %d of %v is that of %v", p.id, at, m.open[p.id])
			}
		}
	}
	if len(m.expected) != expected || len(m.open) != open {
		return fmt.Errorf("invariant 2: %d nonces and %d connections, want %d and %d", len(m.expected), len(m.open), expected, open)
	}
	if !maps.Equal(m.named, named) {
		return fmt.Errorf("invariant 3: %v clients by name, want %v", m.named, named)
	}
	if !maps.Equal(m.keys, keys) {
		return fmt.Errorf("invariant 4: %d keys, want %d", len(m.keys), len(keys))
	}
	for _, a := range slices.SortedFunc(maps.Keys(m.peers), transport.Address.Compare) {
		if m.peers[a].open != perPeer[a] {
			return fmt.Errorf("invariant 5: %d connections with %v, want %d", m.peers[a].open, a, perPeer[a])
		}
	}
	return nil
}
