package peers

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/transport"
)

// Clients choose their incarnations freely, and each incarnation costs the sessions of one client.
// The broker grants the name, so the clients of one name are bounded in number. A client that has
// departed without a goodbye is detected.
const (
	// MaxNamed bounds the clients of one name with which a process has sessions.
	MaxNamed = 1024
	// unusedFor is how long a client has sessions without a message on any of them. A client
	// that asks for a session's number sends its first message a round trip later.
	unusedFor = 30 * time.Second
	// silentFor is after how long without a message a client is sent one, so that the broker
	// says whether it still listens. It has clientPatience from the first such report on.
	silentFor = time.Minute
	// stalledFor is for how long a client may acknowledge none of the frames that are sent to it, although
	// it listens.
	stalledFor = time.Minute
)

// A name is what the clients of one name, which trust each other, have together.
type name struct {
	clients int
	account *stream.Account // of what is kept for them
}

// nameLocked counts one more client of that name. It reports false if there are too many.
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

// A peer is another process. It is never changed.
type peer struct {
	transport.Peer
	sessions []*Session // one for each lane
	began    time.Time
}

// lastHeard returns when the client last sent anything, and whether any of its sessions was used.
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

// stalled returns for how long the client has acknowledged nothing that was sent to it.
func (p *peer) stalled(now time.Time) (most time.Duration) {
	for _, session := range p.sessions {
		session.Lock()
		most = max(most, session.Core.Stalled(now))
		session.Unlock()
	}
	return most
}

// probe sends an acknowledgement on a session that was used. If the broker reports that nobody
// listens, NobodyListens drops the client in the end.
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
