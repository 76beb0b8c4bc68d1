package stream

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// Errors of Append.
var (
	// ErrTooLarge means that one envelope exceeds the broker's payload limit.
	ErrTooLarge = errors.New("exceeds the broker's payload limit")
	// ErrFull means that the session holds more than MaxBuffered unacknowledged bytes.
	ErrFull = errors.New("too many bytes unacknowledged")
)

// FullError is ErrFull with the number of bytes that the session holds. Its text is formatted only
// when it is read, because a refused caller may retry very often.
type FullError struct {
	Bytes int // held by the session when it refused the envelope
	Peer  transport.Address
}

// Error implements error.
func (e *FullError) Error() string {
	return fmt.Sprintf("%v: %d bytes for %s", ErrFull, e.Bytes, e.Peer)
}

// Unwrap returns ErrFull.
func (e *FullError) Unwrap() error { return ErrFull }

// Times of a session. They are far above the round-trip time of a network and far below the time
// that a caller waits.
const (
	// RetryAfter is how long a session waits for progress before it sends unacknowledged
	// frames again, and between tries to reach an absent peer.
	RetryAfter = 200 * time.Millisecond
	// AckDelay is how long an acknowledgement may wait for a frame that carries it.
	AckDelay = 20 * time.Millisecond
	nackGap  = 10 * time.Millisecond
)

// Config has the settings of a session. All but Session and Account are the same for all sessions
// of a process.
type Config struct {
	Self transport.Peer
	// Session is the number that this side gives a session between a member and a client. It is
	// greater than those of all earlier sessions of this process with the peer. Between members it
	// is 0.
	Session     uint64
	MaxPayload  int // the broker's initial limit, in bytes; see SetLimit
	Window      int // bytes granted to the peer
	MaxBuffered int // bytes kept for the peer before calls to it are refused
	// Account bounds the bytes kept for a client until it acknowledges them; nil means no bound.
	Account *Account
}

// A Session is the stream of envelopes between this process and one peer on one lane. It is not
// safe for concurrent use.
//
// Each frame also has two numbers about envelopes of the other direction: the frame's sender has
// handled those up to Handled, and acknowledges those up to Ack. A frame acknowledges a refused
// envelope only if this frame, or an earlier one, has the refusal. The window counts from Handled,
// so two peers that refuse each other's calls do not wait for each other.
//
// Invariant: an envelope's acknowledgement never goes out before its refusal.
type Session struct {
	frames
	acks
	handshake handshake

	// Account is Config.Account. It is never changed.
	Account *Account

	cfg  Config
	peer transport.Peer

	window  int
	retryAt time.Time // zero means that nothing is under way
	owedAt  time.Time // since when the peer owes an acknowledgement; zero means it owes none
	probing bool      // the peer was absent: one frame at a time until it answers
	retries uint64    // how often Tick repeated frames; see Retries
	early   bool      // Receive has already handled the acknowledgement of the present frame
	bye     bool
}

// NewSession returns a session with peer. Both sides must make a new session for each pair of
// incarnations.
func NewSession(cfg Config, peer transport.Peer) *Session {
	return &Session{
		Account: cfg.Account, cfg: cfg, peer: peer, window: cfg.Window, handshake: newHandshake(cfg, peer),
		frames: frames{next: 1, maxPayload: cfg.MaxPayload, account: cfg.Account}, acks: acks{granted: cfg.Window},
	}
}

// Peer returns the process at the other end of the session.
func (p *Session) Peer() transport.Peer { return p.peer }

// Append adds an envelope to the stream and returns its sequence. If the session holds more than
// MaxBuffered bytes, Append refuses calls and tells with ErrFull, but never answers and control
// messages. Answers to a member are bounded by that member's own calls. Answers to a client are
// bounded by the Account: the driver checks its Excess before it runs a call.
func (p *Session) Append(e *wire.Envelope) (uint64, error) {
	size := e.SizeBound()
	if size+wire.MaxFrameHeader > p.maxPayload {
		return 0, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, size, p.maxPayload-wire.MaxFrameHeader)
	}
	if p.held > p.cfg.MaxBuffered && (e.Type == wire.TypeCall || e.Type == wire.TypeTell) {
		return 0, &FullError{Bytes: p.held, Peer: p.peer.Address}
	}
	f := p.openFrame(size)
	before := len(f.buf)
	f.buf = wire.AppendEnvelope(reserve(f.buf, size), e)
	p.held += len(f.buf) - before
	p.account.add(len(f.buf) - before)
	f.count++
	if e.Type == wire.TypeRefusal {
		p.noteRefusal(f, e)
	}
	seq := p.next
	p.next++
	return seq, nil
}

// Take returns the next frame to publish, as payload. ack is the sequence up to which this side has
// handled everything from the peer. The token identifies this sending of the frame, for Bounced; it
// is 0 for a frame without envelopes. ok is false if there is nothing to send, the peer's window is
// full, or the session waits before a retry. The payload is valid until the next Take or Unsent, so
// only one goroutine at a time may publish.
func (p *Session) Take(now time.Time, ack uint64) (payload []byte, token uint64, ok bool) {
	defer p.check()
	p.lent = 0
	if p.awaitsNumber() {
		return p.hello(now, ack)
	}
	mayRepeat := p.sendAt == p.handled && !now.Before(p.retryAt)
	if p.sendAt < len(p.list) && (p.probing && mayRepeat || !p.probing && p.unacked < p.window) {
		f := &p.list[p.sendAt]
		p.end(f)
		f.sends++
		p.sendAt++
		p.unacked += len(f.body())
		if p.probing || p.retryAt.IsZero() {
			p.retryAt = now.Add(RetryAfter)
		}
		p.lent = f.first
		if p.owedAt.IsZero() {
			p.owedAt = now
		}
		return p.seal(f, ack), f.token(), true
	}
	return p.TakeAck(now, ack)
}

// TakeAck returns a frame without envelopes, as Take does, if an acknowledgement is due.
func (p *Session) TakeAck(now time.Time, ack uint64) (payload []byte, token uint64, ok bool) {
	if p.ackNow || !p.ackDueAt.IsZero() && !now.Before(p.ackDueAt) {
		return p.seal(p.empty(), ack), 0, true
	}
	return nil, 0, false
}

// Bye returns the last frame to the peer. It says that this side has handled all envelopes up to
// ack, and will handle none beyond.
func (p *Session) Bye(ack uint64) []byte {
	p.bye = true
	return p.seal(p.empty(), ack)
}

// LiftWindow makes Take return all remaining frames, even beyond the peer's window, because no more
// acknowledgements will arrive.
func (p *Session) LiftWindow() { p.window, p.probing = math.MaxInt, false }

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

// Unsent undoes a Take whose frame the broker's client library did not accept.
func (p *Session) Unsent(token uint64, now time.Time) {
	defer p.check()
	p.lent, p.owedAt = 0, time.Time{}
	if token == 0 {
		p.ackNow = true
		return
	}
	first, _ := sendingOf(token)
	for i := p.head; i < p.sendAt; i++ {
		if p.list[i].first == first {
			p.list[i].sends--
			p.rewindTo(i)
			p.probing = true
			p.retryAt = now.Add(RetryAfter)
			return
		}
	}
}

// Bounced records the broker's report that nobody listened when a frame was published. token is
// what Take returned with that frame. The session then waits before it tries again. If all sendings
// of a frame bounced, its envelopes were certainly not executed. Bounced ignores a report that
// comes twice, or after the report of a later sending of the same frame.
func (p *Session) Bounced(token uint64, now time.Time) {
	defer p.check()
	first, sending := sendingOf(token)
	for i := p.handled; i < len(p.list); i++ {
		if f := &p.list[i]; f.first == first && sending > f.bounced && sending <= f.sends {
			f.bounces++
			f.bounced = sending
			p.rewindTo(p.handled)
			p.probing = true
			p.retryAt = now.Add(RetryAfter)
			return
		}
	}
}

// Rewind makes Take return all unhandled frames again at once. It is called when a lost connection
// to the broker is restored.
func (p *Session) Rewind() {
	defer p.check()
	p.owedAt = time.Time{}
	p.again()
}

// again makes Take return all unhandled frames at once.
func (p *Session) again() {
	p.rewindTo(p.handled)
	p.probing = false
	p.retryAt, p.handshake.helloAt = time.Time{}, time.Time{}
}

// Ack handles the acknowledgement and the window in a frame that Receive accepted. The driver calls
// Ack after it has handled the frame's envelopes. Ack returns true if this side may now send more
// than before: the peer has handled more envelopes, or has sent the session's number.
func (p *Session) Ack(h *wire.FrameHeader, now time.Time) bool {
	defer p.check()
	if h.Window > 0 {
		p.window = int(min(h.Window, uint64(1<<30)))
	}
	if p.received > p.ackSent && p.ackDueAt.IsZero() {
		p.ackDueAt = now.Add(AckDelay) // the last acknowledgement was sent before all was handled
	}
	handled := max(h.Ack, h.Handled)
	progress := handled < p.next && (h.Ack > p.acked || handled > p.handledTo)
	if progress {
		p.acked = max(p.acked, h.Ack)
		p.handledTo = max(p.handledTo, handled)
		p.release()
		p.probing = false
		p.retryAt, p.owedAt = time.Time{}, time.Time{}
		if p.sendAt > p.handled {
			p.retryAt = now.Add(RetryAfter)
		}
		if p.sendAt > p.head {
			p.owedAt = now
		}
	}
	if h.Flags&wire.FlagNack != 0 && p.sendAt > p.handled {
		p.again()
	}
	more := progress || p.handshake.begun || p.early // with the number, frames that waited for it
	p.handshake.begun, p.early = false, false
	return more
}

// Tick makes Take return frames again if they are due, and returns when to call Tick next. Zero
// means after the next call of another method.
func (p *Session) Tick(now time.Time) (wake time.Time) {
	defer p.check()
	if p.sendAt > p.handled && !p.retryAt.IsZero() && !now.Before(p.retryAt) {
		p.rewindTo(p.handled)
		p.probing = true
		p.retryAt = now
		p.retries++
	}
	if p.sendAt > p.handled || p.probing && p.handled < len(p.list) {
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

// Retries returns how often Tick has repeated frames because the peer had acknowledged nothing for
// RetryAfter.
func (p *Session) Retries() uint64 { return p.retries }

// Check returns an error for the first broken invariant.
func (p *Session) Check() error {
	if err := p.broken(); err != nil {
		return fmt.Errorf("session to %s: %w", p.peer.Address, err)
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

// Receive handles the header of a frame from the peer. It returns how many of the frame's
// envelopes, from the front, are known already. The driver must handle the rest now, in order, and
// then call Ack. If ok is false, the driver must ignore the frame and not call Ack. There are
// three reasons: an earlier frame is missing, the frame belongs to another session, or the sending
// client has no room left for answers.
func (p *Session) Receive(h *wire.FrameHeader, now time.Time) (skip uint32, ok bool) {
	defer p.check()
	last := h.Seq + uint64(h.Count) - 1 // h.Seq-1 for a frame without envelopes
	switch {
	case h.Seq == 0 || last+1 < h.Seq:
		return 0, false // foreign: sequences start at 1 and do not wrap
	case !p.belongs(h, now):
		return 0, false
	case p.Account.Excess() != Within:
		p.early = p.Ack(h, now) // before the envelopes are handled, because it may make room for them; a client refuses nothing
		if h.Count > 0 && p.held > fairBytes && p.Account.Excess() >= Crowded {
			return 0, false // the client sends it again, with a later acknowledgement
		}
	}
	switch {
	case h.Seq > p.received+1:
		if now.Sub(p.nackedAt) >= nackGap || p.nackedAt.IsZero() {
			p.nack, p.ackNow, p.nackedAt = true, true, now
		}
		return 0, false
	case h.Count > 0 && last <= p.received:
		p.ackNow = true // the acknowledgement was lost
		return h.Count, true
	}
	if h.Count > 0 {
		skip = uint32(p.received + 1 - h.Seq)
		p.received = last
		if p.ackDueAt.IsZero() {
			p.ackDueAt = now.Add(AckDelay)
		}
	}
	if h.Flags&wire.FlagAckNow != 0 {
		p.ackNow = true
	}
	return skip, true
}

// Stalled returns for how long the peer has acknowledged none of the frames sent to it. It returns
// 0 if the peer owes no acknowledgement, and while the broker cannot be reached.
func (p *Session) Stalled(now time.Time) time.Duration {
	if p.owedAt.IsZero() {
		return 0
	}
	return now.Sub(p.owedAt)
}

// Unreached reports whether the peer never noticed the session: the peer sent nothing, and every
// frame published to the peer bounced.
func (p *Session) Unreached() bool {
	if p.received > 0 || p.handledTo > 0 {
		return false
	}
	for i := p.head; i < len(p.list); i++ {
		if !p.list[i].neverArrived() {
			return false
		}
	}
	return true
}

// awaitsNumber reports whether this is a client without a session number. It may then send only an
// empty frame that asks for the number.
func (p *Session) awaitsNumber() bool { return p.cfg.Self.Client && p.handshake.number == 0 }

// hello returns the frame that asks for the session's number. ok is false if the frame is not due,
// or if nothing waits to be sent and the member has sent nothing.
func (p *Session) hello(now time.Time, ack uint64) (payload []byte, token uint64, ok bool) {
	if !p.Unpublished() && !p.ackNow || now.Before(p.handshake.helloAt) {
		return nil, 0, false
	}
	p.handshake.helloAt = now.Add(RetryAfter)
	return p.seal(p.empty(), ack), 0, true
}

// belongs reports whether a frame belongs to this session, and not to a dropped one.
func (p *Session) belongs(h *wire.FrameHeader, now time.Time) bool {
	switch {
	case p.peer.Client && h.Session == 0:
		p.ackNow = p.handshake.question(h.Hello) || p.ackNow
		return false
	case p.peer.Client:
		if h.Session != p.handshake.number && (p.nackedAt.IsZero() || now.Sub(p.nackedAt) >= nackGap) {
			p.ackNow, p.nackedAt = true, now // any frame says the number
		}
		return h.Session == p.handshake.number
	case p.cfg.Self.Client && (h.Session == 0 || h.Session != p.handshake.number):
		belongs, ask := p.handshake.answer(h)
		p.ackNow = p.ackNow || ask
		return belongs
	}
	return true
}

// Dropped reports whether a frame has shown that the peer dropped its side of the
// session. This side must then begin a new session with that frame.
func (p *Session) Dropped() bool { return p.handshake.dropped }

// Goodbye reports whether a frame is the goodbye of a client that never used this session, and
// therefore never learnt the session's number.
func (p *Session) Goodbye(h *wire.FrameHeader) bool {
	return p.peer.Client && h.Session == 0 && h.Flags&wire.FlagBye != 0 && h.Hello >= p.handshake.hello && p.received == 0
}

// Shrink undoes a Take whose frame exceeds limit, the broker's present payload limit in bytes. It
// divides the frames that are still to be sent so that they fit. Sequences stay the same, so the
// peer skips envelopes that it has received. Shrink removes and returns each envelope that is too
// large for a frame of its own. In place of a result it sends the answer "too large", in place of
// another envelope an empty one. If it removes a part of a shard's state, it empties all parts that
// still wait, also the last one, so that the new home does not take an incomplete state for the
// whole.
func (p *Session) Shrink(token uint64, limit int) (out []Oversize) {
	defer p.check()
	p.lent = 0
	p.maxPayload = limit
	first, _ := sendingOf(token)
	for i := p.head; i < p.sendAt; i++ {
		if p.list[i].first == first {
			p.list[i].sends--
			p.rewindTo(i)
			break
		}
	}
	for i := p.sendAt; i < len(p.list); i++ {
		if len(p.list[i].buf) <= limit {
			continue
		}
		parts, over := p.divide(&p.list[i])
		p.list = slices.Replace(p.list, i, i+1, parts...)
		i += len(parts) - 1
		out = append(out, over...)
	}
	for i := range out {
		if out[i].Envelope.Type == wire.TypeInit {
			p.voidState(&out[i].Envelope)
		}
	}
	p.release() // the peer may have handled a part
	return out
}

type acks struct {
	granted  int    // bytes granted to the peer
	received uint64 // the highest sequence received without a gap
	nackedAt time.Time
	nack     bool   // the next frame asks for the missing frames
	ackSent  uint64 // the last acknowledgement that was sent
	unsaid   int    // bytes of the frames handled since the last acknowledgement was sent
	ackDueAt time.Time
	ackNow   bool
}

// Received returns the highest sequence that was received without a gap.
func (a *acks) Received() uint64 { return a.received }

// AckOwed records that a frame of the given size, and everything up to ack, was handled. If the
// frames since the last acknowledgement fill a quarter of the window, AckOwed makes the next Take
// send an acknowledgement, and returns true. Without it the peer may soon have to wait.
func (a *acks) AckOwed(ack uint64, bytes int) bool {
	if a.unsaid += bytes; a.unsaid >= a.granted/4 && ack > a.ackSent {
		a.ackNow = true
	}
	return a.ackNow
}

// AckSoon makes the next Take send an acknowledgement.
func (a *acks) AckSoon() { a.ackNow = true }
