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

// Time limits of an agreement about a direct lane.
const (
	OfferFor   = 3 * time.Second  // how long an offer waits for its answer
	ExpectFor  = 10 * time.Second // how long an accepted peer may take to dial
	DialFor    = 2 * time.Second  // how long dialing may take, with TLS and the nonce
	RenewEvery = 2 * time.Second
	HeardFor   = 5 * time.Second // how long a peer may not be heard before its connections are closed
	UnusedFor  = time.Minute     // how long a connection may carry no frame before it is closed
	// SteadyFor is how long a connection must stay open for earlier failures of its peer to be
	// forgotten.
	SteadyFor = 10 * time.Second
	// MinBackOff is the pause after the first failure with a peer, before the next offer. Each
	// further failure doubles the pause, up to MaxBackOff; a random part, up to half, is subtracted.
	MinBackOff = time.Second
	MaxBackOff = time.Minute
)

// Bounds of the number of pairs. A pair is a peer and a lane for which there is an offer or a
// connection. Beyond the bounds this process refuses offers.
const (
	MaxLanes = 4096 // all pairs
	MaxNamed = 1024 // pairs with clients of one name; the broker decides who may use a name
)

// A Config has the settings of the process whose direct lanes a Machine decides on.
type Config struct {
	Self    transport.Peer
	Lanes   int
	Key     Key
	Address string        // where other processes can reach this one; "" means that it does not listen
	Seed    uint64        // seeds the random back-off
	BackOff time.Duration // pause after the first failure with a peer; default MinBackOff, tests set less
}

// A Machine decides on the direct lanes of one process. It is not safe for concurrent use.
//
// Invariants:
//  1. There is at most one pair for each peer and lane, and it has at most one connection.
//  2. The keys of expected are exactly the nonces of the expecting pairs. The keys of open are
//     exactly the ids of the connections of the connected pairs.
//  3. named counts the pairs with clients by name. It has no name without pairs.
//  4. keys counts the expecting pairs by key.
//  5. The field open of a peer is the number of its open connections.
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

type pairKey struct {
	peer transport.Address
	lane int
}

func (k pairKey) compare(o pairKey) int {
	return cmp.Or(k.peer.Compare(o.peer), cmp.Compare(k.lane, o.lane))
}

type status uint8

const (
	offered   status = iota // this process sent an Offer
	dialing                 // the peer accepted, and this process dials
	expecting               // this process accepted an Offer, and the peer dials
	connected               // the connection is open
)

type pair struct {
	peer   transport.Peer
	lane   int
	status status
	nonce  Nonce
	key    Key       // the peer's key
	until  time.Time // when an agreement without an open connection is given up
	agreed time.Time // when the peer sent its key
	id     uint64    // id of the open connection
	opened time.Time
	used   time.Time // when the connection last carried a frame
}

type peer struct {
	transport.Peer
	open     int       // number of open connections
	heard    time.Time // when the peer was last heard through the broker
	renewAt  time.Time
	failures int
	until    time.Time // until when the peer is offered nothing
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

// Expects reports whether a process that is expected to dial has the key.
func (m *Machine) Expects(k Key) bool { return m.keys[k] > 0 }

// Connected returns the open connection with a peer for a lane, if there is one.
func (m *Machine) Connected(peer transport.Address, lane int) (id uint64, ok bool) {
	if p := m.pairs[pairKey{peer, lane}]; p != nil && p.status == connected {
		return p.id, true
	}
	return 0, false
}

// Want offers a peer a connection for a lane on which frames for the peer are sent. It does nothing
// if there already is an agreement about the lane, or if the peer's back-off has not passed.
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

// Receive handles a message of a process. nonce must be a fresh nonce, for the case that the answer
// is an Offer. refusal is the reason why this process accepts no connection at the moment; "" means
// that it accepts connections.
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

// Arrived handles a connection from a process that has dialed and has shown a key and a nonce. id
// names the connection. Arrived returns the process and the lane; ok is false if no process with
// that key and nonce is expected.
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

// Dialed handles the result of a Dial. id names the connection; 0 means that dialing failed. Dialed
// reports whether the connection is still wanted.
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

// connect records a pair's open connection. If it is the only connection with the peer, connect
// sends the first Renewal.
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

// Used records that a connection has carried a frame.
func (m *Machine) Used(now time.Time, id uint64) {
	if at, ok := m.open[id]; ok {
		m.pairs[at].used = now
	}
}

// Ended records that a connection has ended for the given reason.
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

// failed records a failure, and begins a back-off in which the peer is offered nothing. A failure
// during the back-off does not count.
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

// Tick gives up agreements that were not completed in time, returns the Renewals to send, and
// closes connections that are unused or whose peer is silent. While the Machine is not Idle, Tick
// is called at least twice a second.
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

// Check returns an error that names the first broken invariant.
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
				return fmt.Errorf("invariant 2: the nonce of %v belongs to %v in expected", at, m.expected[p.nonce])
			}
		case connected:
			open++
			perPeer[at.peer]++
			if m.open[p.id] != at {
				return fmt.Errorf("invariant 2: connection %d of %v belongs to %v in open", p.id, at, m.open[p.id])
			}
		}
	}
	if len(m.expected) != expected || len(m.open) != open {
		return fmt.Errorf("invariant 2: %d nonces and %d connections, want %d and %d", len(m.expected), len(m.open), expected, open)
	}
	if !maps.Equal(m.named, named) {
		return fmt.Errorf("invariant 3: the index by name has %v clients, want %v", m.named, named)
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
