package stream

import (
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/wire"
)

// seedFactor returns SHARDGEN_SEEDS, by which tests with random faults run longer.
func seedFactor(t *testing.T) int {
	s := os.Getenv("SHARDGEN_SEEDS")
	if s == "" {
		return 1
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("SHARDGEN_SEEDS=%q: want a number from 1", s)
	}
	return n
}

// eachSeed runs f for many seeds and names the first that fails.
func eachSeed(t *testing.T, n int, f func(p *pair)) {
	t.Helper()
	for seed := range uint64(n * seedFactor(t)) {
		p := newPair(seed)
		f(p)
		if p.err != nil {
			t.Fatalf("seed %d, at %v: %v", seed, p.now.Sub(time.Unix(1000, 0)), p.err)
		}
	}
}

// TestExactlyOnceInOrder: whatever faults occur, both ends handle each other's envelopes once and
// in order. When the faults end, everything is acknowledged.
func TestExactlyOnceInOrder(t *testing.T) {
	eachSeed(t, 100, func(p *pair) {
		p.faults(2 * time.Second)
		p.traffic(2 * time.Second)
		p.run(p.now.Add(3 * time.Second))
		p.calm = true
		p.run(p.now.Add(10 * time.Second))
		for _, e := range p.ends {
			if len(e.other.ran) != len(e.sent) || e.session.Acked() != uint64(len(e.sent)) || e.session.held != 0 {
				p.fail("%s sent %d; %d were handled, %d acknowledged, %d bytes are held",
					e.name, len(e.sent), len(e.other.ran), e.session.Acked(), e.session.held)
			}
			for seq := range e.refused {
				if !e.other.heard[seq] {
					p.fail("%s: the refusal of %d never came", e.other.name, seq)
				}
			}
		}
	})
}

// TestCrashUnacknowledged: when one end dies, envelopes that the other end counts as not executed
// were not handled.
func TestCrashUnacknowledged(t *testing.T) {
	eachSeed(t, 60, func(p *pair) {
		p.faults(time.Second)
		p.traffic(time.Second)
		a, b := p.ends[0], p.ends[1]
		p.run(p.now.Add(p.upTo(time.Second)))
		b.dead = true
		p.run(p.now.Add(p.upTo(time.Second)))
		if p.err == nil {
			a.goodbye(false)
		}
	})
}

// TestByeUnacknowledged: after a goodbye it is certain which envelopes were not handled.
func TestByeUnacknowledged(t *testing.T) {
	certain := 0
	eachSeed(t, 60, func(p *pair) {
		p.faults(time.Second)
		p.traffic(time.Second)
		a, b := p.ends[0], p.ends[1]
		p.run(p.now.Add(p.upTo(1200 * time.Millisecond)))
		for p.err == nil && (b.busy || b.writing || !b.connected) {
			p.run(p.now.Add(time.Millisecond))
		}
		if p.err != nil {
			return
		}
		b.inbox, b.busy = nil, true // handles nothing more
		b.transmit(0, b.session.Bye(b.handled))
		b.saidBye, b.dead = true, true
		p.run(p.now.Add(time.Second))
		if a.dead {
			certain++
		} else if p.err == nil { // the goodbye was lost
			a.goodbye(false)
		}
	})
	if certain == 0 {
		t.Error("no goodbye arrived in any run: the test shows nothing")
	}
}

// TestAcknowledgementAfterLongTurn: if an acknowledgement was sent before all of a frame was
// handled, a second one follows by itself.
func TestAcknowledgementAfterLongTurn(t *testing.T) {
	p := NewSession(Config{Self: peerNamed("a"), MaxPayload: 2000, Window: 1000, MaxBuffered: 3000}, peerNamed("b"))
	now := time.Unix(1000, 0)
	h := &wire.FrameHeader{Seq: 1, Count: 3}
	p.Receive(h, now)
	now = now.Add(AckDelay)
	if _, _, ok := p.Take(now, 1); !ok {
		t.Fatal("no acknowledgement of the first envelope")
	}
	p.Ack(h, now)
	if wake := p.Tick(now); !wake.Equal(now.Add(AckDelay)) {
		t.Errorf("wakes at %v, want %v", wake, now.Add(AckDelay))
	}
	payload, _, ok := p.Take(now.Add(AckDelay), 3)
	if got, _, err := new(wire.FrameReader).Header(payload); !ok || err != nil || got.Ack != 3 {
		t.Errorf("acknowledged %d, %v, %v, want 3", got.Ack, ok, err)
	}
}

// TestAcknowledgementWaitsOnce: frames in quick succession do not delay the acknowledgement of the
// first one.
func TestAcknowledgementWaitsOnce(t *testing.T) {
	p := NewSession(Config{Self: peerNamed("a"), MaxPayload: 2000, Window: 1000, MaxBuffered: 3000}, peerNamed("b"))
	begin := time.Unix(1000, 0)
	for i := range 4 {
		now := begin.Add(time.Duration(i) * AckDelay / 4)
		h := &wire.FrameHeader{Seq: uint64(1 + i), Count: 1}
		if _, ok := p.Receive(h, now); !ok {
			t.Fatalf("frame %d was not taken", i+1)
		}
		p.Ack(h, now)
		if wake := p.Tick(now); !wake.Equal(begin.Add(AckDelay)) {
			t.Errorf("after frame %d it wakes %v after the first, want %v", i+1, wake.Sub(begin), AckDelay)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	p := NewSession(Config{Self: peerNamed("a"), MaxPayload: 2000, Window: 1000, MaxBuffered: 3000}, peerNamed("b"))
	if _, err := p.Append(&wire.Envelope{Type: wire.TypeCall, Payload: make([]byte, 1900)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
	for range 10 {
		_, _ = p.Append(&wire.Envelope{Type: wire.TypeTell, Payload: make([]byte, 500)})
	}
	if _, err := p.Append(&wire.Envelope{Type: wire.TypeCall}); !errors.Is(err, ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	if _, err := p.Append(&wire.Envelope{Type: wire.TypeAnswer}); err != nil {
		t.Errorf("an answer: got %v, want none, for calls bound answers", err)
	}
}

// TestVoidAfterBounce: a call to a process that nobody hears can be taken back for certain, once
// its frame is not being published any more.
func TestVoidAfterBounce(t *testing.T) {
	p := NewSession(Config{Self: peerNamed("a"), MaxPayload: 2000, Window: 1000, MaxBuffered: 3000}, peerNamed("b"))
	now := time.Unix(1000, 0)
	seq, err := p.Append(&wire.Envelope{Type: wire.TypeCall, ID: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ := p.Take(now, 0)
	p.Bounced(token, now)
	if p.Void(seq) {
		t.Error("taken back while it was being published")
	}
	if _, _, ok := p.Take(now, 0); ok {
		t.Error("sent again at once: the peer is absent")
	}
	if !p.Void(seq) {
		t.Error("not taken back, and it bounced each time")
	}
	if left := p.TakeUnacknowledged(false); len(left) != 1 || !left[0].NotExecuted || left[0].Envelope.Type != 0 {
		t.Errorf("got %+v, want one void envelope", left)
	}
}

// TestLateAcknowledgement: a frame that is acknowledged when it is about to be sent again must not
// block the session.
func TestLateAcknowledgement(t *testing.T) {
	p := NewSession(Config{Self: peerNamed("a"), MaxPayload: 2000, Window: 1000, MaxBuffered: 3000}, peerNamed("b"))
	now := time.Unix(1000, 0)
	if _, err := p.Append(&wire.Envelope{Type: wire.TypeTell}); err != nil {
		t.Fatal(err)
	}
	p.Take(now, 0)
	p.Rewind() // the connection was lost and is back
	if !p.Ack(&wire.FrameHeader{Seq: 1, Ack: 1}, now) {
		t.Error("no progress")
	}
	if _, err := p.Append(&wire.Envelope{Type: wire.TypeTell}); err != nil {
		t.Fatal(err)
	}
	payload, _, ok := p.Take(now, 0)
	h, _, err := new(wire.FrameReader).Header(payload)
	if !ok || err != nil || h.Seq != 2 {
		t.Errorf("took sequence %d, %v, %v, want 2", h.Seq, ok, err)
	}
	if wake := p.Tick(now); !wake.Equal(now.Add(RetryAfter)) {
		t.Errorf("wakes at %v, want %v", wake, now.Add(RetryAfter))
	}
}

// TestAcknowledgementWithoutNews: frames that acknowledge nothing new, or numbers that were not
// sent, do not delay the repetition of unacknowledged frames.
func TestAcknowledgementWithoutNews(t *testing.T) {
	p := NewSession(Config{Self: peerNamed("a"), MaxPayload: 2000, Window: 1000, MaxBuffered: 3000}, peerNamed("b"))
	now := time.Unix(1000, 0)
	for range 2 {
		if _, err := p.Append(&wire.Envelope{Type: wire.TypeTell}); err != nil {
			t.Fatal(err)
		}
		p.Take(now, 0)
	}
	if !p.Ack(&wire.FrameHeader{Ack: 1}, now) {
		t.Error("no progress by the first acknowledgement")
	}
	later := now.Add(RetryAfter / 2)
	for _, h := range []wire.FrameHeader{{Ack: 1}, {}, {Handled: 1}, {Ack: 3}, {Ack: 1, Handled: 3}} {
		if p.Ack(&h, later) {
			t.Errorf("progress by %+v", h)
		}
		if wake := p.Tick(later); !wake.Equal(now.Add(RetryAfter)) {
			t.Errorf("after %+v: wakes at %v, want %v", h, wake, now.Add(RetryAfter))
		}
	}
	if !p.Ack(&wire.FrameHeader{Ack: 2}, later) {
		t.Error("no progress by the second acknowledgement")
	}
}

// TestSteadyPathDoesNotAllocate: one call and its answer allocate nothing.
func TestSteadyPathDoesNotAllocate(t *testing.T) {
	cfg := Config{Self: peerNamed("a"), MaxPayload: 1 << 20, Window: 1 << 20, MaxBuffered: 1 << 23}
	a := NewSession(cfg, peerNamed("b"))
	cfg.Self = peerNamed("b")
	b := NewSession(cfg, peerNamed("a"))
	now := time.Unix(1000, 0)
	var fr wire.FrameReader
	var h wire.FrameHeader
	var e wire.Envelope
	call := wire.Envelope{Type: wire.TypeCall, ID: 1, Kind: []byte("Cart"), Entity: []byte("17"), Payload: make([]byte, 64)}
	send := func(from, to *Session) {
		if _, err := from.Append(&call); err != nil {
			t.Error(err)
		}
		payload, _, _ := from.Take(now, from.Received())
		var rest []byte
		var err error
		if h, rest, err = fr.Header(payload); err != nil {
			t.Error(err)
		}
		if _, ok := to.Receive(&h, now); !ok {
			t.Error("ignored")
		}
		if _, ok, err := wire.NextEnvelope(rest, &e); !ok || err != nil {
			t.Error(ok, err)
		}
		to.Ack(&h, now)
		from.Take(now, from.Received())
	}
	n := testing.AllocsPerRun(200, func() {
		send(a, b)
		fr = wire.FrameReader{}
		send(b, a)
		fr = wire.FrameReader{}
	})
	if n > 2 { // the two names, which a lane's own reader keeps
		t.Errorf("%v allocations, want at most 2", n)
	}
}

// TestUnreached: a peer may know the session as long as one frame may have reached it.
func TestUnreached(t *testing.T) {
	now := time.Unix(0, 0)
	p := NewSession(Config{MaxPayload: 1 << 20, Window: 1 << 20, MaxBuffered: 1 << 20}, peerNamed("b"))
	check := func(what string, want bool) {
		t.Helper()
		if got := p.Unreached(); got != want {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	check("new", true)
	if _, err := p.Append(&wire.Envelope{Type: wire.TypeCall, ID: 1}); err != nil {
		t.Fatal(err)
	}
	check("appended", true)
	_, token, _ := p.Take(now, 0)
	check("published", false)
	p.Bounced(token, now)
	check("bounced", true)
	now = now.Add(RetryAfter)
	p.Tick(now)
	p.Take(now, 0)
	check("published again", false)
	p.Ack(&wire.FrameHeader{Handled: 1}, now)
	check("handled", false)
}

// TestAwaitsBounce: only the bounce of a frame's latest sending can yet show that the frame
// never arrived, and only if all sendings before have bounced.
func TestAwaitsBounce(t *testing.T) {
	now := time.Unix(0, 0)
	p := NewSession(Config{MaxPayload: 1 << 20, Window: 1 << 20, MaxBuffered: 1 << 20}, peerNamed("b"))
	check := func(what string, want bool) {
		t.Helper()
		if got := p.AwaitsBounce(); got != want {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	send := func() (token uint64) {
		now = now.Add(RetryAfter)
		p.Tick(now)
		_, token, _ = p.Take(now, 0)
		return token
	}
	check("new", false)
	if _, err := p.Append(&wire.Envelope{Type: wire.TypeCall, ID: 1}); err != nil {
		t.Fatal(err)
	}
	check("appended", false)
	first := send()
	check("published", true)
	p.Bounced(first, now)
	check("bounced", false)
	second := send()
	check("published again", true)
	third := send()
	check("published again before the bounce", false)
	p.Bounced(third, now)
	p.Bounced(second, now)
	check("two of three bounces count", false)
	if _, err := p.Append(&wire.Envelope{Type: wire.TypeCall, ID: 2}); err != nil {
		t.Fatal(err)
	}
	p.Ack(&wire.FrameHeader{Handled: 1}, now)
	check("handled", false)
	send()
	check("the next frame published", true)
	p.Ack(&wire.FrameHeader{Handled: 2}, now)
	check("the next frame handled", false)
}

// TestFrameBuffers: a new frame has at once as much room as the frame before used.
func TestFrameBuffers(t *testing.T) {
	p := NewSession(Config{Self: peerNamed("a"), MaxPayload: 4 << 20, Window: 8 << 20, MaxBuffered: 8 << 20}, peerNamed("b"))
	take := func() { p.Take(time.Unix(1, 0), 0) }
	room := func(what string, payload, want int) {
		t.Helper()
		if _, err := p.Append(&wire.Envelope{Type: wire.TypeTell, Payload: make([]byte, payload)}); err != nil {
			t.Fatal(err)
		}
		if got := cap(p.list[len(p.list)-1].buf); got != want {
			t.Errorf("%s: room for %d bytes, want %d", what, got, want)
		}
	}
	room("the first frame", 10, 2<<10)
	take()
	room("a large one", 60<<10, 64<<10)
	room("one behind a full one that was not handed out", 10<<10, 64<<10)
	take()
	take()
	room("one behind a smaller one", 10, 24<<10)
	take()
	room("one behind a small one", 10, 2<<10)
	room("what is appended to it", 1<<10, 2<<10)
	take()
}

// TestPartlyKnownFrame: if a frame overlaps received ones, because the peer divides repeated
// envelopes into other frames, only the rest is handled.
func TestPartlyKnownFrame(t *testing.T) {
	p := NewSession(Config{Self: peerNamed("a"), MaxPayload: 2000, Window: 1000, MaxBuffered: 3000}, peerNamed("b"))
	for _, step := range []struct {
		name     string
		seq      uint64
		count    uint32
		skip     uint32
		ok       bool
		received uint64
	}{
		{"the first three", 1, 3, 0, true, 3},
		{"two of them and two more", 2, 4, 2, true, 5},
		{"all of them and one more", 1, 6, 5, true, 6},
		{"the last two", 5, 2, 2, true, 6},
		{"behind a gap", 8, 2, 0, false, 6},
		{"the gap and what is behind it", 7, 3, 0, true, 9},
		{"no envelope", 10, 0, 0, true, 9},
		{"no sequence", 0, 11, 0, false, 9},
		{"sequences that wrap", 1<<64 - 5, 15, 0, false, 9},
	} {
		skip, ok := p.Receive(&wire.FrameHeader{Seq: step.seq, Count: step.count}, time.Unix(1000, 0))
		if skip != step.skip || ok != step.ok || p.Received() != step.received {
			t.Errorf("%s: got skip %d, %v, received %d; want %d, %v, %d",
				step.name, skip, ok, p.Received(), step.skip, step.ok, step.received)
		}
	}
}

// TestBounceThatComesTwice: a bounce counts for one sending of a frame, however often and however
// late it comes.
func TestBounceThatComesTwice(t *testing.T) {
	for _, late := range []bool{false, true} {
		p := NewSession(Config{Self: peerNamed("a"), MaxPayload: 2000, Window: 1000, MaxBuffered: 3000}, peerNamed("b"))
		now := time.Unix(1000, 0)
		seq, err := p.Append(&wire.Envelope{Type: wire.TypeCall, ID: 1})
		if err != nil {
			t.Fatal(err)
		}
		_, first, _ := p.Take(now, 0)
		p.Bounced(first, now)
		if !late {
			p.Bounced(first, now)
		}
		now = now.Add(RetryAfter)
		p.Tick(now)
		_, second, ok := p.Take(now, 0)
		if !ok || second == first {
			t.Fatalf("sent again: %v, with token %d, want another than %d", ok, second, first)
		}
		if late {
			p.Bounced(first, now)
		}
		p.Take(now, 0) // nothing is being published any more
		if p.Unreached() || p.Void(seq) {
			t.Errorf("late %v: the second sending may have arrived, and counts as bounced", late)
		}
		p.Bounced(second, now)
		if !p.Unreached() || !p.Void(seq) {
			t.Errorf("late %v: both sendings bounced, and the call cannot be taken back", late)
		}
	}
}

// TestUnsentFrameIsRetriedAlone: a session whose frame the broker's client did not accept sends
// nothing for a while, and then one frame at a time until the peer answers.
func TestUnsentFrameIsRetriedAlone(t *testing.T) {
	p := NewSession(Config{Self: peerNamed("a"), MaxPayload: 2000, Window: 1 << 20, MaxBuffered: 1 << 20}, peerNamed("b"))
	for id := range uint64(3) {
		_, err := p.Append(&wire.Envelope{Type: wire.TypeCall, ID: id + 1, Payload: make([]byte, 1500)})
		require.NoError(t, err)
	}
	now := time.Unix(1000, 0)
	_, token, ok := p.Take(now, 0)
	require.True(t, ok)
	p.Unsent(token, now)
	take := func(after time.Duration) bool {
		_, _, ok := p.Take(now.Add(after), 0)
		return ok
	}
	require.False(t, take(0))
	require.False(t, take(RetryAfter-1))
	require.True(t, take(RetryAfter))
	require.False(t, take(RetryAfter), "the peer has not answered yet")
	p.Ack(&wire.FrameHeader{Ack: 1, Handled: 1}, now.Add(RetryAfter))
	require.True(t, take(RetryAfter))
	require.True(t, take(RetryAfter))
}

// TestAcknowledgedFramesAreForgotten: a session with one call at a time keeps room for few frames,
// however many calls it has carried.
func TestAcknowledgedFramesAreForgotten(t *testing.T) {
	p := NewSession(Config{Self: peerNamed("a"), MaxPayload: 1 << 20, Window: 1 << 20, MaxBuffered: 1 << 20}, peerNamed("b"))
	now := time.Unix(1000, 0)
	for range 1000 {
		seq, err := p.Append(&wire.Envelope{Type: wire.TypeCall, ID: 1})
		if err != nil {
			t.Fatal(err)
		}
		p.Take(now, 0)
		p.Ack(&wire.FrameHeader{Ack: seq, Handled: seq}, now)
	}
	if n := cap(p.list); n > 4 {
		t.Errorf("room for %d frames, want at most 4", n)
	}
}
