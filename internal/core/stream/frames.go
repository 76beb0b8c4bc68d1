package stream

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/shardgen/shardgen/internal/wire"
)

// FrameBytes is the size in bytes at which a frame is full; larger frames gain nothing. Only a
// frame with one envelope may be larger.
const FrameBytes = 64 << 10

// frame has the encoded envelopes of one NATS message, after room for the header.
type frame struct {
	first   uint64
	refuses uint64 // the lowest sequence that a refusal in the frame names; 0 means none
	count   uint32
	sends   uint32
	bounces uint32 // number of sendings that bounced
	bounced uint32 // the latest sending that bounced
	closed  bool
	buf     []byte // wire.MaxFrameHeader bytes of room, then the envelopes
}

func (f *frame) last() uint64 { return f.first + uint64(f.count) - 1 }

func (f *frame) body() []byte { return f.buf[wire.MaxFrameHeader:] }

// neverArrived reports whether the frame was never sent, or each sending bounced.
func (f *frame) neverArrived() bool { return f.sends == f.bounces }

// awaitsBounce reports whether only the latest sending has not bounced. If it bounces too, the
// frame certainly never arrived.
func (f *frame) awaitsBounce() bool { return f.sends == f.bounces+1 && f.bounced < f.sends }

// sendBits is the number of bits of a token that count the sendings of a frame. They overflow
// after 65,535 sendings, which take hours; bounces are then ignored.
const sendBits = 16

// token returns the token of the frame's latest sending. It is never 0.
func (f *frame) token() uint64 { return f.first<<sendBits | uint64(f.sends)&(1<<sendBits-1) }

func sendingOf(token uint64) (first uint64, sending uint32) {
	return token >> sendBits, uint32(token & (1<<sendBits - 1))
}

// frames holds the envelopes that the peer has not acknowledged.
//
// Invariants:
//  1. acked ≤ every held sequence < next, without gaps.
//  2. head ≤ handled ≤ sendAt ≤ the number of frames, and frames before sendAt were handed
//     out at least once.
//  3. unacked is the sum of the bodies of the frames from handled to sendAt, and held that of all
//     frames from head.
//  4. refusals is the number of frames that name a refusal's sequence.
type frames struct {
	list       []frame // list[head:] are unacknowledged, oldest first; the last may still be open
	next       uint64  // the sequence of the next appended envelope
	acked      uint64
	handledTo  uint64 // the highest sequence that the peer has handled: at least acked
	head       int
	handled    int // index of the first frame that the peer has not handled
	sendAt     int // index of the next frame to hand out
	unacked    int
	held       int
	account    *Account // in which held counts too
	usual      int      // bytes of the frame that was closed last
	refusals   int      // the number of frames with refusals
	lent       uint64   // first sequence of the frame whose payload the driver may still read
	maxPayload int      // of the broker, in bytes
}

// Next returns the sequence of the next appended envelope.
func (q *frames) Next() uint64 { return q.next }

// Acked returns the highest acknowledged sequence. The peer has acknowledged every envelope up to
// it.
func (q *frames) Acked() uint64 { return q.acked }

func (q *frames) noteRefusal(f *frame, e *wire.Envelope) {
	if e.Seq == 0 {
		return
	}
	if f.refuses == 0 {
		q.refusals++
		f.refuses = e.Seq
	}
	f.refuses = min(f.refuses, e.Seq)
}

func (q *frames) openFrame(size int) *frame {
	if n := len(q.list); n > q.head {
		f := &q.list[n-1]
		if !f.closed && len(f.buf)+size <= min(FrameBytes, q.maxPayload) {
			return f
		}
		q.end(f)
	}
	if q.head > 64 && q.head*2 > len(q.list) {
		q.compact()
	}
	q.list = append(q.list, frame{first: q.next, buf: newBuffer(q.usual)})
	return &q.list[len(q.list)-1]
}

func (q *frames) end(f *frame) {
	if !f.closed {
		f.closed, q.usual = true, len(f.buf)
	}
}

func (q *frames) compact() {
	n := copy(q.list, q.list[q.head:])
	clear(q.list[n:])
	q.list = q.list[:n]
	q.handled -= q.head
	q.sendAt -= q.head
	q.head = 0
}

// Full reports whether at least one frame is closed and waits to be published.
func (q *frames) Full() bool { return len(q.list)-q.sendAt > 1 }

// Unpublished reports whether there are appended envelopes that Take has not returned.
func (q *frames) Unpublished() bool { return q.sendAt < len(q.list) }

// empty returns a frame without envelopes. It has the sequence of the next unpublished frame, so
// the peer sees no gap.
func (q *frames) empty() *frame {
	f := &frame{first: q.next, buf: make([]byte, wire.MaxFrameHeader)}
	if q.sendAt < len(q.list) {
		f.first = q.list[q.sendAt].first
	}
	return f
}

// safeAck lowers ack, so that frame f does not acknowledge an envelope whose refusal is in a later
// frame. The refusal must arrive before the acknowledgement, because an acknowledged envelope is
// forgotten by its sender.
func (q *frames) safeAck(f *frame, ack uint64) uint64 {
	if q.refusals == 0 {
		return ack
	}
	for i := len(q.list) - 1; i >= q.head && q.list[i].first >= f.first+uint64(f.count); i-- {
		ack = min(ack, q.list[i].refuses-1) // without a refusal the highest number: no bound
	}
	return ack
}

func (q *frames) rewindTo(i int) {
	i = max(i, q.handled)
	for j := i; j < q.sendAt; j++ {
		q.unacked -= len(q.list[j].body())
	}
	q.sendAt = min(q.sendAt, i)
}

// release drops acknowledged frames, even those about to be sent again.
func (q *frames) release() {
	for q.handled < len(q.list) && q.list[q.handled].last() <= q.handledTo {
		if f := &q.list[q.handled]; q.handled < q.sendAt {
			q.unacked -= len(f.body())
		} else {
			q.end(f)
			q.sendAt++
		}
		q.handled++
	}
	for q.head < q.handled && q.list[q.head].last() <= q.acked {
		f := &q.list[q.head]
		q.held -= len(f.body())
		q.account.add(-len(f.body()))
		if f.refuses > 0 {
			q.refusals--
		}
		if f.first != q.lent {
			recycle(f.buf)
		}
		*f = frame{}
		q.head++
	}
	if q.head == len(q.list) {
		q.list, q.head, q.handled, q.sendAt = q.list[:0], 0, 0, 0
	}
}

// SetLimit bounds the payloads of later frames, in bytes.
func (q *frames) SetLimit(bytes int) { q.maxPayload = bytes }

// An Unacknowledged is an envelope that the peer never acknowledged.
type Unacknowledged struct {
	Seq      uint64
	Envelope wire.Envelope // its slices are copies
	// NotExecuted reports that the peer certainly never handled the envelope. Otherwise it may
	// have.
	NotExecuted bool
}

// TakeUnacknowledged removes and returns all unacknowledged envelopes, in order. If bye is set, the
// peer has said goodbye, so envelopes that it had not handled are certainly not executed. Otherwise
// only envelopes that were never published, or bounced each time, are certainly not executed.
func (q *frames) TakeUnacknowledged(bye bool) []Unacknowledged {
	var out []Unacknowledged
	for i := q.head; i < len(q.list); i++ {
		f := &q.list[i]
		q.eachEnvelope(f, func(seq uint64, e *wire.Envelope) bool {
			if seq > q.acked {
				out = append(out, Unacknowledged{Seq: seq, Envelope: clone(e), NotExecuted: bye && seq > q.handledTo || f.neverArrived()})
			}
			return true
		})
	}
	q.account.add(-q.held)
	q.list, q.head, q.handled, q.sendAt, q.unacked, q.held, q.refusals = nil, 0, 0, 0, 0, 0, 0
	return out
}

// AwaitsBounce reports whether a bounce may still come that proves that the peer never received
// some envelopes.
func (q *frames) AwaitsBounce() bool {
	return slices.ContainsFunc(q.list[q.handled:], func(f frame) bool { return f.awaitsBounce() })
}

// Find returns a copy of the envelope with the given sequence, if it is still held.
func (q *frames) Find(seq uint64) (e wire.Envelope, ok bool) {
	for i := q.head; i < len(q.list); i++ {
		f := &q.list[i]
		if f.count == 0 || seq < f.first || seq > f.last() {
			continue
		}
		q.eachEnvelope(f, func(s uint64, got *wire.Envelope) bool {
			if s == seq {
				e, ok = clone(got), true
			}
			return !ok
		})
		return e, ok
	}
	return e, false
}

// Void replaces the envelope with the given sequence by an empty one, if the replaced envelope
// certainly never reached the peer. It reports whether it replaced the envelope.
func (q *frames) Void(seq uint64) bool {
	for i := q.head; i < len(q.list); i++ {
		f := &q.list[i]
		if f.count == 0 || seq < f.first || seq > f.last() || !f.neverArrived() || f.first == q.lent {
			continue
		}
		done := false
		rest := f.body()
		for s := f.first; s <= seq; s++ {
			at := rest
			var e wire.Envelope
			var ok bool
			var err error
			if rest, ok, err = wire.NextEnvelope(rest, &e); !ok || err != nil {
				return false
			}
			if s == seq {
				done = wire.VoidEnvelope(at[:len(at)-len(rest)])
			}
		}
		return done
	}
	return false
}

func (q *frames) eachEnvelope(f *frame, visit func(seq uint64, e *wire.Envelope) bool) {
	var e wire.Envelope
	rest := f.body()
	for seq := f.first; ; seq++ {
		var ok bool
		var err error
		if rest, ok, err = wire.NextEnvelope(rest, &e); !ok || err != nil || !visit(seq, &e) {
			return
		}
	}
}

func clone(e *wire.Envelope) wire.Envelope {
	c := *e
	c.Kind = append([]byte(nil), e.Kind...)
	c.Entity = append([]byte(nil), e.Entity...)
	c.Method = append([]byte(nil), e.Method...)
	c.Payload = append([]byte(nil), e.Payload...)
	c.Text = append([]byte(nil), e.Text...)
	c.Chain = append([]byte(nil), e.Chain...)
	c.Command = append([]byte(nil), e.Command...)
	c.Info = append([]byte(nil), e.Info...)
	return c
}

func (q *frames) broken() error {
	seq, unacked, held, refusals := q.acked+1, 0, 0, 0
	for i := q.head; i < len(q.list); i++ {
		f := &q.list[i]
		if i == q.head {
			seq = min(seq, f.first)
		}
		if f.first != seq {
			return fmt.Errorf("invariant 1: a frame begins at sequence %d, want %d", f.first, seq)
		}
		seq += uint64(f.count)
		held += len(f.body())
		if f.refuses > 0 {
			refusals++
		}
		if i >= q.handled && i < q.sendAt {
			unacked += len(f.body())
			if f.sends == 0 || !f.closed {
				return fmt.Errorf("invariant 2: the frame at sequence %d counts as sent, but was never sent", f.first)
			}
		}
	}
	if q.head > q.handled || q.handled > q.sendAt || q.sendAt > len(q.list) {
		return fmt.Errorf("invariant 2: head %d, handled %d and sendAt %d are out of order or beyond %d frames", q.head, q.handled, q.sendAt, len(q.list))
	}
	if q.head < len(q.list) && seq != q.next {
		return fmt.Errorf("invariant 1: frames end before sequence %d, but next is %d", seq, q.next)
	}
	if unacked != q.unacked || held != q.held {
		return fmt.Errorf("invariant 3: the frames have %d unacked and %d held bytes, but the counts are %d and %d", unacked, held, q.unacked, q.held)
	}
	if refusals != q.refusals {
		return fmt.Errorf("invariant 4: %d frames have refusals, but the count is %d", refusals, q.refusals)
	}
	return nil
}

// bufferSizes are the sizes of the pooled buffers, each a few times the one before, to bound the
// waste. A larger frame, of one envelope, has its own buffer.
var bufferSizes = [...]int{2 << 10, 8 << 10, 24 << 10, FrameBytes}

// buffers has the unused buffers, by size. Each is stored as a pointer to its first byte.
var buffers [len(bufferSizes)]sync.Pool

// newBuffer returns a buffer with room for a header and about likely bytes.
func newBuffer(likely int) []byte {
	return buffer(max(wire.MaxFrameHeader, min(likely, FrameBytes)))[:wire.MaxFrameHeader]
}

func buffer(n int) []byte {
	for i, size := range bufferSizes {
		if n > size {
			continue
		}
		if first, ok := buffers[i].Get().(*byte); ok {
			return unsafe.Slice(first, size)[:0]
		}
		return make([]byte, 0, size)
	}
	return make([]byte, 0, n)
}

func reserve(b []byte, size int) []byte {
	if len(b)+size <= cap(b) {
		return b
	}
	larger := append(buffer(len(b)+size), b...)
	recycle(b)
	return larger
}

// recycle returns a buffer to the pool. The caller must not read it any more.
func recycle(b []byte) {
	for i, size := range bufferSizes {
		if cap(b) == size {
			buffers[i].Put(unsafe.SliceData(b))
		}
	}
}

// An Account counts the bytes held for a client until the client acknowledges them. Each session
// with a client has an account. The account above it counts the bytes of all clients of one name.
// Without accounts, a client that does not acknowledge could make this process keep any number of
// answers. A nil Account has no bound. An Account is safe for concurrent use.
//
// Above the bound, the client gets less in three steps, so that a client that is only slow is
// notified:
//   - Full, above the bound: its calls are refused before their turns.
//   - Crowded, from twice the bound on: results of turns under way are dropped if above 256 bytes.
//     A session that holds above fairBytes ignores frames with envelopes, except for their
//     acknowledgements, as if they were lost.
//   - Closed, from three times the bound on: its answers and refusals are not kept any more.
type Account struct {
	limit int64
	up    *Account
	held  atomic.Int64
}

// NewAccount returns an account with a bound of limit bytes. Its bytes also count in the account
// up, unless up is nil.
func NewAccount(limit int, up *Account) *Account { return &Account{limit: int64(limit), up: up} }

// An Excess says how far an account is above its bound.
type Excess uint8

// The steps of an Excess.
const (
	Within Excess = iota
	Full
	Crowded
	Closed
)

func (a *Account) add(n int) {
	for ; a != nil; a = a.up {
		a.held.Add(int64(n))
	}
}

// Excess returns the greatest excess of the account and the accounts above it.
func (a *Account) Excess() (most Excess) {
	for ; a != nil; a = a.up {
		if held := a.held.Load(); held > a.limit {
			most = max(most, Excess(min(held/max(a.limit, 1), int64(Closed))))
		}
	}
	return most
}

// Held returns the bytes and the bound of the topmost account that exceeds its bound, among a and
// the accounts above a. If none exceeds its bound, Held returns the bytes and the bound of a.
func (a *Account) Held() (bytes, limit int64) {
	for at := a; at != nil; at = at.up {
		if held := at.held.Load(); at == a || held > at.limit {
			bytes, limit = held, at.limit
		}
	}
	return bytes, limit
}

// fairBytes bounds what a session may hold for its client while its account is Crowded. Up to the
// bound, the session accepts frames, but answers each call with a refusal. So the client learns why
// its calls fail, even if other processes of the same name hold most of the account's bytes. Above
// the bound, the session drops the envelopes of a frame and reads only its acknowledgement.
const fairBytes = 64 << 10

// Excuse returns the envelope to keep in place of e, as the account's Excess requires; nil means
// none.
func (a *Account) Excuse(e *wire.Envelope) *wire.Envelope {
	switch excess := a.Excess(); {
	case excess < Crowded || e.Type != wire.TypeAnswer && e.Type != wire.TypeRefusal:
		return e
	case excess == Closed:
		return nil
	case len(e.Payload)+len(e.Text) <= smallAnswer:
		return e
	case e.Code == wire.CodeOK:
		return &wire.Envelope{Type: e.Type, ID: e.ID, Code: wire.CodeNoResult, Text: []byte(unacknowledged)}
	}
	small := *e
	small.Payload, small.Text = nil, e.Text[:min(len(e.Text), smallAnswer)]
	return &small
}

const (
	// smallAnswer bounds the bytes of an answer kept in a crowded account.
	smallAnswer    = 256
	unacknowledged = "the results were dropped, because the client has too many unacknowledged answers"
)
