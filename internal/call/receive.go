package call

import (
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// Receive takes the header of a frame from the peer and returns how many of its
// envelopes, from the front, are known already; the others must be handled now,
// in order. ok is false when the whole frame must be ignored, its
// acknowledgement too: something before it is missing, or it is old, or of a session
// that was dropped.
//
// After a frame with ok the driver handles the envelopes and then calls Ack.
func (p *Session) Receive(h *wire.FrameHeader, now time.Time) (skip uint32, ok bool) {
	defer p.check()
	last := h.Seq + uint64(h.Count) - 1 // h.Seq-1 for a frame without envelopes
	switch {
	case h.Seq == 0 || last+1 < h.Seq:
		return 0, false // foreign: sequences start at 1 and do not wrap
	case !p.belongs(h, now):
		return 0, false
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

// Unreached reports whether the peer never heard of the session: it sent nothing, and
// every frame that was published to it bounced.
func (p *Session) Unreached() bool {
	if p.received > 0 || p.handledTo > 0 {
		return false
	}
	for i := p.head; i < len(p.frames); i++ {
		if !p.frames[i].neverArrived() {
			return false
		}
	}
	return true
}

// Received returns the highest sequence received without a gap.
func (p *Session) Received() uint64 { return p.received }

// AckOwed ends a frame of that many bytes, all handled with ack. It makes the next Take
// send an acknowledgement, and returns true, if the frames since the last one fill a
// quarter of the window, because the peer may soon have to wait for it.
func (p *Session) AckOwed(ack uint64, bytes int) bool {
	if p.unsaid += bytes; p.unsaid >= p.cfg.Window/4 && ack > p.ackSent {
		p.ackNow = true
	}
	return p.ackNow
}

// AckSoon makes the next Take send an acknowledgement.
func (p *Session) AckSoon() { p.ackNow = true }

// A client may be away for so long that a member drops its session with the client and
// all sequences with it. When the client comes back, envelopes that it sends again must
// not be taken for new ones. So each side numbers its sessions with the other, and a
// session belongs to one pair of numbers. The client asks for the member's number with an
// empty frame that has its own (Hello), adopts only the answer to that question, and
// sends nothing else before. A member handles only frames that have its number (Session),
// so it needs no record of dropped sessions.
//
// A client that receives a greater Session knows that the member has dropped the session,
// and that its calls may have run. A member that receives a greater Hello knows that the
// client has dropped it. Either then begins a new session. Smaller numbers belong to
// dropped sessions and are ignored. Members do not drop each other while they are
// members, and have no numbers.

// handshake has the numbers of a session between a member and a client.
type handshake struct {
	number  uint64    // the member's; 0: it has not said it yet
	hello   uint64    // the client's; 0: it has not asked yet
	asked   bool      // the client is to be answered
	begun   bool      // the number has come with the frame under way
	dropped bool      // the peer has dropped the session
	helloAt time.Time // when to ask for the number, again
}

func newHandshake(cfg Config, peer transport.Peer) handshake {
	switch {
	case peer.Client:
		return handshake{number: cfg.Session}
	case cfg.Self.Client:
		return handshake{hello: cfg.Session}
	}
	return handshake{}
}

// awaitsNumber reports whether only an empty frame that asks for the session's number may
// be sent.
func (p *Session) awaitsNumber() bool { return p.cfg.Self.Client && p.handshake.number == 0 }

// hello returns the frame that asks for the session's number. ok is false before the next
// try is due, and while nothing waits to be sent and the member has sent nothing.
func (p *Session) hello(now time.Time, ack uint64) (payload []byte, token uint64, ok bool) {
	if !p.Unpublished() && !p.ackNow || now.Before(p.handshake.helloAt) {
		return nil, 0, false
	}
	p.handshake.helloAt = now.Add(RetryAfter)
	return p.seal(p.empty(), ack), 0, true
}

// belongs reports whether the frame belongs to this session, and not to one that either
// side has dropped.
func (p *Session) belongs(h *wire.FrameHeader, now time.Time) bool {
	switch {
	case p.peer.Client && h.Session == 0:
		p.question(h.Hello)
		return false
	case p.peer.Client:
		if h.Session != p.handshake.number && (p.nackedAt.IsZero() || now.Sub(p.nackedAt) >= nackGap) {
			p.ackNow, p.nackedAt = true, now // any frame says the number
		}
		return h.Session == p.handshake.number
	case p.cfg.Self.Client:
		return p.answer(h)
	}
	return true
}

// question takes a client's question for the number of this session.
func (p *Session) question(hello uint64) {
	s := &p.handshake
	switch {
	case hello < s.hello || hello == 0: // of a session that the client has dropped
	case s.hello > 0 && hello > s.hello:
		s.dropped = true // all frames so far belong to the client's former session
	default:
		s.hello, s.asked, p.ackNow = hello, true, true
	}
}

// answer reports whether a member's frame belongs to this client's session.
func (p *Session) answer(h *wire.FrameHeader) bool {
	s := &p.handshake
	switch {
	case h.Session == 0: // foreign
		return false
	case s.number == 0 && h.Hello != s.hello:
		p.ackNow = true // the member's session may be of one that this client had before: ask
		return false
	case s.number == 0:
		s.number, s.begun = h.Session, true
	case h.Session > s.number:
		s.dropped = true
	}
	return h.Session == s.number
}

// Dropped reports whether a frame has shown that the peer dropped its side of the
// session. This side must then begin a new session with that frame.
func (p *Session) Dropped() bool { return p.handshake.dropped }

// Goodbye reports whether the frame is the goodbye of a client that never used this
// session, and so never learnt its number.
func (p *Session) Goodbye(h *wire.FrameHeader) bool {
	return p.peer.Client && h.Session == 0 && h.Flags&wire.FlagBye != 0 && h.Hello >= p.handshake.hello && p.received == 0
}
