package stream

import (
	"bytes"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// A pair is two processes that exchange envelopes over a broker, in virtual time. Connections break
// and come back, and messages under way are lost, late or doubled. A process may stop listening for
// a while, and a bounce may come twice. Rarely a message is lost alone, or sent together with the
// one before. Everything follows from the seed.
type pair struct {
	r     *rand.Rand
	now   time.Time
	queue events
	order int
	calm  bool // no more faults
	ends  [2]*end
	err   error
}

// An end is one of the two processes: a driver of its session, and a lane that handles frames one
// after another.
type end struct {
	p         *pair
	other     *end
	name      string
	session   *Session
	connected bool
	listening bool
	dead      bool
	life      int       // of the connection
	arrives   time.Time // of the latest message to the other end: one connection keeps order
	before    []byte    // the latest frame that came to the other end
	lease     []byte    // the payload that is being published
	copy      []byte    // and what it must still hold
	writing   bool

	inbox   [][]byte
	busy    bool
	handled uint64

	sent    []sent          // by sequence
	ran     []uint64        // sequences of the other end that were handled here
	refused map[uint64]bool // that refused the other end's
	heard   map[uint64]bool // own sequences of which a refusal came
	voided  map[uint64]bool
	saidBye bool
}

type sent struct {
	kind wire.Type
	id   uint64
	size int
}

type event struct {
	at    time.Time
	order int
	do    func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].order < q[j].order
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func newPair(seed uint64) *pair {
	p := &pair{r: rand.New(rand.NewPCG(seed, 11)), now: time.Unix(1000, 0)}
	payload := 1200 + p.r.IntN(6000)
	cfg := Config{MaxPayload: payload, Window: 800 + p.r.IntN(8000), MaxBuffered: 5000 + p.r.IntN(60000)}
	for i, name := range []string{"a", "b"} {
		p.ends[i] = &end{
			p: p, name: name, connected: true, listening: true,
			refused: map[uint64]bool{}, heard: map[uint64]bool{}, voided: map[uint64]bool{},
		}
	}
	for i, e := range p.ends {
		e.other = p.ends[1-i]
		cfg.Self = peerNamed(e.name)
		e.session = NewSession(cfg, peerNamed(e.other.name))
	}
	return p
}

func peerNamed(name string) transport.Peer {
	return transport.Peer{Address: transport.Address{Name: name, Incarnation: 1}}
}

func (p *pair) after(d time.Duration, do func()) {
	p.order++
	heap.Push(&p.queue, event{p.now.Add(d), p.order, do})
}

func (p *pair) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// upTo returns a random time of at most d.
func (p *pair) upTo(d time.Duration) time.Duration { return time.Duration(p.r.Int64N(int64(d) + 1)) }

// run lets time pass until the given time, or until nothing is left to happen.
func (p *pair) run(until time.Time) {
	for p.err == nil && len(p.queue) > 0 && !p.queue[0].at.After(until) {
		e := heap.Pop(&p.queue).(event)
		p.now = e.at
		e.do()
		for _, end := range p.ends {
			if err := end.session.Check(); err != nil {
				p.fail("%v", err)
			}
		}
	}
	p.now = until
}

// add appends a random envelope.
func (e *end) add() {
	s := sent{kind: wire.TypeCall, id: uint64(len(e.sent) + 1), size: e.p.r.IntN(400)}
	switch e.p.r.IntN(4) {
	case 0:
		s.kind = wire.TypeTell
	case 1:
		s.kind = wire.TypeAnswer
	}
	e.append(&wire.Envelope{Type: s.kind, ID: s.id, Entity: []byte("e"), Payload: fill(s)}, s)
}

func fill(s sent) []byte { return bytes.Repeat([]byte{byte(s.id)}, s.size) }

func (e *end) append(env *wire.Envelope, s sent) {
	seq, err := e.session.Append(env)
	if err != nil {
		if full := e.session.held > e.session.cfg.MaxBuffered; !full {
			e.p.fail("%s: Append: %v", e.name, err)
		}
		return
	}
	e.sent = append(e.sent, s)
	if seq != uint64(len(e.sent)) || seq != e.session.Next()-1 {
		e.p.fail("%s: got sequence %d, want %d", e.name, seq, len(e.sent))
	}
	e.flush()
}

// flush publishes frames as a driver does: one writer at a time takes frames until none is left.
func (e *end) flush() {
	if e.writing || e.dead {
		return
	}
	before := e.session.unacked
	payload, token, ok := e.session.Take(e.p.now, e.handled)
	if !ok {
		if wake := e.session.Tick(e.p.now); !wake.IsZero() {
			e.p.after(max(wake.Sub(e.p.now), time.Millisecond), e.tick)
		}
		return
	}
	if token != 0 && before >= e.session.window {
		e.p.fail("%s: sent with %d bytes under way, the window is %d", e.name, before, e.session.window)
	}
	if len(payload) > e.session.maxPayload {
		e.p.fail("%s: frame of %d bytes, at most %d", e.name, len(payload), e.session.maxPayload)
	}
	e.writing, e.lease, e.copy = true, payload, bytes.Clone(payload)
	e.p.after(e.p.upTo(2*time.Millisecond), func() { e.publish(token) })
}

func (e *end) tick() {
	if !e.dead {
		e.session.Tick(e.p.now)
		e.flush()
	}
}

func (e *end) publish(token uint64) {
	if !bytes.Equal(e.lease, e.copy) {
		e.p.fail("%s: the payload changed while it was being published", e.name)
	}
	e.writing = false
	if e.dead {
		return
	}
	if !e.connected {
		e.session.Unsent(token, e.p.now)
		return
	}
	e.transmit(token, e.copy)
	e.flush()
}

// transmit brings a payload to the other end, in order while both connections hold.
func (e *end) transmit(token uint64, payload []byte) {
	p, o := e.p, e.other
	var r wire.FrameReader
	if h, _, err := r.Header(payload); err != nil || h.Count > 1 && len(payload) > FrameBytes {
		p.fail("%s: a frame of %d bytes has %d envelopes: %v", e.name, len(payload), h.Count, err)
	}
	at := p.now.Add(p.upTo(5 * time.Millisecond))
	if at.Before(e.arrives) {
		at = e.arrives
	}
	e.arrives = at
	if !p.calm && p.r.IntN(200) == 0 {
		return // lost alone
	}
	mine, theirs := e.life, o.life
	p.after(at.Sub(p.now), func() {
		switch {
		case o.dead || !o.listening:
			bounce := func() {
				if e.connected && e.life == mine {
					e.session.Bounced(token, p.now)
					e.flush()
				}
			}
			bounce()
			if !p.calm && p.r.IntN(4) == 0 {
				p.after(p.upTo(2*RetryAfter), bounce)
			}
		case e.life == mine && o.life == theirs:
			if whole := overlap(e.before, payload); whole != nil && !p.calm && p.r.IntN(10) == 0 {
				o.arrive(whole)
			} else {
				o.arrive(payload)
			}
			e.before = payload
			if !p.calm && p.r.IntN(100) == 0 { // comes twice
				p.after(p.upTo(300*time.Millisecond), func() { o.arrive(payload) })
			}
		case p.r.IntN(2) == 0: // a connection broke meanwhile: late, or never
			p.after(p.upTo(300*time.Millisecond), func() { o.arrive(payload) })
		}
	})
}

// overlap returns a frame with the envelopes of two frames, or nil unless the second follows the
// first without a gap.
func overlap(first, second []byte) []byte {
	var fr wire.FrameReader
	a, before, err := fr.Header(first)
	if err != nil {
		return nil
	}
	h, rest, err := fr.Header(second)
	if err != nil || a.Count == 0 || h.Count == 0 || a.Seq+uint64(a.Count) != h.Seq {
		return nil
	}
	h.Seq, h.Count = a.Seq, a.Count+h.Count
	return slices.Concat(wire.AppendFrameHeader(nil, &h), before, rest)
}

func (e *end) arrive(payload []byte) {
	if e.dead || !e.connected || !e.listening {
		return
	}
	e.inbox = append(e.inbox, payload)
	e.work()
}

// work handles the frames that came, one after another.
func (e *end) work() {
	for !e.busy && !e.dead && len(e.inbox) > 0 {
		payload := e.inbox[0]
		e.inbox = e.inbox[1:]
		var fr wire.FrameReader
		h, rest, err := fr.Header(payload)
		if err != nil {
			e.p.fail("%v", err)
			return
		}
		skip, ok := e.session.Receive(&h, e.p.now)
		if !ok {
			e.flush()
			continue
		}
		e.frame(h, rest, h.Seq, skip, len(payload))
	}
}

// frame handles the envelopes of a frame from seq on; some take a while.
func (e *end) frame(h wire.FrameHeader, rest []byte, seq uint64, skip uint32, size int) {
	if e.dead {
		return
	}
	e.busy = false
	for ; seq < h.Seq+uint64(h.Count); seq++ {
		var env wire.Envelope
		var ok bool
		var err error
		if rest, ok, err = wire.NextEnvelope(rest, &env); err != nil || !ok {
			e.p.fail("%s: envelope %d: %v, %v", e.name, seq, ok, err)
			return
		}
		if skip > 0 {
			skip--
			continue
		}
		e.handle(&env, seq)
		if e.p.r.IntN(30) == 0 {
			e.busy = true
			next := seq + 1
			e.p.after(e.p.upTo(60*time.Millisecond), func() { e.frame(h, rest, next, 0, size); e.work() })
			return
		}
	}
	e.session.Ack(&h, e.p.now)
	e.session.AckOwed(e.handled, size)
	if h.Flags&wire.FlagBye != 0 {
		e.goodbye(true)
		return
	}
	e.flush()
}

// handle handles an envelope as a process does, and checks that it is the next one of the other
// end.
func (e *end) handle(env *wire.Envelope, seq uint64) {
	want := e.other.sent[seq-1]
	if n := uint64(len(e.ran)); seq != n+1 {
		e.p.fail("%s: handled %d after %d", e.name, seq, n)
	}
	e.ran = append(e.ran, seq)
	switch {
	case env.Type == 0:
		if !e.other.voided[seq] {
			e.p.fail("%s: %d is void, and nobody took it back", e.name, seq)
		}
	case e.other.voided[seq]:
		e.p.fail("%s: handled %d, which was taken back", e.name, seq)
	case env.Type != want.kind || env.ID != want.id || !bytes.Equal(env.Payload, fill(want)):
		e.p.fail("%s: envelope %d is %+v, want %+v", e.name, seq, env, want)
	case env.Type == wire.TypeRefusal:
		got, ok := e.session.Find(env.Seq)
		if !ok || env.Seq <= e.session.Acked() || got.ID != e.sent[env.Seq-1].id {
			e.p.fail("%s: refusal of %d came when it was given up (acknowledged %d)", e.name, env.Seq, e.session.Acked())
		}
		e.heard[env.Seq] = true
	case env.Type == wire.TypeCall && e.p.r.IntN(6) == 0: // refused before it counts as handled
		e.refused[seq] = true
		e.append(&wire.Envelope{Type: wire.TypeRefusal, Seq: seq, Code: wire.CodeMoved}, sent{kind: wire.TypeRefusal})
	}
	e.handled = seq
}

// breakConnection breaks an end's connection, which comes back after d.
func (e *end) breakConnection(d time.Duration) {
	if !e.connected || e.dead {
		return
	}
	e.connected = false
	e.life++
	e.arrives, e.other.arrives = time.Time{}, time.Time{}
	e.p.after(d, func() {
		e.connected = true
		e.session.Rewind()
		e.flush()
	})
}

// takeBack tries to take a random envelope back.
func (e *end) takeBack() {
	n := uint64(len(e.sent))
	if n == 0 || e.dead {
		return
	}
	seq := n - e.p.r.Uint64N(min(n, 20))
	if e.sent[seq-1].kind != wire.TypeRefusal && e.session.Void(seq) {
		e.voided[seq] = true
		if slices.Contains(e.other.ran, seq) {
			e.p.fail("%s: took %d back, which had been handled", e.name, seq)
		}
	}
}

// goodbye ends the session because the other end has departed.
func (e *end) goodbye(bye bool) {
	acked := e.session.Acked()
	left := e.session.TakeUnacknowledged(bye)
	if len(left) != len(e.sent)-int(acked) {
		e.p.fail("%s: %d left over, want all of %d beyond %d", e.name, len(left), len(e.sent), acked)
	}
	for i, l := range left {
		if l.Seq != acked+1+uint64(i) {
			e.p.fail("%s: left over %d, want %d", e.name, l.Seq, acked+1+uint64(i))
		}
		handled := slices.Contains(e.other.ran, l.Seq)
		if l.NotExecuted && handled {
			e.p.fail("%s: %d counts as not executed and was handled", e.name, l.Seq)
		}
		if bye && !l.NotExecuted && !handled {
			e.p.fail("%s: after a goodbye %d counts as unknown and was not handled", e.name, l.Seq)
		}
		if want := e.sent[l.Seq-1]; !e.voided[l.Seq] && (l.Envelope.ID != want.id || l.Envelope.Type != want.kind) {
			e.p.fail("%s: left over %d is %+v, want %+v", e.name, l.Seq, l.Envelope, want)
		}
	}
	e.dead = true
}

// faults makes trouble for a while.
func (p *pair) faults(until time.Duration) {
	for t := time.Duration(0); t < until; t += p.upTo(400 * time.Millisecond) {
		e := p.ends[p.r.IntN(2)]
		kind := p.r.IntN(4)
		d := p.upTo(500 * time.Millisecond)
		p.after(t, func() {
			switch kind {
			case 0, 1:
				e.breakConnection(d)
			case 2:
				e.listening = false
				p.after(d, func() { e.listening = true })
			case 3:
				e.takeBack()
			}
		})
	}
}

func (p *pair) traffic(until time.Duration) {
	burst := 1 + p.r.IntN(40)
	for _, e := range p.ends {
		for t := p.upTo(50 * time.Millisecond); t < until; t += p.upTo(60 * time.Millisecond) {
			for range 1 + p.r.IntN(burst) {
				p.after(t, func() {
					if !e.dead && !e.saidBye {
						e.add()
					}
				})
			}
			if p.r.IntN(4) == 0 {
				p.after(t, e.takeBack)
			}
		}
	}
}
