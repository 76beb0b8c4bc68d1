package detector

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// An Elsewhere holds the answers about a member that is at another server than this node. The
// answers come from the member's server, because only that server knows at once that it has lost
// the member's connection. If this node's server reports that nobody listens, it may only have lost
// the path to the member's server.
type Elsewhere struct {
	server message.ServerMark
	due    time.Time // when the next question is due
	latest time.Time // when the latest answered question was asked
	// first is when the first question with the answer "nobody listens" was asked; since is when
	// that answer came. Both are zero if somebody has listened since.
	first, since time.Time
	last         time.Time // when the latest question with that answer was asked
	count        int       // of such answers
}

// Ask asks the server about the member, if a question is due.
func (e *Elsewhere) Ask(n *core.Base, member transport.Address, server message.ServerMark, interval time.Duration) {
	if e.server != server {
		*e = Elsewhere{server: server}
	}
	if n.Due(&e.due, interval) {
		n.Out.Ask = append(n.Out.Ask, core.Question{Peer: member, Server: server, At: n.Now})
	}
}

// Answered handles an answer, and returns false if the answer does not count. An answer does not
// count if it comes from a server other than the member's, or if its question was asked before the
// latest answered question.
func (e *Elsewhere) Answered(in core.Asked, now time.Time) bool {
	if in.Server != e.server || in.At.Before(e.latest) {
		return false
	}
	e.latest = in.At
	if in.Listens {
		*e = Elsewhere{server: e.server, due: now.Add(time.Second), latest: in.At}
		return true
	}
	if e.since.IsZero() {
		e.first, e.since = in.At, now
	}
	e.last = in.At
	e.count++
	return true
}

// Lost reports whether the server has answered for the given time, and recently too, that nobody
// listens.
func (e *Elsewhere) Lost(server message.ServerMark, long, interval time.Duration, now time.Time) bool {
	return e.Counts(server, interval, now) && e.count >= absentProbes && !e.last.Before(e.since.Add(long))
}

// Counts reports whether the server has answered that nobody listens, recently enough for Lost. If
// somebody listens, the fault may be in this node's path to the member.
func (e *Elsewhere) Counts(server message.ServerMark, interval time.Duration, now time.Time) bool {
	return e.server == server && e.count > 0 && now.Sub(e.last) <= absentProbes*interval
}

// Lately returns when this node asked the first question to which the server answered "nobody
// listens" since somebody last listened, and when that answer came. Both are zero if there is none.
func (e *Elsewhere) Lately(server message.ServerMark) (asked, answered time.Time) {
	if e.server != server {
		return time.Time{}, time.Time{}
	}
	return e.first, e.since
}
