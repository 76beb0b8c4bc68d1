package stream

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

// A debtor is a member's session with a client. The test says what the client acknowledges.
type debtor struct {
	*Session
	now time.Time
	seq uint64 // of the client's last envelope
}

func newDebtor(limit int, up *Account) *debtor {
	client := transport.Peer{Address: transport.Address{Name: "web", Incarnation: identity.Mark(identity.Client, 1)}, Client: true}
	cfg := Config{Self: peerNamed("a"), Session: 1, MaxPayload: 1 << 20, Window: 1 << 30, MaxBuffered: limit, Account: NewAccount(limit, up)}
	return &debtor{Session: NewSession(cfg, client), now: time.Unix(1000, 0)}
}

func (d *debtor) answer(t *testing.T, bytes int) {
	t.Helper()
	_, err := d.Append(answerOf(bytes))
	require.NoError(t, err)
}

func (d *debtor) takeAll() {
	for {
		if _, _, ok := d.Take(d.now, d.Received()); !ok {
			return
		}
	}
}

// asks brings the session a frame of the client with one call. It reports whether the session
// accepts the frame.
func (d *debtor) asks(ack uint64) (ok bool) {
	h := wire.FrameHeader{Version: wire.FrameVersion, Seq: d.seq + 1, Count: 1, Session: 1, Ack: ack, Handled: ack}
	if _, ok = d.Receive(&h, d.now); ok {
		d.seq++
		d.Ack(&h, d.now)
	}
	return ok
}

func answerOf(size int) *wire.Envelope {
	return &wire.Envelope{Type: wire.TypeAnswer, ID: 7, Payload: bytes.Repeat([]byte{1}, size)}
}

// TestAccountOfAnswers: above the bound calls are to be refused. Above twice the bound results are
// dropped and frames are not handled, above three times nothing is kept. An acknowledgement counts
// even in a frame that is not handled.
func TestAccountOfAnswers(t *testing.T) {
	const limit = 100_000
	d := newDebtor(limit, nil)
	require.Equal(t, Within, d.Account.Excess())
	d.answer(t, limit+1)
	require.Equal(t, Full, d.Account.Excess())
	require.True(t, d.asks(0), "its calls are read, to be refused")
	full := answerOf(500)
	require.Same(t, full, d.Account.Excuse(full), "what runs already is answered")

	d.answer(t, limit)
	require.Equal(t, Crowded, d.Account.Excess())
	require.False(t, d.asks(0))
	small := d.Account.Excuse(full)
	require.Equal(t, wire.CodeNoResult, small.Code)
	require.Equal(t, full.ID, small.ID)
	require.Less(t, len(small.Text), smallAnswer)
	failed := &wire.Envelope{Type: wire.TypeAnswer, Code: wire.CodeMethodError, Text: bytes.Repeat([]byte("x"), 9000)}
	require.Equal(t, wire.CodeMethodError, d.Account.Excuse(failed).Code)
	require.Len(t, d.Account.Excuse(failed).Text, smallAnswer)
	tiny := answerOf(8)
	require.Same(t, tiny, d.Account.Excuse(tiny))
	other := &wire.Envelope{Type: wire.TypeFlushed}
	require.Same(t, other, d.Account.Excuse(other))

	d.answer(t, limit)
	require.Equal(t, Closed, d.Account.Excess())
	require.Nil(t, d.Account.Excuse(tiny))
	bytes, bound := d.Account.Held()
	require.Greater(t, bytes, int64(3*limit))
	require.Equal(t, int64(limit), bound)

	d.takeAll()
	require.False(t, d.asks(1), "too much is held still")
	require.Equal(t, uint64(1), d.Acked())
	require.True(t, d.asks(3), "the acknowledgement makes room for the frame that it is in")
	require.Equal(t, Within, d.Account.Excess())
	require.NoError(t, d.Check())
}

// TestAccountOfName: the sessions of all clients of one name count together. Frames of a session
// that holds nothing are still handled. What a dropped session held is released.
func TestAccountOfName(t *testing.T) {
	const limit = 100_000
	name := NewAccount(2*limit, nil)
	greedy, fair := newDebtor(limit, name), newDebtor(limit, name)
	for range 5 {
		greedy.answer(t, limit)
	}
	require.Equal(t, Closed, greedy.Account.Excess())
	require.Equal(t, Crowded, fair.Account.Excess())
	require.False(t, greedy.asks(0))
	require.True(t, fair.asks(0), "it hears that its calls are refused")
	_, bound := fair.Account.Held()
	require.Equal(t, int64(2*limit), bound)
	greedy.TakeUnacknowledged(true)
	require.Equal(t, Within, fair.Account.Excess())
	require.Zero(t, name.held.Load())
}

// TestStalled: a peer that acknowledges nothing has stalled since the first frame was sent, and a
// peer that acknowledges a part since then. No peer stalls while nothing is sent or the broker
// cannot be reached.
func TestStalled(t *testing.T) {
	d := newDebtor(1<<20, nil)
	later := func() time.Time { d.now = d.now.Add(time.Second); return d.now }
	d.answer(t, 100_000)
	require.Zero(t, d.Stalled(later()), "nothing was sent")
	d.takeAll()
	require.Equal(t, time.Second, d.Stalled(later()))
	d.Tick(later())
	d.takeAll()
	require.Equal(t, 3*time.Second, d.Stalled(later()), "sent again")

	d.answer(t, 100_000)
	d.asks(1)
	require.Zero(t, d.Stalled(d.now))
	d.takeAll()
	require.Equal(t, time.Second, d.Stalled(later()))
	h := wire.FrameHeader{Version: wire.FrameVersion, Seq: d.seq + 1, Session: 1, Flags: wire.FlagNack}
	_, ok := d.Receive(&h, d.now)
	require.True(t, ok)
	d.Ack(&h, d.now)
	require.Equal(t, 2*time.Second, d.Stalled(later()), "a request to send again is no progress")
	d.Rewind()
	require.Zero(t, d.Stalled(later()), "the connection was away")
	_, token, _ := d.Take(d.now, 0)
	d.Unsent(token, d.now)
	require.Zero(t, d.Stalled(later()), "and is away again")
	d.Tick(later())
	d.takeAll()
	d.asks(2)
	require.Zero(t, d.Stalled(later()), "all is acknowledged")
}
