package stream

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// A shrinking is a session whose broker accepts ever smaller messages.
type shrinking struct {
	t        *testing.T
	now      time.Time
	from, to *Session
	limit    int
	got      []string // type, id and code of what was handled
	over     []Oversize
}

func newShrinking(t *testing.T) *shrinking {
	c := Config{MaxPayload: 60_000, Window: 1 << 20, MaxBuffered: 8 << 20}
	a, b := c, c
	a.Self, b.Self = peerNamed("a"), peerNamed("b")
	return &shrinking{t: t, now: time.Unix(1000, 0), from: NewSession(a, b.Self), to: NewSession(b, a.Self), limit: c.MaxPayload}
}

func (s *shrinking) add(e wire.Envelope, size int) {
	e.Payload = make([]byte, size)
	if _, err := s.from.Append(&e); err != nil {
		s.t.Fatal(err)
	}
}

// send publishes the waiting frames. Each arrives or is lost, and so is each acknowledgement.
func (s *shrinking) send(arrives func() bool) {
	for {
		payload, token, ok := s.from.Take(s.now, 0)
		switch {
		case !ok:
			return
		case len(payload) > s.limit:
			s.over = append(s.over, s.from.Shrink(token, s.limit)...)
		case arrives():
			s.arrive(bytes.Clone(payload))
		}
	}
}

func (s *shrinking) arrive(frame []byte) {
	h, rest, err := new(wire.FrameReader).Header(frame)
	if err != nil {
		s.t.Fatal(err)
	}
	skip, ok := s.to.Receive(&h, s.now)
	if !ok {
		return
	}
	var e wire.Envelope
	for range h.Count {
		if rest, _, err = wire.NextEnvelope(rest, &e); err != nil {
			s.t.Fatal(err)
		}
		if skip > 0 {
			skip--
			continue
		}
		s.got = append(s.got, fmt.Sprint(e.Type, " ", e.ID, " ", e.Code))
	}
}

// again makes the session repeat unacknowledged frames, which all arrive.
func (s *shrinking) again() {
	s.now = s.now.Add(RetryAfter)
	s.from.Rewind()
	s.send(func() bool { return true })
	if got, want := s.to.Received(), s.from.Next()-1; got != want {
		s.t.Fatalf("received up to %d, want %d", got, want)
	}
	h := wire.FrameHeader{Version: wire.FrameVersion, From: s.to.cfg.Self, Seq: 1, Ack: s.to.Received(), Handled: s.to.Received()}
	if _, ok := s.from.Receive(&h, s.now); !ok {
		s.t.Fatal("the acknowledgement was not taken")
	}
	s.from.Ack(&h, s.now)
	if s.from.held != 0 {
		s.t.Errorf("%d bytes are held, want none", s.from.held)
	}
}

func tellsFrom(first, last int) (out []string) {
	for i := first; i <= last; i++ {
		out = append(out, fmt.Sprint(wire.TypeTell, " ", i, " ", wire.CodeOK))
	}
	return out
}

// TestShrunkLimitDividesFrames: a frame that was closed under a larger limit is divided. Nothing is
// lost, the order stays, and envelopes that the peer already had do not run again.
func TestShrunkLimitDividesFrames(t *testing.T) {
	for _, arrived := range []bool{false, true} {
		s := newShrinking(t)
		for id := range uint64(20) {
			s.add(wire.Envelope{Type: wire.TypeTell, ID: id + 1}, 2000)
		}
		s.send(func() bool { return arrived })
		s.limit = 30_000
		s.add(wire.Envelope{Type: wire.TypeTell, ID: 21}, 2000)
		s.again()
		if want := tellsFrom(1, 21); !slices.Equal(s.got, want) || len(s.over) > 0 {
			t.Errorf("arrived before: %v: got %q and %d too large, want %q", arrived, s.got, len(s.over), want)
		}
	}
}

// TestShrunkLimitTakesOutWhatIsTooLarge: an envelope that does not fit alone is taken out, and the
// others go on.
func TestShrunkLimitTakesOutWhatIsTooLarge(t *testing.T) {
	s := newShrinking(t)
	s.add(wire.Envelope{Type: wire.TypeTell, ID: 1}, 100)
	s.add(wire.Envelope{Type: wire.TypeCall, ID: 2}, 40_000)
	s.add(wire.Envelope{Type: wire.TypeAnswer, ID: 3}, 40_000)
	s.add(wire.Envelope{Type: wire.TypeAnswer, ID: 4, Code: wire.CodeMethodError, Text: []byte(strings.Repeat("x", 40_000))}, 100)
	s.add(wire.Envelope{Type: wire.TypeTell, ID: 5}, 100)
	s.limit = 30_000
	s.again()
	want := []string{
		fmt.Sprint(wire.TypeTell, " 1 ", wire.CodeOK), "0 0 0", fmt.Sprint(wire.TypeAnswer, " 3 ", wire.CodeTooLarge),
		fmt.Sprint(wire.TypeAnswer, " 4 ", wire.CodeMethodError), fmt.Sprint(wire.TypeTell, " 5 ", wire.CodeOK),
	}
	if !slices.Equal(s.got, want) {
		t.Errorf("got %q, want %q", s.got, want)
	}
	if len(s.over) != 3 || s.over[0].Envelope.ID != 2 || !s.over[0].NotExecuted {
		t.Fatalf("got %d envelopes, want the call, not executed, and both answers", len(s.over))
	}
	if got, want := s.over[0].Error(), "exceeds the broker's payload limit: 400"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want the prefix %q", got, want)
	}
}

// TestShrunkLimitKnowsWhatWasSent: for envelopes that were sent under the larger limit it is
// unknown whether they ran.
func TestShrunkLimitKnowsWhatWasSent(t *testing.T) {
	s := newShrinking(t)
	s.add(wire.Envelope{Type: wire.TypeCall, ID: 1}, 40_000)
	s.send(func() bool { return true }) // its acknowledgement is lost
	s.limit = 30_000
	s.again()
	if len(s.got) != 1 || len(s.over) != 1 || s.over[0].NotExecuted {
		t.Errorf("got %q and %+v, want one call of unknown outcome", s.got, s.over)
	}
}

// TestShrunkLimitTakesOutTheWholeState: with one part of a shard's state, its other parts are taken
// out, but not those of other moves.
func TestShrunkLimitTakesOutTheWholeState(t *testing.T) {
	s := newShrinking(t)
	part := func(epoch uint64, size int) {
		s.add(wire.Envelope{Type: wire.TypeInit, ID: epoch, Kind: []byte("k"), Shard: 1, Epoch: epoch}, size)
	}
	part(1, 100)
	part(1, 40_000)
	part(2, 100)
	part(1, 100)
	s.limit = 30_000
	s.again()
	want := []string{"0 1 0", "0 0 0", fmt.Sprint(wire.TypeInit, " 2 0"), "0 1 0"}
	if !slices.Equal(s.got, want) {
		t.Errorf("got %q, want %q", s.got, want)
	}
}

// TestShrinkingAndLoss: the limit falls again and again while frames get lost.
func TestShrinkingAndLoss(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 9))
		s := newShrinking(t)
		for id := range 200 {
			s.add(wire.Envelope{Type: wire.TypeTell, ID: uint64(id) + 1}, r.IntN(3000))
			if r.IntN(10) == 0 {
				s.now = s.now.Add(RetryAfter)
				s.from.Rewind()
				s.send(func() bool { return r.IntN(2) == 0 })
			}
			if r.IntN(20) == 0 {
				s.limit = max(s.limit*3/4, 4000)
			}
		}
		s.again()
		if want := tellsFrom(1, 200); !slices.Equal(s.got, want) || len(s.over) > 0 {
			t.Fatalf("seed %d: got %q and %d too large, want all 200 in order", seed, s.got, len(s.over))
		}
	}
}

// TestFrameThatIsAcknowledgedIsLeftAlone: a frame is not divided or sent again if it arrived
// although its publication failed, was refused as too large, or bounced.
func TestFrameThatIsAcknowledgedIsLeftAlone(t *testing.T) {
	for name, f := range map[string]func(s *shrinking, token uint64) []Oversize{
		"too large": func(s *shrinking, token uint64) []Oversize { return s.from.Shrink(token, 30_000) },
		"not sent":  func(s *shrinking, token uint64) []Oversize { s.from.Unsent(token, s.now); return nil },
		"came back": func(s *shrinking, token uint64) []Oversize { s.from.Bounced(token, s.now); return nil },
	} {
		s := newShrinking(t)
		s.add(wire.Envelope{Type: wire.TypeCall, ID: 1}, 40_000)
		_, token, _ := s.from.Take(s.now, 0)
		s.from.Ack(&wire.FrameHeader{Ack: 1, Handled: 1}, s.now)
		if over := f(s, token); len(over) > 0 {
			t.Errorf("%s: %+v is taken out, want nothing", name, over)
		}
		if err := s.from.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.from.Unpublished() {
			t.Errorf("%s: it is to be sent again", name)
		}
	}
}

// TestShrunkLimitKeepsRefusals: when a frame is divided, each part keeps the refusals of its own
// envelopes.
func TestShrunkLimitKeepsRefusals(t *testing.T) {
	s := newShrinking(t)
	for id := range uint64(20) {
		s.add(wire.Envelope{Type: wire.TypeTell, ID: id + 1}, 2000)
	}
	s.add(wire.Envelope{Type: wire.TypeRefusal, Seq: 9}, 2000)
	s.add(wire.Envelope{Type: wire.TypeRefusal, Seq: 7}, 2000)
	s.add(wire.Envelope{Type: wire.TypeRefusal, Seq: 8}, 2000)
	s.send(func() bool { return false })
	s.limit = 30_000
	s.from.Rewind()
	s.send(func() bool { return false })
	if err := s.from.broken(); err != nil {
		t.Error(err)
	}
	var refuses []uint64
	for _, f := range s.from.list[s.from.head:] {
		refuses = append(refuses, f.refuses)
	}
	if want := []uint64{0, 7}; !slices.Equal(refuses, want) {
		t.Errorf("the frames refuse %d, want %d", refuses, want)
	}
	s.again()
	if s.from.refusals != 0 {
		t.Errorf("%d frames with refusals, want none", s.from.refusals)
	}
}
