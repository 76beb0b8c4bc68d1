package stream

import (
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// A client may be away for so long that a member drops its session with the client, and all
// sequences with it. When the client comes back, envelopes that it sends again must not be taken
// for new ones. So each side numbers its sessions with the other, and a session belongs to one pair
// of numbers. The client asks for the member's number with an empty frame that has the client's
// number (Hello). It adopts only the number in the answer to that frame, and sends nothing else
// before. A member handles only frames that have its number (Session), so it needs no record of
// dropped sessions.
//
// For a client, a greater Session means that the member has dropped the session, and the session's
// calls may have run. For a member, a greater Hello means that the client has dropped it. Either
// side then begins a new session. Smaller numbers belong to dropped sessions and are ignored.
// Members do not drop each other while they are members, and have no numbers.

// handshake has the numbers by which a member and a client identify their session.
type handshake struct {
	number  uint64    // the member's number; 0 means that the member has not sent it yet
	hello   uint64    // the client's number; 0 means that the client has not asked yet
	asked   bool      // the client is to be answered
	begun   bool      // the frame being received has brought the number
	dropped bool      // the peer has dropped the session
	helloAt time.Time // when to ask for the number again
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

// question handles a client's request for the session's number. It reports whether the member must
// answer now.
func (s *handshake) question(hello uint64) bool {
	switch {
	case hello < s.hello || hello == 0: // no number, or the number of a session that the client has dropped
	case s.hello > 0 && hello > s.hello:
		s.dropped = true // all frames so far belong to the client's former session
	default:
		s.hello, s.asked = hello, true
		return true
	}
	return false
}

// answer handles a member's frame with another session number than the client's. belongs: the
// frame belongs to the session; ask: the client must ask for the number.
func (s *handshake) answer(h *wire.FrameHeader) (belongs, ask bool) {
	switch {
	case h.Session == 0: // foreign
		return false, false
	case s.number == 0 && h.Hello != s.hello:
		return false, true // the frame may belong to an earlier session of this client
	case s.number == 0:
		s.number, s.begun = h.Session, true
	case h.Session > s.number:
		s.dropped = true
	}
	return h.Session == s.number, false
}
