package peers

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/transport"
)

// A client chooses its incarnation itself, and this process keeps sessions for each incarnation. So
// one program could appear as any number of clients. But the broker grants a client's name, so the
// number of clients of one name is bounded. Clients that end without a goodbye are detected.
const (
	// MaxNamed is the greatest number of clients of one name with which a process has sessions.
	MaxNamed = 1024
	// unusedFor is how long a process keeps sessions that a client has not used. A client sends its
	// first message a round trip after it has asked for a session's number.
	unusedFor = 30 * time.Second
	// silentFor is the silence after which a client is probed. If nobody listens at the client's
	// address for clientPatience, the sessions with the client end.
	silentFor = time.Minute
	// stalledFor is how long a listening client may leave all frames unacknowledged.
	stalledFor = time.Minute
)

// A name counts the clients that have the same name, and the bytes kept for them. These clients
// share a bound, because they trust each other.
type name struct {
	clients int
	account *stream.Account // counts the bytes that are kept for these clients
}

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

// lastHeard returns when the client last sent anything, and whether it has used a session.
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

func (p *peer) stalled(now time.Time) (most time.Duration) {
	for _, session := range p.sessions {
		session.Lock()
		most = max(most, session.Core.Stalled(now))
		session.Unlock()
	}
	return most
}

// probe sends the client an acknowledgement, at most once in silentFor/2, on the first session that
// has carried messages. If nobody listens, the broker reports that, and NobodyListens later drops
// the client.
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
