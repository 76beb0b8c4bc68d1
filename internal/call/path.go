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
	// ErrTooLarge: one envelope exceeds what the broker takes.
	ErrTooLarge = errors.New("exceeds the broker's payload limit")
	// ErrFull: the path holds MaxBuffered bytes that the peer has not acknowledged.
	ErrFull = errors.New("too much unacknowledged")
)

// FullError is ErrFull with what the path holds. Its text is made when somebody reads
// it, for who is refused may try again very often.
type FullError struct {
	Bytes int // that the path held when it refused the envelope
	Peer  transport.Address
}

// Error reads cause: what.
func (e *FullError) Error() string {
	return fmt.Sprintf("%v: %d bytes for %s", ErrFull, e.Bytes, e.Peer)
}

// Unwrap is ErrFull.
func (e *FullError) Unwrap() error { return ErrFull }

// Times of a path. They are far above a round trip on a network and far below
// what a caller waits for.
const (
	// RetryAfter is how long a path waits for progress before it sends again
	// what was not acknowledged, and between tries to reach an absent peer.
	RetryAfter = 200 * time.Millisecond
	// AckDelay is how long an acknowledgement may wait for a frame to ride on.
	AckDelay = 20 * time.Millisecond
	// nackGap is the least time between two requests to send again.
	nackGap = 10 * time.Millisecond
)

// frameBytes is where a frame is full: batches beyond it gain nothing.
const frameBytes = 64 << 10

// Config is a path's settings; but for Session they are equal for all paths of a process.
type Config struct {
	Self transport.Peer
	// Session numbers this side of a path between a member and a client: it is greater than
	// that of each path that this process had to the peer before. 0 between members.
	Session     uint64
	MaxPayload  int // of the broker, in bytes, to begin with; see SetLimit
	Window      int // bytes granted to the peer
	MaxBuffered int // bytes kept for the peer before calls are refused
}

// A Path is the stream of envelopes between this process and one peer on one
// lane. It is not safe for concurrent use.
//
// The window counts what the peer has not handled, the acknowledgement what it
// has not handled or whose refusal has not come. So of two peers that refuse
// each other's calls neither waits for the other.
//
// Invariants:
//  1. acked ≤ every held sequence < next, without gaps.
//  2. head ≤ handled ≤ sendAt ≤ the number of frames, and frames before sendAt
//     were handed out at least once.
//  3. unacked is the sum of the bodies of the frames from handled to sendAt, and
//     held that of all frames from head.
//  4. An acknowledgement never goes out before a refusal below it.
type Path struct {
	cfg  Config
	peer transport.Peer

	// Sending. frames[head:] hold what is not acknowledged, oldest first; the
	// last one may still be open.
	next      uint64
	acked     uint64
	handledTo uint64 // what the peer has handled: at least acked
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
	received uint64
	nackedAt time.Time
	nack     bool
	ackSent  uint64
	unsaid   int // bytes of frames that were handled since an acknowledgement was sent
	ackDueAt time.Time
	ackNow   bool
	bye      bool
	session  session
}

// frame is one batch of encoded envelopes behind room for a header.
type frame struct {
	first   uint64
	refuses uint64 // the lowest sequence that a refusal in it names; 0: none
	count   uint32
	sends   uint32
	bounces uint32 // sendings that bounced
	bounced uint32 // the latest of those
	closed  bool
	buf     []byte // wire.MaxFrameHeader bytes of room, then the envelopes
}

func (f *frame) last() uint64 { return f.first + uint64(f.count) - 1 }
func (f *frame) body() []byte { return f.buf[wire.MaxFrameHeader:] }

// neverArrived reports whether each sending of the frame bounced, if there was any.
func (f *frame) neverArrived() bool { return f.sends == f.bounces }

// sendBits are the bits of a token that number the sendings of one frame. Beyond 65,535,
// which are hours of tries, they begin anew; no bounce is believed then.
const sendBits = 16

// token names the latest sending of the frame. It is not 0.
func (f *frame) token() uint64 { return f.first<<sendBits | uint64(f.sends)&(1<<sendBits-1) }

// sendingOf is the frame and the sending that a token names.
func sendingOf(token uint64) (first uint64, sending uint32) {
	return token >> sendBits, uint32(token & (1<<sendBits - 1))
}

// NewPath returns the path to peer. Both sides must make theirs anew for each
// pair of incarnations.
func NewPath(cfg Config, peer transport.Peer) *Path {
	return &Path{cfg: cfg, peer: peer, next: 1, window: cfg.Window, session: newSession(cfg, peer)}
}

// Peer is the other end.
func (p *Path) Peer() transport.Peer { return p.peer }

// Next is the sequence that the next appended envelope gets.
func (p *Path) Next() uint64 { return p.next }

// Acked is the highest sequence up to which the peer has handled everything.
func (p *Path) Acked() uint64 { return p.acked }

// Append adds an envelope to the stream and returns its sequence. Calls and
// tells are refused with ErrFull above MaxBuffered; answers and control
// messages are not, for calls bound them.
func (p *Path) Append(e *wire.Envelope) (uint64, error) {
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

// noteRefusal is for each envelope that comes into a frame.
func (p *Path) noteRefusal(f *frame, e *wire.Envelope) {
	if e.Type != wire.TypeRefusal || e.Seq == 0 {
		return
	}
	if f.refuses == 0 {
		p.refusals++
		f.refuses = e.Seq
	}
	f.refuses = min(f.refuses, e.Seq)
}

func (p *Path) openFrame(size int) *frame {
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

// end has the next envelope begin a frame of its own.
func (p *Path) end(f *frame) {
	if !f.closed {
		f.closed, p.usual = true, len(f.buf)
	}
}

func (p *Path) compact() {
	n := copy(p.frames, p.frames[p.head:])
	clear(p.frames[n:])
	p.frames = p.frames[:n]
	p.handled -= p.head
	p.sendAt -= p.head
	p.head = 0
}

// Full tells that at least one frame takes no more and waits to be published.
func (p *Path) Full() bool { return len(p.frames)-p.sendAt > 1 }

// Unpublished tells that something was appended and not handed out since.
func (p *Path) Unpublished() bool { return p.sendAt < len(p.frames) }

// Take hands out the next frame to publish, with ack as the sequence up to which
// everything from the peer was handled. The token names this sending of the frame
// when the broker bounces it; 0: there is nothing to bounce. ok is false when there is nothing to send, the peer's
// window is full, or the path waits to try again. The payload is valid until
// the next Take or Unsent, so only one goroutine at a time may be publishing.
func (p *Path) Take(now time.Time, ack uint64) (payload []byte, token uint64, ok bool) {
	defer p.check()
	p.lent = 0
	if p.awaitsSession() {
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

// TakeAck is Take for a process that may say nothing but what it has handled.
func (p *Path) TakeAck(now time.Time, ack uint64) (payload []byte, token uint64, ok bool) {
	if p.ackNow || !p.ackDueAt.IsZero() && !now.Before(p.ackDueAt) {
		return p.seal(p.empty(), ack), 0, true
	}
	return nil, 0, false
}

// Bye is the last frame to the peer: nothing beyond ack is or will be handled.
func (p *Path) Bye(ack uint64) []byte {
	p.bye = true
	return p.seal(p.empty(), ack)
}

// LiftWindow has Take hand out all that is left, whether or not the peer has room: no
// acknowledgement will come that grants any.
func (p *Path) LiftWindow() { p.window, p.probing = math.MaxInt, false }

// empty is a frame without envelopes, at the place in the stream that was
// reached: what waits is not missing.
func (p *Path) empty() *frame {
	f := &frame{first: p.next, buf: make([]byte, wire.MaxFrameHeader)}
	if p.sendAt < len(p.frames) {
		f.first = p.frames[p.sendAt].first
	}
	return f
}

func (p *Path) maySend(now time.Time) bool {
	if p.probing {
		return p.sendAt == p.handled && !now.Before(p.retryAt)
	}
	return p.unacked < p.window
}

// seal writes the header into the room before the body.
func (p *Path) seal(f *frame, ack uint64) []byte {
	var scratch [wire.MaxFrameHeader]byte
	h := wire.FrameHeader{
		Version: wire.FrameVersion, From: p.cfg.Self, Seq: f.first, Count: f.count,
		Ack: p.safeAck(f, ack), Handled: ack, Window: uint64(p.cfg.Window), Session: p.session.number,
	}
	if p.nack {
		h.Flags |= wire.FlagNack
	}
	if p.bye {
		h.Flags |= wire.FlagBye
	}
	if p.session.asked || p.awaitsSession() {
		h.Hello = p.session.hello
		p.session.asked = false
	}
	p.nack, p.ackNow, p.ackDueAt, p.ackSent, p.unsaid = false, false, time.Time{}, ack, 0
	header := wire.AppendFrameHeader(scratch[:0], &h)
	start := wire.MaxFrameHeader - len(header)
	copy(f.buf[start:], header)
	return f.buf[start:]
}

// safeAck is ack, as far as no refusal below it stands in a frame behind f:
// whoever sees an acknowledgement gives the envelope up, and lets younger ones
// pass to another owner.
func (p *Path) safeAck(f *frame, ack uint64) uint64 {
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
func (p *Path) Unsent(token uint64, now time.Time) {
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

// Bounced notes that nobody listened when the frame was published, and waits
// before the next try. What bounced every time was certainly not executed. A
// bounce that comes again, or behind that of a later sending, changes nothing.
func (p *Path) Bounced(token uint64, now time.Time) {
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

// Rewind sends everything again that was not handled, at once: the connection
// was lost and is back, or the peer asked.
func (p *Path) Rewind() {
	defer p.check()
	p.rewindTo(p.handled)
	p.probing = false
	p.retryAt, p.session.helloAt = time.Time{}, time.Time{}
}

func (p *Path) rewindTo(i int) {
	i = max(i, p.handled)
	for j := i; j < p.sendAt; j++ {
		p.unacked -= len(p.frames[j].body())
	}
	p.sendAt = min(p.sendAt, i)
}

// Ack takes the acknowledgement and the window of a frame that Receive accepted,
// after its envelopes were handled. It reports whether more may be sent
// than before: the peer got further, or has said the path's number.
func (p *Path) Ack(h *wire.FrameHeader, now time.Time) bool {
	defer p.check()
	if h.Window > 0 {
		p.window = int(min(h.Window, uint64(1<<30)))
	}
	if p.received > p.ackSent && p.ackDueAt.IsZero() {
		p.ackDueAt = now.Add(AckDelay) // the last one went before all was handled
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
	begun := p.session.begun // what waited for the number may go
	p.session.begun = false
	return progress || begun
}

// release passes over the frames that the peer has handled and drops those that
// it has acknowledged, also when they were about to be sent again.
func (p *Path) release() {
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

// Tick tries again when its time has come and returns when to call next; zero
// means not before something else happens.
func (p *Path) Tick(now time.Time) (wake time.Time) {
	defer p.check()
	if p.sendAt > p.handled && !p.retryAt.IsZero() && !now.Before(p.retryAt) {
		p.rewindTo(p.handled)
		p.probing = true
		p.retryAt = now
	}
	if p.sendAt > p.handled || p.probing && p.handled < len(p.frames) {
		wake = p.retryAt
	}
	if p.awaitsSession() && (p.Unpublished() || p.ackNow) {
		wake = p.session.helloAt
	}
	if !p.ackDueAt.IsZero() && (wake.IsZero() || p.ackDueAt.Before(wake)) {
		wake = p.ackDueAt
	}
	return wake
}

// Check returns the first broken invariant.
func (p *Path) Check() error {
	seq, unacked, held := p.acked+1, 0, 0
	for i := p.head; i < len(p.frames); i++ {
		f := &p.frames[i]
		if i == p.head {
			seq = min(seq, f.first)
		}
		if f.first != seq {
			return fmt.Errorf("path to %s: invariant 1: frame begins at %d, want %d", p.peer.Address, f.first, seq)
		}
		seq += uint64(f.count)
		held += len(f.body())
		if i >= p.handled && i < p.sendAt {
			unacked += len(f.body())
			if f.sends == 0 || !f.closed {
				return fmt.Errorf("path to %s: invariant 2: frame %d counts as sent and was not", p.peer.Address, f.first)
			}
		}
	}
	if p.head > p.handled || p.handled > p.sendAt || p.sendAt > len(p.frames) {
		return fmt.Errorf("path to %s: invariant 2: head %d, handled %d, sendAt %d of %d frames",
			p.peer.Address, p.head, p.handled, p.sendAt, len(p.frames))
	}
	if p.head < len(p.frames) && seq != p.next {
		return fmt.Errorf("path to %s: invariant 1: frames end at %d, next is %d", p.peer.Address, seq, p.next)
	}
	if unacked != p.unacked || held != p.held {
		return fmt.Errorf("path to %s: invariant 3: unacked %d, held %d, counted %d, %d", p.peer.Address, unacked, held, p.unacked, p.held)
	}
	return nil
}

func (p *Path) check() {
	if invariant.Enabled {
		if err := p.Check(); err != nil {
			invariant.Failf("%v", err)
		}
	}
}
