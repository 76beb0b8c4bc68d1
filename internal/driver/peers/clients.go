package peers

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/transport"
)

// Clients choose their incarnations, and each incarnation makes this process keep the sessions of
// one more client. Therefore the number of clients of one name, granted by the broker, is bounded,
// and clients that depart without a goodbye are detected.
const (
	// MaxNamed bounds the clients of one name that a process has sessions with.
	MaxNamed = 1024
	// unusedFor is how long a client keeps sessions on which it sends nothing. A client that asks
	// for a session's number sends its first message a round trip later.
	unusedFor = 30 * time.Second
	// silentFor is the silence after which a client is sent a message, to learn from the broker
	// whether the client still listens. If nobody listens, the client's sessions end after
	// clientPatience.
	silentFor = time.Minute
	// stalledFor is how long a client that listens may leave all frames sent to it unacknowledged.
	stalledFor = time.Minute
)

// A name has what is counted for all clients of one name together. These clients trust each other.
type name struct {
	clients int
	account *stream.Account // counts the bytes that are kept for these clients
}

// nameLocked counts one more client of that name. It reports false if there are MaxNamed already.
func (s *Set) nameLocked(of string) bool {
	n := s.named[of]
	if n == nil {
		n = &name{account: stream.NewAccount(s.cfg.AnswerBytes, nil)}
		s.named[of] = n
	}
	if n.clients >= MaxNamed {
		return false
	}
	n.clients++
	return true
}

// A peer is another process with its sessions. It is immutable.
type peer struct {
	transport.Peer
	sessions []*Session // one for each lane
	began    time.Time
}

// lastHeard returns when the client last sent anything, and whether it has used any of its
// sessions.
func (p *peer) lastHeard() (heard time.Time, used bool) {
	for _, session := range p.sessions {
		session.Lock()
		if at := session.HeardLocked(); at.After(heard) {
			heard = at
		}
		used = used || session.UsedLocked()
		session.Unlock()
	}
	return heard, used
}

// stalled returns for how long the client has acknowledged nothing. Of several sessions the longest
// time counts.
func (p *peer) stalled(now time.Time) (most time.Duration) {
	for _, session := range p.sessions {
		session.Lock()
		most = max(most, session.Core.Stalled(now))
		session.Unlock()
	}
	return most
}

// probe sends an acknowledgement on a session that was used. If nobody listens at the client's
// address, the broker reports that, and after clientPatience NobodyListens drops the client.
func (p *peer) probe(now time.Time) {
	for _, session := range p.sessions {
		session.Lock()
		used := session.UsedLocked() && !session.DepartedLocked()
		due := used && now.Sub(session.probed) >= silentFor/2
		if due {
			session.probed = now
		}
		session.Unlock()
		if due {
			session.AckSoon()
			session.Flush()
		}
		if used {
			return
		}
	}
}
