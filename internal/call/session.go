package call

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/shardgen/shardgen/internal/invariant"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// Errors of Append.
var (
	// ErrTooLarge: one envelope exceeds the broker's payload limit.
	ErrTooLarge = errors.New("exceeds the broker's payload limit")
	// ErrFull: the session holds MaxBuffered bytes that the peer has not acknowledged.
	ErrFull = errors.New("too much unacknowledged")
)

// FullError is ErrFull with the number of bytes that the session holds. Its text is made
// only when it is read, because a refused caller may try again very often.
type FullError struct {
	Bytes int // held by the session when it refused the envelope
	Peer  transport.Address
}

// Error implements error.
func (e *FullError) Error() string {
	return fmt.Sprintf("%v: %d bytes for %s", ErrFull, e.Bytes, e.Peer)
}

// Unwrap is ErrFull.
func (e *FullError) Unwrap() error { return ErrFull }

// Times of a session. They are far above a round trip on a network and far below the time
// for which a caller waits.
const (
	// RetryAfter is how long a session waits for progress before it sends unacknowledged
	// frames again, and between tries to reach an absent peer.
	RetryAfter = 200 * time.Millisecond
	// AckDelay is how long an acknowledgement may wait for a frame to ride on.
	AckDelay = 20 * time.Millisecond
	// nackGap is the least time between two requests to send again.
	nackGap = 10 * time.Millisecond
)

// frameBytes is the size at which a frame is full, because larger batches gain nothing.
const frameBytes = 64 << 10

// Config has the settings of a session. Those but Session are equal for all sessions of a process.
type Config struct {
	Self transport.Peer
	// Session is the number of this side of a session between a member and a client. It
	// is greater than that of each earlier session of this process with the peer. 0
	// between members.
	Session     uint64
	MaxPayload  int // of the broker, in bytes, to begin with; see SetLimit
	Window      int // bytes granted to the peer
	MaxBuffered int // bytes kept for the peer before calls are refused
}

// A Session is the stream of envelopes between this process and one peer on one
// lane. It is not safe for concurrent use.
//
// The window counts envelopes that the peer has not handled. The acknowledgement also
// leaves out handled envelopes whose refusals have not arrived. So two peers that refuse
// each other's calls do not wait for each other.
//
// Invariants:
//  1. acked ≤ every held sequence < next, without gaps.
//  2. head ≤ handled ≤ sendAt ≤ the number of frames, and frames before sendAt
//     were handed out at least once.
//  3. unacked is the sum of the bodies of the frames from handled to sendAt, and
//     held that of all frames from head.
//  4. An acknowledgement never goes out before a refusal below it.
type Session struct {
	cfg  Config
	peer transport.Peer

	// Sending. frames[head:] hold the unacknowledged envelopes, oldest first; the last
	// frame may still be open.
	next      uint64
	acked     uint64
	handledTo uint64 // the highest sequence that the peer has handled: at least acked
	frames    []frame
	head      int
	handled   int // index of the first frame that the peer has not handled
	sendAt    int // index of the next frame to hand out
	unacked   int
	held      int
	usual     int // bytes of the frame that was closed last
	refusals  int // frames with refusals
	window    int
	lent      uint64 // first sequence of the frame whose payload the driver may still read

	retryAt time.Time // zero: nothing is under way
	probing bool      // the peer was absent: one frame at a time until it answers

	// Receiving.
	received  uint64
	nackedAt  time.Time
	nack      bool
	ackSent   uint64
	unsaid    int // bytes of frames that were handled since an acknowledgement was sent
	ackDueAt  time.Time
	ackNow    bool
	bye       bool
	handshake handshake
}

// frame is one batch of encoded envelopes behind room for a header.
type frame struct {
	first   uint64
	refuses uint64 // the lowest sequence that a refusal in it names; 0: none
	count   uint32
	sends   uint32
	bounces uint32 // number of sendings that bounced
	bounced uint32 // the latest of those
	closed  bool
	buf     []byte // wire.MaxFrameHeader bytes of room, then the envelopes
}

func (f *frame) last() uint64 { return f.first + uint64(f.count) - 1 }
func (f *frame) body() []byte { return f.buf[wire.MaxFrameHeader:] }

// neverArrived reports whether each sending of the frame bounced, if there was any.
func (f *frame) neverArrived() bool { return f.sends == f.bounces }

// sendBits is the number of bits of a token that count the sendings of one frame. The
// count begins anew after 65,535, which takes hours; bounces are ignored from then on.
const sendBits = 16

// token returns the name of the frame's latest sending, which is not 0.
func (f *frame) token() uint64 { return f.first<<sendBits | uint64(f.sends)&(1<<sendBits-1) }

// sendingOf returns the frame and the sending that a token names.
func sendingOf(token uint64) (first uint64, sending uint32) {
	return token >> sendBits, uint32(token & (1<<sendBits - 1))
}

// NewSession returns a session with peer. Both sides must make a new one for each pair of
// incarnations.
func NewSession(cfg Config, peer transport.Peer) *Session {
	return &Session{cfg: cfg, peer: peer, next: 1, window: cfg.Window, handshake: newHandshake(cfg, peer)}
}

// Peer returns the other end.
func (p *Session) Peer() transport.Peer { return p.peer }

// Next returns the sequence of the next appended envelope.
func (p *Session) Next() uint64 { return p.next }

// Acked returns the highest sequence up to which the peer has handled everything.
func (p *Session) Acked() uint64 { return p.acked }

// Append adds an envelope to the stream and returns its sequence. Calls and tells are
// refused with ErrFull above MaxBuffered. Answers and control messages are not, because
// their number is bounded by that of calls.
func (p *Session) Append(e *wire.Envelope) (uint64, error) {
	size := e.SizeBound()
	if size+wire.MaxFrameHeader > p.cfg.MaxPayload {
		return 0, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, size, p.cfg.MaxPayload-wire.MaxFrameHeader)
	}
	if p.held > p.cfg.MaxBuffered && (e.Type == wire.TypeCall || e.Type == wire.TypeTell) {
		return 0, &FullError{Bytes: p.held, Peer: p.peer.Address}
	}
	f := p.openFrame(size)
	before := len(f.buf)
	f.buf = wire.AppendEnvelope(reserve(f.buf, size), e)
	p.held += len(f.buf) - before
	f.count++
	p.noteRefusal(f, e)
	seq := p.next
	p.next++
	return seq, nil
}

// noteRefusal is called for each envelope that is added to a frame.
func (p *Session) noteRefusal(f *frame, e *wire.Envelope) {
	if e.Type != wire.TypeRefusal || e.Seq == 0 {
		return
	}
	if f.refuses == 0 {
		p.refusals++
		f.refuses = e.Seq
	}
	f.refuses = min(f.refuses, e.Seq)
}

func (p *Session) openFrame(size int) *frame {
	if n := len(p.frames); n > p.head {
		f := &p.frames[n-1]
		if !f.closed && len(f.buf)+size <= min(frameBytes, p.cfg.MaxPayload) {
			return f
		}
		p.end(f)
	}
	if p.head > 64 && p.head*2 > len(p.frames) {
		p.compact()
	}
	p.frames = append(p.frames, frame{first: p.next, buf: newBuffer(p.usual)})
	return &p.frames[len(p.frames)-1]
}

// end closes the open frame, so that the next envelope begins a new one.
func (p *Session) end(f *frame) {
	if !f.closed {
		f.closed, p.usual = true, len(f.buf)
	}
}

func (p *Session) compact() {
	n := copy(p.frames, p.frames[p.head:])
	clear(p.frames[n:])
	p.frames = p.frames[:n]
	p.handled -= p.head
	p.sendAt -= p.head
	p.head = 0
}

// Full reports whether at least one frame is closed and waits to be published.
func (p *Session) Full() bool { return len(p.frames)-p.sendAt > 1 }

// Unpublished reports whether appended envelopes have not been handed out.
func (p *Session) Unpublished() bool { return p.sendAt < len(p.frames) }

// Take hands out the next frame to publish, with ack as the sequence up to which
// everything from the peer was handled. The token names this sending of the frame, for
// Bounced; it is 0 for a frame without envelopes. ok is false when there is nothing to
// send, the peer's window is full, or the session waits to try again. The payload is
// valid until the next Take or Unsent, so only one goroutine at a time may be publishing.
func (p *Session) Take(now time.Time, ack uint64) (payload []byte, token uint64, ok bool) {
	defer p.check()
	p.lent = 0
	if p.awaitsNumber() {
		return p.hello(now, ack)
	}
	if p.sendAt < len(p.frames) && p.maySend(now) {
		f := &p.frames[p.sendAt]
		p.end(f)
		f.sends++
		p.sendAt++
		p.unacked += len(f.body())
		if p.probing || p.retryAt.IsZero() {
			p.retryAt = now.Add(RetryAfter)
		}
		p.lent = f.first
		return p.seal(f, ack), f.token(), true
	}
	return p.TakeAck(now, ack)
}

// TakeAck is Take for a process that may send only acknowledgements.
func (p *Session) TakeAck(now time.Time, ack uint64) (payload []byte, token uint64, ok bool) {
	if p.ackNow || !p.ackDueAt.IsZero() && !now.Before(p.ackDueAt) {
		return p.seal(p.empty(), ack), 0, true
	}
	return nil, 0, false
}

// Bye returns the last frame to the peer. It says that no envelope beyond ack was or will be handled.
func (p *Session) Bye(ack uint64) []byte {
	p.bye = true
	return p.seal(p.empty(), ack)
}

// LiftWindow makes Take hand out all remaining frames, even beyond the peer's window,
// because no more acknowledgements will arrive.
func (p *Session) LiftWindow() { p.window, p.probing = math.MaxInt, false }

// empty returns a frame without envelopes. Its sequence is that of the next frame to be
// handed out, so that the peer misses nothing.
func (p *Session) empty() *frame {
	f := &frame{first: p.next, buf: make([]byte, wire.MaxFrameHeader)}
	if p.sendAt < len(p.frames) {
		f.first = p.frames[p.sendAt].first
	}
	return f
}

func (p *Session) maySend(now time.Time) bool {
	if p.probing {
		return p.sendAt == p.handled && !now.Before(p.retryAt)
	}
	return p.unacked < p.window
}

// seal writes the header into the room before the body.
func (p *Session) seal(f *frame, ack uint64) []byte {
	var scratch [wire.MaxFrameHeader]byte
	h := wire.FrameHeader{
		Version: wire.FrameVersion, From: p.cfg.Self, Seq: f.first, Count: f.count,
		Ack: p.safeAck(f, ack), Handled: ack, Window: uint64(p.cfg.Window), Session: p.handshake.number,
	}
	if p.nack {
		h.Flags |= wire.FlagNack
	}
	if p.bye {
		h.Flags |= wire.FlagBye
	}
	if p.handshake.asked || p.awaitsNumber() {
		h.Hello = p.handshake.hello
		p.handshake.asked = false
	}
	p.nack, p.ackNow, p.ackDueAt, p.ackSent, p.unsaid = false, false, time.Time{}, ack, 0
	header := wire.AppendFrameHeader(scratch[:0], &h)
	start := wire.MaxFrameHeader - len(header)
	copy(f.buf[start:], header)
	return f.buf[start:]
}

// safeAck returns ack, or less, so that no frame behind f has a refusal of an envelope at
// or below it. A sender that receives an acknowledgement forgets the envelope, and sends
// later ones to another owner.
func (p *Session) safeAck(f *frame, ack uint64) uint64 {
	if p.refusals == 0 {
		return ack
	}
	for i := len(p.frames) - 1; i >= p.head && p.frames[i].first >= f.first+uint64(f.count); i-- {
		if r := p.frames[i].refuses; r > 0 {
			ack = min(ack, r-1)
		}
	}
	return ack
}

// Unsent takes back a Take whose frame the broker's client did not accept.
func (p *Session) Unsent(token uint64, now time.Time) {
	defer p.check()
	p.lent = 0
	if token == 0 {
		p.ackNow = true
		return
	}
	first, _ := sendingOf(token)
	for i := p.head; i < p.sendAt; i++ {
		if p.frames[i].first == first {
			p.frames[i].sends--
			p.rewindTo(i)
			p.probing = true
			p.retryAt = now.Add(RetryAfter)
			return
		}
	}
}

// Bounced notes that nobody listened when the frame was published, and waits before the
// next try. Envelopes of a frame that bounced every time were certainly not executed. A
// repeated bounce, or one that is older than that of a later sending, changes nothing.
func (p *Session) Bounced(token uint64, now time.Time) {
	defer p.check()
	first, sending := sendingOf(token)
	for i := p.handled; i < len(p.frames); i++ {
		if f := &p.frames[i]; f.first == first && sending > f.bounced && sending <= f.sends {
			f.bounces++
			f.bounced = sending
			p.rewindTo(p.handled)
			p.probing = true
			p.retryAt = now.Add(RetryAfter)
			return
		}
	}
}

// Rewind makes Take hand out all unhandled frames again at once. It is called when a lost
// connection is back and when the peer asks.
func (p *Session) Rewind() {
	defer p.check()
	p.rewindTo(p.handled)
	p.probing = false
	p.retryAt, p.handshake.helloAt = time.Time{}, time.Time{}
}

func (p *Session) rewindTo(i int) {
	i = max(i, p.handled)
	for j := i; j < p.sendAt; j++ {
		p.unacked -= len(p.frames[j].body())
	}
	p.sendAt = min(p.sendAt, i)
}

// Ack takes the acknowledgement and the window of a frame that Receive accepted, after
// its envelopes were handled. It reports whether more may be sent than before, because
// the peer has handled more or has sent the session's number.
func (p *Session) Ack(h *wire.FrameHeader, now time.Time) bool {
	defer p.check()
	if h.Window > 0 {
		p.window = int(min(h.Window, uint64(1<<30)))
	}
	if p.received > p.ackSent && p.ackDueAt.IsZero() {
		p.ackDueAt = now.Add(AckDelay) // the last one was sent before all was handled
	}
	handled := max(h.Ack, h.Handled)
	progress := handled < p.next && (h.Ack > p.acked || handled > p.handledTo)
	if progress {
		p.acked = max(p.acked, h.Ack)
		p.handledTo = max(p.handledTo, handled)
		p.release()
		p.probing = false
		p.retryAt = time.Time{}
		if p.sendAt > p.handled {
			p.retryAt = now.Add(RetryAfter)
		}
	}
	if h.Flags&wire.FlagNack != 0 && p.sendAt > p.handled {
		p.Rewind()
	}
	begun := p.handshake.begun // frames that waited for the number may be sent
	p.handshake.begun = false
	return progress || begun
}

// release skips the frames that the peer has handled and drops those that it has
// acknowledged, even if they were about to be sent again.
func (p *Session) release() {
	for p.handled < len(p.frames) && p.frames[p.handled].last() <= p.handledTo {
		if f := &p.frames[p.handled]; p.handled < p.sendAt {
			p.unacked -= len(f.body())
		} else {
			p.end(f)
			p.sendAt++
		}
		p.handled++
	}
	for p.head < p.handled && p.frames[p.head].last() <= p.acked {
		f := &p.frames[p.head]
		p.held -= len(f.body())
		if f.refuses > 0 {
			p.refusals--
		}
		if f.first != p.lent {
			recycle(f.buf)
		}
		*f = frame{}
		p.head++
	}
	if p.head == len(p.frames) {
		p.frames, p.head, p.handled, p.sendAt = p.frames[:0], 0, 0, 0
	}
}

// Tick sends again when that is due, and returns when to call it next. Zero means only
// after another call.
func (p *Session) Tick(now time.Time) (wake time.Time) {
	defer p.check()
	if p.sendAt > p.handled && !p.retryAt.IsZero() && !now.Before(p.retryAt) {
		p.rewindTo(p.handled)
		p.probing = true
		p.retryAt = now
	}
	if p.sendAt > p.handled || p.probing && p.handled < len(p.frames) {
		wake = p.retryAt
	}
	if p.awaitsNumber() && (p.Unpublished() || p.ackNow) {
		wake = p.handshake.helloAt
	}
	if !p.ackDueAt.IsZero() && (wake.IsZero() || p.ackDueAt.Before(wake)) {
		wake = p.ackDueAt
	}
	return wake
}

// Check returns the first broken invariant.
func (p *Session) Check() error {
	seq, unacked, held := p.acked+1, 0, 0
	for i := p.head; i < len(p.frames); i++ {
		f := &p.frames[i]
		if i == p.head {
			seq = min(seq, f.first)
		}
		if f.first != seq {
			return fmt.Errorf("session to %s: invariant 1: frame begins at %d, want %d", p.peer.Address, f.first, seq)
		}
		seq += uint64(f.count)
		held += len(f.body())
		if i >= p.handled && i < p.sendAt {
			unacked += len(f.body())
			if f.sends == 0 || !f.closed {
				return fmt.Errorf("session to %s: invariant 2: frame %d counts as sent and was not", p.peer.Address, f.first)
			}
		}
	}
	if p.head > p.handled || p.handled > p.sendAt || p.sendAt > len(p.frames) {
		return fmt.Errorf("session to %s: invariant 2: head %d, handled %d, sendAt %d of %d frames",
			p.peer.Address, p.head, p.handled, p.sendAt, len(p.frames))
	}
	if p.head < len(p.frames) && seq != p.next {
		return fmt.Errorf("session to %s: invariant 1: frames end at %d, next is %d", p.peer.Address, seq, p.next)
	}
	if unacked != p.unacked || held != p.held {
		return fmt.Errorf("session to %s: invariant 3: unacked %d, held %d, counted %d, %d", p.peer.Address, unacked, held, p.unacked, p.held)
	}
	return nil
}

func (p *Session) check() {
	if invariant.Enabled {
		if err := p.Check(); err != nil {
			invariant.Failf("%v", err)
		}
	}
}
