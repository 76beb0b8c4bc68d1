package call

import (
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// A client may be away for so long that a member drops its path to it, with all that it
// knew of the client's sequences. When the client comes back, what it sends again must
// not be taken for new. So each side numbers its paths to the other one, and a path
// belongs to one pair of numbers: the client asks for the member's number with an empty
// frame that names its own (Hello), adopts only the answer to that question, and sends
// nothing else before. A member handles only frames that name its number (Session). So it
// needs no memory of what it dropped.
//
// A client that hears a greater session knows that the member has dropped the path: what
// was sent may have run. A member that hears a greater hello knows that the client has.
// Either then begins a new path. Smaller numbers are of paths that were dropped, and are
// ignored. Members do not drop each other while they are members, and have no sessions.

// session is the state of a path between a member and a client.
type session struct {
	number  uint64    // the member's; 0: it has not said it yet
	hello   uint64    // the client's; 0: it has not asked yet
	asked   bool      // the client is to be answered
	begun   bool      // the number has come with the frame under way
	dropped bool      // the peer has dropped the path
	helloAt time.Time // when to ask for the number, again
}

func newSession(cfg Config, peer transport.Peer) session {
	switch {
	case peer.Client:
		return session{number: cfg.Session}
	case cfg.Self.Client:
		return session{hello: cfg.Session}
	}
	return session{}
}

// awaitsSession reports whether nothing may be sent yet but an empty frame that asks for
// the path's number.
func (p *Path) awaitsSession() bool { return p.cfg.Self.Client && p.session.number == 0 }

// hello is the frame that asks for the path's number, when it is time and something
// waits to be sent, or the member has sent something.
func (p *Path) hello(now time.Time, ack uint64) (payload []byte, token uint64, ok bool) {
	if !p.Unpublished() && !p.ackNow || now.Before(p.session.helloAt) {
		return nil, 0, false
	}
	p.session.helloAt = now.Add(RetryAfter)
	return p.seal(p.empty(), ack), 0, true
}

// ofSession reports whether the frame belongs to this path, and not to one that either
// side has dropped.
func (p *Path) ofSession(h *wire.FrameHeader, now time.Time) bool {
	switch {
	case p.peer.Client && h.Session == 0:
		p.question(h.Hello)
		return false
	case p.peer.Client:
		if h.Session != p.session.number && (p.nackedAt.IsZero() || now.Sub(p.nackedAt) >= nackGap) {
			p.ackNow, p.nackedAt = true, now // any frame says the number
		}
		return h.Session == p.session.number
	case p.cfg.Self.Client:
		return p.answer(h)
	}
	return true
}

// question is a client's for the number of this path.
func (p *Path) question(hello uint64) {
	s := &p.session
	switch {
	case hello < s.hello || hello == 0: // of a path that the client has dropped
	case s.hello > 0 && hello > s.hello:
		s.dropped = true // what either side sent so far is of the client's path before
	default:
		s.hello, s.asked, p.ackNow = hello, true, true
	}
}

// answer reports whether a member's frame belongs to this client's path.
func (p *Path) answer(h *wire.FrameHeader) bool {
	s := &p.session
	switch {
	case h.Session == 0: // foreign
		return false
	case s.number == 0 && h.Hello != s.hello:
		p.ackNow = true // the member's path may be of one that this client had before: ask
		return false
	case s.number == 0:
		s.number, s.begun = h.Session, true
	case h.Session > s.number:
		s.dropped = true
	}
	return h.Session == s.number
}

// Dropped reports whether the peer has dropped its side of the path, as a frame has
// shown: this side must begin a new path, with this frame.
func (p *Path) Dropped() bool { return p.session.dropped }

// Farewell reports whether the frame is a goodbye of a client that has used this path for
// nothing, and so never learnt its number.
func (p *Path) Farewell(h *wire.FrameHeader) bool {
	return p.peer.Client && h.Session == 0 && h.Flags&wire.FlagBye != 0 && h.Hello >= p.session.hello && p.received == 0
}
