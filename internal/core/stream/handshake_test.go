package stream

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// A visit is a client that sends tells to a member over a network that loses, delays and repeats
// frames. The member, and rarely the client, drops its side of the session again and again. Each
// tell has a number. A tell that certainly did not reach the member is sent again on the next
// session.
type visit struct {
	t       *testing.T
	r       *rand.Rand
	now     time.Time
	client  *Session
	member  *Session
	number  uint64         // of the member's latest session
	begun   uint64         // the number of the client's latest session
	handled [2]uint64      // from the client, and from the member
	ran     map[uint64]int // how often each tell did
	unknown map[uint64]bool
	wire    []flight
	calm    bool
}

type flight struct {
	at       time.Time
	toMember bool
	frame    []byte
}

func newVisit(t *testing.T, seed uint64) *visit {
	v := &visit{t: t, r: rand.New(rand.NewPCG(seed, 5)), now: time.Unix(1000, 0), ran: map[uint64]int{}, unknown: map[uint64]bool{}}
	v.client = v.clientPath()
	return v
}

var visitConfig = Config{MaxPayload: 4000, Window: 2000, MaxBuffered: 1 << 20}

func (v *visit) clientPath() *Session {
	v.begun++
	c := visitConfig
	c.Self, c.Session = peerNamed("client"), v.begun
	c.Self.Client = true
	return NewSession(c, peerNamed("member"))
}

func (v *visit) memberPath() *Session {
	if v.member == nil {
		v.number++
		c, client := visitConfig, peerNamed("client")
		client.Client = true
		c.Self, c.Session = peerNamed("member"), v.number
		v.member, v.handled[0] = NewSession(c, client), 0
	}
	return v.member
}

func (v *visit) tell(p *Session, id uint64) {
	if _, err := p.Append(&wire.Envelope{Type: wire.TypeTell, ID: id, Payload: make([]byte, v.r.IntN(300))}); err != nil {
		v.t.Fatal(err)
	}
}

// flush sends what a side has to send.
func (v *visit) flush(p *Session, toMember bool) {
	handled := v.handled[0]
	if toMember {
		handled = v.handled[1]
	}
	for {
		payload, _, ok := p.Take(v.now, handled)
		if !ok {
			return
		}
		times := 1
		if !v.calm {
			times = []int{0, 1, 1, 1, 2}[v.r.IntN(5)]
		}
		for range times {
			at := v.now.Add(time.Duration(v.r.IntN(5)) * time.Millisecond)
			if !v.calm && v.r.IntN(5) == 0 {
				at = v.now.Add(time.Duration(v.r.IntN(2000)) * time.Millisecond)
			}
			v.wire = append(v.wire, flight{at, toMember, bytes.Clone(payload)})
		}
	}
}

// arrive handles a frame, as the driver does.
func (v *visit) arrive(f flight) {
	h, rest, err := new(wire.FrameReader).Header(f.frame)
	if err != nil {
		v.t.Fatal(err)
	}
	p, handled := v.client, &v.handled[1]
	if f.toMember {
		p, handled = v.memberPath(), &v.handled[0]
	}
	skip, ok := p.Receive(&h, v.now)
	if !ok && p.Dropped() {
		if f.toMember {
			v.member = nil
			p = v.memberPath()
		} else {
			p = v.beginAnew()
		}
		skip, ok = p.Receive(&h, v.now)
	}
	if !ok {
		return
	}
	var e wire.Envelope
	for seq := h.Seq; seq < h.Seq+uint64(h.Count); seq++ {
		if rest, _, err = wire.NextEnvelope(rest, &e); err != nil {
			v.t.Fatal(err)
		}
		if skip > 0 {
			skip--
			continue
		}
		*handled = seq
		if f.toMember {
			v.ran[e.ID]++
		}
	}
	p.Ack(&h, v.now)
}

func (v *visit) beginAnew() *Session {
	old := v.client
	v.client, v.handled[1] = v.clientPath(), 0
	for _, l := range old.TakeUnacknowledged(false) {
		if l.NotExecuted {
			v.tell(v.client, l.Envelope.ID)
		} else {
			v.unknown[l.Envelope.ID] = true
		}
	}
	return v.client
}

func (v *visit) step() {
	v.now = v.now.Add(time.Millisecond)
	v.client.Tick(v.now)
	if v.member != nil {
		v.member.Tick(v.now)
		v.flush(v.member, false)
	}
	v.flush(v.client, true)
	kept := v.wire[:0:0]
	for _, f := range v.wire {
		if f.at.After(v.now) {
			kept = append(kept, f)
		} else {
			v.arrive(f)
		}
	}
	v.wire = kept
}

// TestDroppedPathRunsNothingTwice: a member that has dropped its session with a client handles no
// frame of it any more. What the client counts as not executed was not executed.
func TestDroppedPathRunsNothingTwice(t *testing.T) {
	unknown, drops := 0, 0
	for seed := range uint64(300) {
		v := newVisit(t, seed)
		const tells = 60
		for id := uint64(1); id <= tells; id++ {
			v.tell(v.client, id)
			for range v.r.IntN(40) {
				v.step()
			}
			if v.r.IntN(10) == 0 && v.member != nil {
				v.member = nil
				drops++
			}
			if v.r.IntN(20) == 0 { // it parts, and comes back at once
				v.beginAnew()
			}
		}
		v.calm = true
		for range 5000 {
			v.step()
		}
		for id := uint64(1); id <= tells; id++ {
			if v.ran[id] > 1 || v.ran[id] == 0 && !v.unknown[id] {
				t.Fatalf("seed %d: tell %d ran %d times, unknown %v", seed, id, v.ran[id], v.unknown[id])
			}
		}
		unknown += len(v.unknown)
	}
	t.Logf("%d drops, %d of %d tells unknown", drops, unknown, 300*60)
	if drops < 100 || unknown == 0 {
		t.Error("too few drops: the test shows nothing")
	}
}

// TestClientSaysHelloFirst: a client asks for the session's number with an empty frame, repeatedly
// until it has it, and sends nothing else before.
func TestClientSaysHelloFirst(t *testing.T) {
	v := newVisit(t, 1)
	v.calm = true
	v.tell(v.client, 1)
	var fr wire.FrameReader
	for range 3 {
		payload, token, ok := v.client.Take(v.now, 0)
		h, _, err := fr.Header(payload)
		if !ok || err != nil || token != 0 || h.Count != 0 || h.Session != 0 || h.Hello != 1 {
			t.Fatalf("got %+v, token %d, %v, %v; want an empty frame", h, token, ok, err)
		}
		if _, _, ok := v.client.Take(v.now, 0); ok {
			t.Fatal("a second frame at once")
		}
		if wake := v.client.Tick(v.now); !wake.Equal(v.now.Add(RetryAfter)) {
			t.Fatalf("wakes at %v, want %v", wake, v.now.Add(RetryAfter))
		}
		v.now = v.now.Add(RetryAfter)
	}
	if !v.client.Void(1) {
		t.Error("the tell was not sent, and cannot be taken back")
	}
	for range 300 {
		v.step()
	}
	if v.client.Acked() != 1 {
		t.Errorf("acknowledged %d, want 1", v.client.Acked())
	}
}

// TestLateHelloDropsNothing: a late or repeated question for the number changes nothing on a
// session that is in use, whether it is this session's question or an earlier one's. A newer
// question shows that the client has dropped the session.
func TestLateHelloDropsNothing(t *testing.T) {
	v := newVisit(t, 1)
	v.calm = true
	v.beginAnew() // as the second of the client's sessions
	v.tell(v.client, 1)
	for range 300 {
		v.step()
	}
	for hello := range uint64(3) {
		h := wire.FrameHeader{Version: 1, From: v.client.cfg.Self, Seq: 1, Hello: hello}
		if _, ok := v.member.Receive(&h, v.now); ok || v.member.Dropped() {
			t.Errorf("hello %d: handled %v, dropped %v; want neither", hello, ok, v.member.Dropped())
		}
	}
	v.tell(v.client, 2)
	for range 300 {
		v.step()
	}
	if v.ran[2] != 1 || v.number != 1 {
		t.Errorf("ran %d times on session %d, want once on the first", v.ran[2], v.number)
	}
	h := wire.FrameHeader{Version: 1, From: v.client.cfg.Self, Seq: 1, Hello: 3}
	if _, ok := v.member.Receive(&h, v.now); ok || !v.member.Dropped() {
		t.Error("a newer hello does not show that the client has dropped the session")
	}
}

// TestLateAnswerIsNotAdopted: a client does not adopt the number of an earlier session.
func TestLateAnswerIsNotAdopted(t *testing.T) {
	v := newVisit(t, 1)
	v.calm = true
	old := v.client
	v.beginAnew()
	h := wire.FrameHeader{Version: 1, From: old.Peer(), Seq: 1, Session: 7, Hello: 1}
	if _, ok := v.client.Receive(&h, v.now); ok {
		t.Error("the answer to the session before was taken")
	}
	h.Hello = 2
	if _, ok := v.client.Receive(&h, v.now); !ok {
		t.Error("the answer was not taken")
	}
}

// TestFrameWithoutNumberIsForeign: a frame without a number belongs to no session of a client,
// before and after the client knows its session's number.
func TestFrameWithoutNumberIsForeign(t *testing.T) {
	v := newVisit(t, 1)
	foreign := wire.FrameHeader{Version: 1, From: v.client.Peer(), Seq: 1}
	answer := wire.FrameHeader{Version: 1, From: v.client.Peer(), Seq: 1, Session: 7, Hello: 1}
	if _, ok := v.client.Receive(&foreign, v.now); ok {
		t.Error("it was taken before the number was known")
	}
	if _, ok := v.client.Receive(&answer, v.now); !ok {
		t.Error("the answer was not taken")
	}
	if _, ok := v.client.Receive(&foreign, v.now); ok || v.client.Dropped() {
		t.Errorf("taken %v, dropped %v behind the number; want neither", ok, v.client.Dropped())
	}
}
