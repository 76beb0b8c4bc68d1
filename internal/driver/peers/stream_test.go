package peers

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/driver/routing"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// An end is one of two sessions with each other, and its process. Sent frames wait in sent until
// the test delivers them.
type end struct {
	t *testing.T
	Stream
	now     time.Time
	sent    [][]byte
	fails   error  // the error of Send
	repacks bool   // the result of Repack
	during  func() // called once while a frame is sent
	yielded func() // called when the writer yields
	mute    bool   // no lease: nothing may be answered
	wakes   []time.Duration
	token   uint64 // token of the last frame
	ignored []bool // for each ignored frame, whether it was a goodbye
	got     []byte // entities of the envelopes that arrived, in order
}

func (v *end) Now() time.Time                 { return v.now }
func (v *end) MayAnswer() bool                { return !v.mute }
func (v *end) MaxPayload() int                { return 1 << 20 }
func (v *end) WakeAfter(d time.Duration)      { v.wakes = append(v.wakes, d) }
func (v *end) Ignored(bye bool)               { v.ignored = append(v.ignored, bye) }
func (v *end) Repack(uint64, int, error) bool { return v.repacks }

func (v *end) Yield() {
	if f := v.yielded; f != nil {
		v.yielded = nil
		f()
	}
}

func (v *end) Send(token uint64, frame []byte) error {
	v.token = token
	if v.fails != nil {
		return v.fails
	}
	v.sent = append(v.sent, bytes.Clone(frame))
	if f := v.during; f != nil {
		v.during = nil
		f()
	}
	return nil
}

// pair returns the sessions of two members with each other.
func pair(t *testing.T) (a, b *end) {
	a, b = &end{t: t, now: time.Unix(1_000_000, 0)}, &end{t: t, now: time.Unix(1_000_000, 0)}
	join := func(v *end, self, peer transport.Peer) {
		v.Init(v, stream.Config{Self: self, MaxPayload: 1 << 20, Window: 1 << 20, MaxBuffered: 1 << 20}, peer)
	}
	join(a, peerOf("a"), peerOf("b"))
	join(b, peerOf("b"), peerOf("a"))
	return a, b
}

func peerOf(name string) transport.Peer {
	return transport.Peer{Address: transport.Address{Name: name, Incarnation: 1}}
}

// tellTo returns a call for an entity whose id is one letter.
func tellTo(entity byte) *wire.Envelope {
	return &wire.Envelope{Type: wire.TypeTell, Kind: []byte("K"), Entity: []byte{entity}, Method: []byte("M")}
}

func (v *end) append(entities string) {
	v.t.Helper()
	for i := range len(entities) {
		_, err := v.Append(tellTo(entities[i]))
		require.NoError(v.t, err)
	}
}

// header parses a frame.
func (v *end) header(frame []byte) (h wire.FrameHeader, rest []byte) {
	h, rest, err := new(wire.FrameReader).Header(frame)
	require.NoError(v.t, err)
	return h, rest
}

// arrive delivers all frames of from to v. It reports whether v has something to send after the
// last frame.
func (v *end) arrive(from *end) (more bool) {
	v.t.Helper()
	frames := from.sent
	from.sent = nil
	for _, frame := range frames {
		h, rest := v.header(frame)
		skip, _, ok := v.Receive(&h, v.now)
		if !ok {
			continue
		}
		var e wire.Envelope
		for i := range h.Count {
			var err error
			rest, _, err = wire.NextEnvelope(rest, &e)
			require.NoError(v.t, err)
			if i >= skip {
				v.got = append(v.got, e.Entity...)
				v.Handled.Add(1)
			}
		}
		more = v.Received(&h, len(frame))
	}
	return more
}

// TestEnvelopesArriveInOrder sends from both ends, and loses some frames.
func TestEnvelopesArriveInOrder(t *testing.T) {
	a, b := pair(t)
	a.append("12")
	a.Flush()
	b.arrive(a)
	a.append("3")
	a.Flush()
	a.sent = nil // lost with the connection
	a.append("4")
	a.Flush()
	b.arrive(a)
	require.Equal(t, "12", string(b.got), "what stands behind a gap waits")
	require.NotEmpty(t, b.sent, "it is asked for")
	asks, _ := b.header(b.sent[len(b.sent)-1])
	require.NotZero(t, asks.Flags&wire.FlagNack)
	b.sent = nil
	a.Rewind()
	b.arrive(a)
	require.Equal(t, "1234", string(b.got))
	b.AckSoon()
	b.Flush()
	a.arrive(b)
	a.Lock()
	require.Zero(t, a.UnackedLocked(4))
	require.Equal(t, uint64(4), a.AckedLocked())
	a.Unlock()
}

// TestWriterTakesAlong: while one goroutine publishes a session, other goroutines only append. The
// first goroutine publishes their envelopes too.
func TestWriterTakesAlong(t *testing.T) {
	a, b := pair(t)
	a.append("1")
	a.during = func() {
		a.append("2")
		a.Lock()
		require.True(t, a.WritingLocked())
		a.Unlock()
		a.Flush() // which publishes nothing itself
		require.Len(t, a.sent, 1)
	}
	a.Flush()
	require.Len(t, a.sent, 2)
	b.arrive(a)
	require.Equal(t, "12", string(b.got))
}

// TestGatheredInOneFrame: a writer that gathers lets other goroutines append before it publishes.
func TestGatheredInOneFrame(t *testing.T) {
	a, _ := pair(t)
	a.append("1")
	a.yielded = func() { a.append("2") }
	a.Lock()
	a.PublishLocked(true)
	require.False(t, a.WritingLocked())
	a.Unlock()
	require.Len(t, a.sent, 1)
	h, _ := a.header(a.sent[0])
	require.EqualValues(t, 2, h.Count)
}

// TestUnsentIsTriedAgain: a frame that the broker did not take is sent again later.
func TestUnsentIsTriedAgain(t *testing.T) {
	a, b := pair(t)
	a.fails = errors.New("no connection")
	a.append("1")
	a.Flush()
	require.Empty(t, a.sent)
	require.NotEmpty(t, a.wakes, "it is tried again")
	a.fails = nil
	a.now = a.now.Add(a.wakes[len(a.wakes)-1])
	a.Tick()
	b.arrive(a)
	require.Equal(t, "1", string(b.got))
}

// TestNothingLeavesWithoutALease: without a lease only acknowledgements are sent, so that the peer
// goes on.
func TestNothingLeavesWithoutALease(t *testing.T) {
	a, b := pair(t)
	b.append("x")
	b.Flush()
	a.mute = true
	a.append("1")
	a.arrive(b)
	a.AckSoon()
	a.Flush()
	for _, frame := range a.sent {
		h, _ := a.header(frame)
		require.Zero(t, h.Count, "a frame with envelopes left")
	}
	require.Contains(t, a.wakes, leaseLook, "it looks again soon")
	b.arrive(a)
	require.Empty(t, b.got)
	a.mute = false
	a.now = a.now.Add(leaseLook)
	a.Tick()
	b.arrive(a)
	require.Equal(t, "1", string(b.got))
}

// TestWakesOnce: received envelopes are acknowledged after a while, with one timer.
func TestWakesOnce(t *testing.T) {
	a, b := pair(t)
	a.append("1")
	a.Flush()
	b.arrive(a)
	require.Len(t, b.wakes, 1)
	a.append("2")
	a.Flush()
	b.arrive(a)
	require.Len(t, b.wakes, 1)
	require.Empty(t, b.sent)
	b.now = b.now.Add(b.wakes[0])
	b.Tick()
	a.arrive(b)
	a.Lock()
	require.Equal(t, uint64(2), a.AckedLocked())
	a.Unlock()
}

// TestBounced: Bounced returns for how long nobody has listened, until somebody does.
func TestBounced(t *testing.T) {
	a, b := pair(t)
	a.append("1")
	a.Flush()
	require.Zero(t, a.Bounced(a.token))
	require.True(t, a.Unreached())
	a.now = a.now.Add(3 * time.Second)
	require.Equal(t, 3*time.Second, a.Bounced(a.token))
	b.append("x")
	b.Flush()
	a.arrive(b)
	require.False(t, a.Unreached())
	require.Zero(t, a.Bounced(a.token), "it begins anew")
}

// TestClose: Close returns the unacknowledged envelopes once, and nothing can be appended
// afterwards.
func TestClose(t *testing.T) {
	a, b := pair(t)
	a.append("1")
	a.Flush()
	b.arrive(a)
	b.AckSoon()
	b.Flush()
	a.arrive(b)
	a.append("23")
	left, _ := a.Close(true)
	require.Len(t, left, 2)
	require.True(t, left[0].NotExecuted, "the peer has said goodbye, and not handled it")
	require.True(t, a.HasDeparted())
	require.True(t, a.SaidGoodbye())
	again, _ := a.Close(false)
	require.Empty(t, again)
	_, err := a.Append(tellTo('4'))
	require.ErrorIs(t, err, ErrGone)
	require.ErrorIs(t, a.AppendAll([]*wire.Envelope{tellTo('4')}), ErrGone)
	wakes := len(a.wakes)
	a.Tick()
	require.Len(t, a.wakes, wakes, "a session that is over wants no time")
	require.Empty(t, a.sent)
}

// TestGoodbye: waiting envelopes are sent before the last frame, which says goodbye. A session that
// was never used sends no goodbye.
func TestGoodbye(t *testing.T) {
	a, b := pair(t)
	a.Goodbye()
	a.Part()
	require.Empty(t, a.sent)
	a.append("1")
	a.Goodbye()
	require.Len(t, a.sent, 2)
	last, _ := a.header(a.sent[1])
	require.NotZero(t, last.Flags&wire.FlagBye)
	b.arrive(a)
	require.Equal(t, "1", string(b.got))
}

// TestPart: Part sends only a goodbye, so waiting envelopes certainly did not run.
func TestPart(t *testing.T) {
	a, b := pair(t)
	a.append("1")
	a.Part()
	require.Len(t, a.sent, 1)
	h, _ := a.header(a.sent[0])
	require.NotZero(t, h.Flags&wire.FlagBye)
	require.Zero(t, h.Count)
	b.arrive(a)
	left, _ := a.Close(false)
	require.True(t, left[0].NotExecuted)
}

// TestIgnoredFrame: a frame that comes twice is handled once, and answered.
func TestIgnoredFrame(t *testing.T) {
	a, b := pair(t)
	a.append("1")
	a.Flush()
	frame := a.sent[0]
	b.arrive(a)
	a.sent = [][]byte{frame}
	b.arrive(a)
	require.Equal(t, "1", string(b.got))
}

// TestDroppedSession: a frame of a client that has dropped its side and comes back is distinguished
// from a frame that must only be ignored.
func TestDroppedSession(t *testing.T) {
	member := &end{t: t, now: time.Unix(1_000_000, 0)}
	client := peerOf("c")
	client.Client = true
	member.Init(member, stream.Config{Self: peerOf("m"), Session: 7, MaxPayload: 1 << 20, Window: 1 << 20, MaxBuffered: 1 << 20}, client)
	first := wire.FrameHeader{Version: 1, From: client, Seq: 1, Hello: 3}
	member.Receive(&first, member.now)
	ignored := len(member.ignored)
	stale := wire.FrameHeader{Version: 1, From: client, Seq: 1, Session: 6}
	_, dropped, ok := member.Receive(&stale, member.now)
	require.False(t, ok)
	require.False(t, dropped)
	require.Len(t, member.ignored, ignored+1)
	known := wire.FrameHeader{Version: 1, From: client, Seq: 1, Session: 7}
	_, _, ok = member.Receive(&known, member.now)
	require.True(t, ok)
	anew := wire.FrameHeader{Version: 1, From: client, Seq: 1, Hello: 4}
	_, dropped, ok = member.Receive(&anew, member.now)
	require.False(t, ok)
	require.True(t, dropped, "a newer hello: the session begins anew with this frame")
	require.Len(t, member.ignored, ignored+1, "it is not ignored")
	require.True(t, member.Dropped())
}

// TestLooksForTheLease: a session that may not answer checks the lease again soon, even if nothing
// else is due.
func TestLooksForTheLease(t *testing.T) {
	a, _ := pair(t)
	a.mute = true
	a.append("1")
	a.Flush()
	require.Equal(t, []time.Duration{leaseLook}, a.wakes)
}

// TestUnreached: a peer counts as never reached if nobody listens there and nothing has come.
func TestUnreached(t *testing.T) {
	a, _ := pair(t)
	require.False(t, a.Unreached(), "nothing was sent")
	a.append("1")
	a.Flush()
	a.Bounced(a.token)
	require.True(t, a.Unreached())
}

// TestRouteAwaitsOnce: a route that waits for acknowledgements is called once, however often it has
// called AwaitLocked.
func TestRouteAwaitsOnce(t *testing.T) {
	a, _ := pair(t)
	var first, second routing.Route
	for range 2 {
		a.AwaitLocked(&first)
		a.AwaitLocked(&second)
	}
	_, stopped := a.Close(false)
	require.Equal(t, []*routing.Route{&first, &second}, stopped)
}
