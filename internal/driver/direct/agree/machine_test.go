package agree

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

// member and client return processes; i determines their order.
func member(name string, i uint64) transport.Peer {
	return transport.Peer{Address: transport.Address{Name: name, Incarnation: identity.Mark(identity.Member, i)}}
}

func client(name string, i uint64) transport.Peer {
	return transport.Peer{Address: transport.Address{Name: name, Incarnation: identity.Mark(identity.Client, i)}, Client: true}
}

func keyOf(p transport.Peer) (k Key) {
	copy(k[:], p.Address.String())
	return k
}

// machine returns the Machine of the process self. listens says whether this process listens.
func machine(self transport.Peer, listens bool) *Machine {
	cfg := Config{Self: self, Lanes: 2, Key: keyOf(self), Seed: 1}
	if listens {
		cfg.Address = self.Name + ":1"
	}
	return New(cfg)
}

// A world is some processes with a broker and a network between them, in virtual time.
type world struct {
	t        *testing.T
	now      time.Time
	rng      *rand.Rand
	machines map[transport.Address]*Machine
	self     map[transport.Address]transport.Peer
	mail     []mail
	dials    []dialed
	conns    map[uint64]*wireConn
	lose     float64 // probability that a message or dial is lost
	ids      uint64
	nonces   uint64
	log      []string
}

type mail struct {
	from transport.Peer
	Send
}

type dialed struct {
	from transport.Peer
	Dial
}

// A wireConn is both ends of a connection.
type wireConn struct {
	id         uint64
	at, dialer transport.Address
}

func newWorld(t *testing.T) *world {
	return &world{
		t: t, now: time.Unix(0, 0).Add(time.Hour), rng: rand.New(rand.NewPCG(1, 2)), machines: map[transport.Address]*Machine{},
		self: map[transport.Address]transport.Peer{}, conns: map[uint64]*wireConn{},
	}
}

func (w *world) add(p transport.Peer, listens bool) transport.Peer {
	w.machines[p.Address], w.self[p.Address] = machine(p, listens), p
	return p
}

func (w *world) nonce() (n Nonce) {
	w.nonces++
	copy(n[:], strconv.FormatUint(w.nonces, 10))
	return n
}

func (w *world) want(p, to transport.Peer, lane int) {
	w.do(p, w.machines[p.Address].Want(w.now, to, lane, w.nonce()))
}

// do carries out a Machine's output.
func (w *world) do(p transport.Peer, out Output) {
	w.t.Helper()
	require.NoError(w.t, w.machines[p.Address].Check())
	for _, s := range out.Send {
		w.mail = append(w.mail, mail{p, s})
		w.log = append(w.log, fmt.Sprintf("%s to %s: %T", p.Name, s.To.Name, s.Message))
	}
	for _, d := range out.Dial {
		w.dials = append(w.dials, dialed{p, d})
	}
	for _, c := range out.Close {
		w.close(p, c.ID, c.Reason)
	}
	for _, r := range out.Refused {
		w.log = append(w.log, fmt.Sprintf("%s and %s: refused (%s)", p.Name, r.Peer.Name, r.Reason))
	}
}

// close ends a connection at one end; the other end then notices.
func (w *world) close(p transport.Peer, id uint64, why Reason) {
	w.log = append(w.log, fmt.Sprintf("%s closes: %v", p.Name, why))
	c := w.conns[id]
	if c == nil {
		return
	}
	delete(w.conns, id)
	for _, end := range []transport.Address{c.at, c.dialer} {
		if end != p.Address {
			why = Broken
		}
		w.machines[end].Ended(w.now, id, why)
		require.NoError(w.t, w.machines[end].Check())
	}
}

// deliver delivers one message, or makes one dial. It reports false if there is none.
func (w *world) deliver() bool {
	n := len(w.mail) + len(w.dials)
	if n == 0 {
		return false
	}
	if len(w.mail) > 0 {
		m := w.mail[0]
		w.mail = w.mail[1:]
		if to := w.machines[m.To.Address]; to != nil && w.rng.Float64() >= w.lose {
			w.do(w.self[m.To.Address], to.Receive(w.now, m.from, m.Message, w.nonce(), ""))
		}
		return true
	}
	d := w.dials[0]
	w.dials = w.dials[1:]
	w.dial(d)
	return true
}

func (w *world) dial(d dialed) {
	w.ids++
	id, other := w.ids, w.machines[d.Peer.Address]
	arrived := false
	if w.rng.Float64() >= w.lose && keyOf(d.Peer) == d.Key {
		from, lane, ok, out := other.Arrived(w.now, keyOf(d.from), d.Nonce, id)
		if arrived = ok; ok {
			require.Equal(w.t, d.from, from)
			require.Equal(w.t, d.Lane, lane)
			w.conns[id] = &wireConn{id: id, at: d.Peer.Address, dialer: d.from.Address}
		}
		w.do(d.Peer, out)
	}
	if !arrived {
		_, out := w.machines[d.from.Address].Dialed(w.now, d.Dial, 0)
		w.do(d.from, out)
		return
	}
	ok, out := w.machines[d.from.Address].Dialed(w.now, d.Dial, id)
	w.do(d.from, out)
	if !ok {
		w.close(d.from, id, Over)
	}
}

func (w *world) settle() {
	for w.deliver() {
	}
}

// pass lets time pass, with ticks and without traffic.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(500 * time.Millisecond)
		for _, p := range w.self {
			w.do(p, w.machines[p.Address].Tick(w.now))
		}
		w.settle()
	}
}

// requireOpen checks the number of processes' open connections.
func (w *world) requireOpen(n int, ps ...transport.Peer) {
	w.t.Helper()
	for _, p := range ps {
		require.Equal(w.t, n, w.machines[p.Address].Open(), "%s: %v", p.Name, w.log)
	}
}

func TestAgreement(t *testing.T) {
	a, b, c := member("a", 1), member("b", 2), client("c", 3)
	for _, tt := range []struct {
		name    string
		listen  map[string]bool
		want    [][2]transport.Peer // who wants a connection to whom
		open    int                 // connections of both
		between [2]transport.Peer
		log     []string // its beginning
	}{
		{
			"the peer listens",
			map[string]bool{"b": true},
			[][2]transport.Peer{{a, b}},
			1,
			[2]transport.Peer{a, b},
			[]string{"a to b: agree.Offer", "b to a: agree.Accept"},
		},
		{
			"only the offering side listens",
			map[string]bool{"a": true},
			[][2]transport.Peer{{a, b}},
			1,
			[2]transport.Peer{a, b},
			[]string{"a to b: agree.Offer", "b to a: agree.Offer", "a to b: agree.Accept"},
		},
		{
			"nobody listens", nil,
			[][2]transport.Peer{{a, b}},
			0,
			[2]transport.Peer{a, b},
			[]string{
				"a to b: agree.Offer", "b to a: agree.Refusal", "b and a: refused (neither side listens (set Config.Direct.Listen at members))",
				"a and b: refused (neither side listens (set Config.Direct.Listen at members))",
			},
		},
		{
			"both offer, and the lower address counts",
			map[string]bool{"a": true, "b": true},
			[][2]transport.Peer{{a, b}, {b, a}},
			1,
			[2]transport.Peer{a, b},
			[]string{"a to b: agree.Offer", "b to a: agree.Offer", "b to a: agree.Accept"},
		},
		{
			"the same the other way round",
			map[string]bool{"a": true, "b": true},
			[][2]transport.Peer{{b, a}, {a, b}},
			1,
			[2]transport.Peer{a, b},
			[]string{"b to a: agree.Offer", "a to b: agree.Offer", "b to a: agree.Accept"},
		},
		{
			"both offer and one listens",
			map[string]bool{"b": true},
			[][2]transport.Peer{{a, b}, {b, a}},
			1,
			[2]transport.Peer{a, b},
			[]string{"a to b: agree.Offer", "b to a: agree.Offer", "b to a: agree.Accept"},
		},
		{
			"a client offers",
			map[string]bool{"a": true},
			[][2]transport.Peer{{c, a}},
			1,
			[2]transport.Peer{a, c},
			[]string{"c to a: agree.Offer", "a to c: agree.Accept"},
		},
		{"a member offers nothing to a client", map[string]bool{"a": true}, [][2]transport.Peer{{a, c}}, 0, [2]transport.Peer{a, c}, nil},
		{
			"no member dials a client's address",
			map[string]bool{"c": true},
			[][2]transport.Peer{{c, a}},
			0,
			[2]transport.Peer{a, c},
			[]string{"c to a: agree.Offer", "a to c: agree.Refusal"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			for _, p := range []transport.Peer{a, b, c} {
				w.add(p, tt.listen[p.Name])
			}
			for _, p := range tt.want {
				w.want(p[0], p[1], 1)
				w.want(p[0], p[1], 1) // changes nothing
			}
			w.settle()
			w.requireOpen(tt.open, tt.between[:]...)
			require.Len(t, w.conns, tt.open)
			require.GreaterOrEqual(t, len(w.log), len(tt.log), "%v", w.log)
			require.Equal(t, tt.log, append([]string(nil), w.log[:len(tt.log)]...))
		})
	}
}

func TestLanesAreApart(t *testing.T) {
	w := newWorld(t)
	a, b := w.add(member("a", 1), true), w.add(member("b", 2), true)
	w.want(a, b, 0)
	w.want(b, a, 1)
	w.want(b, a, 2) // there is none
	w.settle()
	w.requireOpen(2, a, b)
}

// TestOfferTwice: a process that lost its connection sends another offer. The peer then closes the
// old connection.
func TestOfferTwice(t *testing.T) {
	w := newWorld(t)
	a, b := w.add(member("a", 1), true), w.add(member("b", 2), true)
	w.want(a, b, 0)
	w.settle()
	for id := range w.conns {
		w.machines[b.Address].Ended(w.now, id, Broken) // a does not notice
	}
	w.pass(2 * time.Second) // b's back-off
	w.want(b, a, 0)
	w.settle()
	w.requireOpen(1, a, b)
	require.Contains(t, w.log, "a closes: replaced")
}

func TestNonce(t *testing.T) {
	a, b := member("a", 1), member("b", 2)
	offer := func(m *Machine, now time.Time, nonce Nonce) {
		m.Receive(now, a, Offer{Nonce: nonce, Key: keyOf(a)}, Nonce{}, "")
	}
	now := time.Unix(1000, 0)
	nonce, other := Nonce{1}, Nonce{2}
	for _, tt := range []struct {
		name  string
		after time.Duration
		key   Key
		nonce Nonce
		want  bool
	}{
		{"the right one", ExpectFor - 1, keyOf(a), nonce, true},
		{"another nonce", 0, keyOf(a), other, false},
		{"another key", 0, keyOf(b), nonce, false},
		{"too late", ExpectFor, keyOf(a), nonce, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := machine(b, true)
			require.False(t, m.Expects(keyOf(a)))
			offer(m, now, nonce)
			require.True(t, m.Expects(keyOf(a)))
			from, lane, ok, _ := m.Arrived(now.Add(tt.after), tt.key, tt.nonce, 7)
			require.Equal(t, tt.want, ok)
			require.NoError(t, m.Check())
			if !tt.want {
				require.Zero(t, m.Open())
				return
			}
			require.Equal(t, a, from)
			require.Zero(t, lane)
			require.False(t, m.Expects(keyOf(a)), "it is good once")
			_, _, ok, _ = m.Arrived(now.Add(tt.after), tt.key, tt.nonce, 8)
			require.False(t, ok, "replayed")
			require.Equal(t, 1, m.Open())
		})
	}
	t.Run("of another offer", func(t *testing.T) {
		m := machine(b, true)
		offer(m, now, nonce)
		out := m.Receive(now, member("c", 3), Offer{Nonce: nonce, Key: Key{9}}, Nonce{}, "")
		require.IsType(t, Refusal{}, out.Send[0].Message)
		_, _, ok, _ := m.Arrived(now, Key{9}, nonce, 7)
		require.False(t, ok)
	})
	t.Run("a later offer replaces it", func(t *testing.T) {
		m := machine(b, true)
		offer(m, now, nonce)
		offer(m, now, other)
		_, _, ok, _ := m.Arrived(now, keyOf(a), nonce, 7)
		require.False(t, ok)
		_, _, ok, _ = m.Arrived(now, keyOf(a), other, 7)
		require.True(t, ok)
		require.NoError(t, m.Check())
	})
}

func TestAcceptOfAnotherOffer(t *testing.T) {
	a, b := member("a", 1), member("b", 2)
	m, now := machine(a, false), time.Unix(1000, 0)
	m.Want(now, b, 0, Nonce{1})
	accept := Accept{Nonce: Nonce{1}, Key: keyOf(b), Address: "b:1"}
	for name, tt := range map[string]struct {
		from   transport.Peer
		change func(*Accept)
	}{
		"another nonce":   {b, func(a *Accept) { a.Nonce = Nonce{2} }},
		"another lane":    {b, func(a *Accept) { a.Lane = 1 }},
		"another process": {member("c", 3), func(*Accept) {}},
		"no address":      {b, func(a *Accept) { a.Address = "" }},
	} {
		wrong := accept
		tt.change(&wrong)
		require.Empty(t, m.Receive(now, tt.from, wrong, Nonce{}, "").Dial, name)
	}
	require.Len(t, m.Receive(now, b, accept, Nonce{}, "").Dial, 1)
	require.Empty(t, m.Receive(now, b, accept, Nonce{}, "").Dial, "twice")
}

// TestBackOff: each failure doubles the time to the next offer, up to a minute. After a connection
// that stayed open for SteadyFor the time starts again.
func TestBackOff(t *testing.T) {
	a, b := member("a", 1), member("b", 2)
	m, now := machine(a, false), time.Unix(1000, 0)
	next := func() (waited time.Duration) {
		for len(m.Want(now, b, 0, Nonce{1}).Send) == 0 {
			now, waited = now.Add(10*time.Millisecond), waited+10*time.Millisecond
			m.Tick(now)
			require.LessOrEqual(t, waited, MaxBackOff+time.Second)
		}
		return waited
	}
	require.Zero(t, next())
	for i := range 9 {
		m.Receive(now, b, Refusal{Nonce: Nonce{1}, Reason: "no"}, Nonce{}, "")
		most := min(MaxBackOff, MinBackOff<<i)
		waited := next()
		require.LessOrEqual(t, waited, most+10*time.Millisecond, "failure %d", i)
		require.GreaterOrEqual(t, waited, most/2, "failure %d", i)
	}
	out := m.Receive(now, b, Accept{Nonce: Nonce{1}, Key: keyOf(b), Address: "b:1"}, Nonce{}, "")
	ok, _ := m.Dialed(now, out.Dial[0], 7)
	require.True(t, ok)
	now = now.Add(SteadyFor)
	m.Ended(now, 7, Broken)
	require.LessOrEqual(t, next(), MinBackOff)
}

func TestOfferWithoutAnswer(t *testing.T) {
	a, b := member("a", 1), member("b", 2)
	m, now := machine(a, false), time.Unix(1000, 0)
	require.Len(t, m.Want(now, b, 0, Nonce{1}).Send, 1)
	m.Tick(now.Add(OfferFor - 1))
	require.Empty(t, m.Want(now.Add(OfferFor-1), b, 0, Nonce{1}).Send)
	m.Tick(now.Add(OfferFor))
	require.Empty(t, m.Want(now.Add(OfferFor), b, 0, Nonce{1}).Send, "it backs off")
	require.Len(t, m.Want(now.Add(OfferFor+MinBackOff), b, 0, Nonce{1}).Send, 1)
}

// TestRevoked: both ends close the connection HeardFor after one of them has lost the broker, and
// not earlier.
func TestRevoked(t *testing.T) {
	for _, side := range []string{"a", "b"} {
		t.Run(side, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.add(member("a", 1), true), w.add(client("b", 2), false)
			w.want(b, a, 0)
			w.settle()
			used := func(d time.Duration) {
				for end := w.now.Add(d); w.now.Before(end); w.pass(500 * time.Millisecond) {
					for id := range w.conns {
						w.machines[a.Address].Used(w.now, id)
						w.machines[b.Address].Used(w.now, id)
					}
				}
			}
			used(10 * UnusedFor)
			w.requireOpen(1, a, b)
			w.lose = 1
			used(HeardFor - RenewEvery - time.Second)
			w.requireOpen(1, a, b)
			used(RenewEvery + time.Second)
			w.requireOpen(0, a, b)
			require.Contains(t, fmt.Sprint(w.log), "closes: not heard through the broker")
		})
	}
}

func TestUnused(t *testing.T) {
	w := newWorld(t)
	a, b := w.add(member("a", 1), true), w.add(member("b", 2), true)
	w.want(a, b, 0)
	w.settle()
	w.pass(UnusedFor - time.Second)
	w.requireOpen(1, a, b)
	w.pass(time.Second)
	w.requireOpen(0, a, b)
	w.pass(2 * MinBackOff)
	w.want(a, b, 0)
	w.settle()
	w.requireOpen(1, a, b)
	w.do(a, w.machines[a.Address].Gone(b.Address))
	w.requireOpen(0, a, b)
	require.Contains(t, w.log, "a closes: peer removed")
	w.pass(UnusedFor + 2*MaxBackOff)
	require.True(t, w.machines[b.Address].Idle() && w.machines[a.Address].Idle())
}

// TestFlood: offers of many processes of one name use no more than their bound, and other processes
// still get lanes.
func TestFlood(t *testing.T) {
	w := newWorld(t)
	a := w.add(member("a", 1), true)
	m := w.machines[a.Address]
	refused := 0
	for i := range 5 * MaxNamed {
		out := m.Receive(w.now, client("flood", uint64(i+10)), Offer{Nonce: w.nonce(), Key: Key{1}}, Nonce{}, "")
		refused += len(out.Refused)
	}
	require.NoError(t, m.Check())
	require.Equal(t, 4*MaxNamed, refused)
	require.Len(t, m.pairs, MaxNamed)
	out := m.Receive(w.now, client("other", 2), Offer{Nonce: w.nonce(), Key: Key{1}}, Nonce{}, "")
	require.IsType(t, Accept{}, out.Send[0].Message)
	for i := range 10 * MaxLanes {
		m.Receive(w.now, client(fmt.Sprint("flood", i), 1), Offer{Nonce: w.nonce(), Key: Key{1}}, Nonce{}, "")
	}
	require.NoError(t, m.Check())
	require.Len(t, m.pairs, MaxLanes)
	m.Tick(w.now.Add(ExpectFor))
	require.NoError(t, m.Check())
	require.True(t, m.Idle())
}

// TestRandom: whatever is lost, closed, wanted and removed, the invariants hold, and both ends of
// each connection agree once everything has arrived.
func TestRandom(t *testing.T) {
	for seed := range uint64(200) {
		w := newWorld(t)
		w.rng = rand.New(rand.NewPCG(seed, 3))
		all := []transport.Peer{
			w.add(member("a", 1), true), w.add(member("b", 2), true), w.add(member("c", 3), seed%2 == 0),
			w.add(client("d", 4), false),
		}
		w.lose = []float64{0, 0.05, 0.4}[seed%3]
		for range 400 {
			p, o := all[w.rng.IntN(len(all))], all[w.rng.IntN(len(all))]
			switch w.rng.IntN(10) {
			case 0, 1, 2, 3:
				w.want(p, o, w.rng.IntN(2))
			case 4, 5, 6:
				w.deliver()
			case 7:
				w.now = w.now.Add(time.Duration(w.rng.IntN(700)) * time.Millisecond)
				w.do(p, w.machines[p.Address].Tick(w.now))
			case 8:
				for id, c := range w.conns {
					if c.at == p.Address || c.dialer == p.Address {
						w.close(p, id, Reason(w.rng.IntN(int(Reasons))))
						break
					}
				}
			case 9:
				if w.rng.IntN(10) == 0 {
					w.do(p, w.machines[p.Address].Gone(o.Address))
				}
			}
		}
		w.settle()
		ends := map[transport.Address]int{}
		for _, c := range w.conns {
			ends[c.at]++
			ends[c.dialer]++
		}
		for _, p := range all {
			require.Equal(t, ends[p.Address], w.machines[p.Address].Open(), "seed %d, %s: %v", seed, p.Name, w.log)
		}
		w.lose = 0
		w.pass(MaxBackOff + 2*ExpectFor)
		w.want(all[0], all[1], 0)
		w.want(all[3], all[0], 1)
		w.settle()
		require.GreaterOrEqual(t, w.machines[all[0].Address].Open(), 2, "seed %d: it recovers", seed)
	}
}
