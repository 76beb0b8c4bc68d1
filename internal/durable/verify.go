package durable

import (
	"errors"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// A verify looks whether the store still has what it has acknowledged, after it was away. The log is looked
// at by an append. The head and the index of the journal are read.
type verify struct {
	line   line
	ticket Ticket // once it is in the log, the log lacks nothing
	index  int    // how often the index was older than this home's
}

// indexTries is how often the index may be older in a row before its events count as lost: until then a
// replica may lag behind.
const indexTries = 5

// Verify looks whether the store still has all that it has acknowledged. A checkpoint that is under way
// begins again, because the store may have lost what it has written so far.
func (s *Shard) Verify(now time.Time) {
	s.desk.now = now
	if s.state != Open {
		return
	}
	if s.group.acked == s.group.last && len(s.group.queue) == 0 {
		s.group.add(&wire.DurableEntry{Kind: &wire.DurableEntry_Empty{Empty: &wire.DurableEmpty{}}})
	}
	s.checkpoint.doubted()
	s.verify = verify{ticket: s.group.last}
	s.verify.line.ask(&s.desk, Request{Op: OpHead})
	s.next()
}

// done takes the head, or after it the index.
func (v *verify) done(s *Shard, r Response) {
	if !v.line.settled(&s.desk, r) {
		return
	}
	if r.Outcome != OK {
		v.line.again(&s.desk)
		return
	}
	if !s.ours(r.Head) {
		if s.state != Dropped { // another claim decides, or it was stale
			v.line.later(&s.desk, Request{Op: OpHead})
		}
		return
	}
	if v.line.request.Op == OpHead {
		v.line.close()
		if s.journal.config.Kept && !s.journal.lost {
			v.line.ask(&s.desk, Request{Op: OpGet, IDs: []string{journalKey}, AtLeast: s.head.stored.Revision})
		}
		return
	}
	behind, err := s.journal.behind(r.Records[0])
	switch {
	case err != nil:
		s.broken(err)
	case behind && v.index < indexTries:
		v.index++
		v.line.again(&s.desk)
	default:
		v.line.close()
		s.journal.lost = behind
	}
}

// logged reports whether the log has all that this home has appended, and nothing else is under way.
func (v *verify) logged(s *Shard) bool {
	return s.group.acked >= v.ticket && !s.group.repeats() && !s.checkpoint.write.due
}

// withoutEvents ends the tenure after the store has put the journal back. If the log has lost commits of
// older homes too, nobody has their events.
func (s *Shard) withoutEvents() {
	if s.orphans {
		s.claim.lose(s, s.head)
		return
	}
	s.broken(errEvents)
}

// errEvents ends a tenure whose journal the store has put back. The log has these events, from where the next
// tenure writes them again.
var errEvents = errors.New("the store has lost a part of the journal, which is written again from the log")
