package durable

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// A Turn has the changes that a turn of an active entity made.
type Turn struct {
	Entity string
	Active Active // the entity, if the driver has it at hand
	// State is the entity's, encoded; nil is one without fields. It is not copied.
	State []byte
	// Events are those that the turn recorded, each encoded. Where the state before and these give
	// State, it stays out of the log; it is written again after [Journal.Every] of them. They
	// are not copied.
	Events [][]byte
	// Sum is a checksum of State, as [Loaded.Sum] has it if State stays out of the log; 0 means none.
	Sum uint32
	// Ended: the entity ends, and has no state.
	Ended bool
	// Expires is the Unix time from which the entity is as if it had ended, unless it commits
	// again before, in milliseconds. 0: never.
	Expires int64
	// Form is the version of State, by the type's directive; 0 means the first.
	Form uint32
	// Command is the command that the turn ran; nil if it is never sent again.
	Command *Command
	Answer  []byte
	Tells   []Tell
}

// Commit ends a turn that changed something. Its tells and its answer may leave
// with the ticket. It fails with ErrTooLarge, and then the driver must restore the entity
// by Load and Discard the command; or with ErrNotOpen. It does not keep t.
func (s *Shard) Commit(now time.Time, t *Turn) (Ticket, error) {
	s.desk.now = now
	e := s.tail.of(t)
	if s.state != Open || e == nil || !e.loaded {
		return 0, t.notOpen()
	}
	m := s.messages.get()
	w := &m.commit
	w.Entity, w.Version, w.State, w.Ended, w.At = wire.BytesOf(e.id), e.last.number+1, t.State, t.Ended, now.UnixMilli()
	w.Form = t.Form
	if w.Events = t.Events; len(t.Events) > 0 {
		w.Event = s.journal.next
	}
	if !t.Ended {
		w.Expires = t.Expires
	}
	w.Folded = !e.bare && !e.hollow && !e.last.gone(now) && e.last.folds(t, s.journal.config.Every, s.group.limit)
	if t.Ended || w.Folded {
		w.State = nil
	}
	if w.Folded {
		w.Sum = t.Sum & maxSum
	}
	var from *known
	var source []byte
	if c := t.Command; c != nil {
		from = s.table.source(&c.Source, now)
		from.heard = now
		source = from.describe(&m.command, c)
		m.command.Answer, w.Command = t.Answer, &m.command
	}
	w.Keys = uint32(len(e.last.keys))
	m.kind.Commit, m.entry.Kind = w, &m.kind
	if len(t.Tells) > 0 {
		w.Tells = unnumbered(t.Tells) // for their size
	}
	before := len(s.group.encoded)
	s.group.encoded = appendEntry(s.group.encoded, &m.entry, source)
	if n := len(s.group.encoded) - before + appendRoom; n > s.group.limit {
		s.group.encoded = s.group.encoded[:before]
		s.messages.put(m)
		return 0, t.tooLarge(n, s.group.limit)
	}
	if len(t.Tells) > 0 {
		s.outbox.number(w.Tells, max(s.config.Epoch, s.config.FirstTell))
		s.group.encoded = appendEntry(s.group.encoded[:before], &m.entry, source)
	}
	s.journal.next += uint64(len(t.Events))
	added := pendingEntry{DurableEntry: &m.entry, entity: e, size: len(s.group.encoded) - before}
	if len(t.Tells)+len(t.Events) == 0 { // which are kept
		added.messages = m
	}
	ticket := s.group.added(added)
	e.commit(w, ticket)
	if len(t.Tells) > 0 {
		s.outbox.put(w, now, ticket)
	}
	if w.Command != nil {
		s.table.end(from, w.Command, ticket)
	}
	s.next()
	return ticket, nil
}

// The errors of Commit are made by functions of their own, so that it takes less of its caller's stack:
// see docs/adr/0010.

//go:noinline
func (t *Turn) notOpen() error { return fmt.Errorf("commit: entity %q: %w", t.Entity, ErrNotOpen) }

//go:noinline
func (t *Turn) tooLarge(bytes, limit int) error {
	return fmt.Errorf("commit: entity %q: %w: %d bytes, want at most %d", t.Entity, ErrTooLarge, bytes, limit)
}
