package durable

import (
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// A sweep reads records of passivated entities, and has the next checkpoint delete those of
// entities that have expired, or ended, and whose keys are too old. The driver finds the
// records in a list, which may be stale, and so they are read again under the head.
type sweep struct {
	line line
	ids  []string
}

// Expired reports whether a record is of an entity of which nothing is left at a time, and of
// which one. Its driver gives the entity to [Shard.Sweep]. Records that cannot be decoded are
// not such.
func Expired(now time.Time, r store.Record) (id string, gone bool) {
	id, ok := strings.CutPrefix(r.Key, entityKey(""))
	if !ok || r.Revision == store.None {
		return "", false
	}
	v, err := readRecord(id, r)
	return id, err == nil && v.spent(now)
}

// Sweep has the records of these entities, [store.MaxGet] at most, deleted if nothing is left of
// them. It does nothing while an earlier Sweep is under way. It reports whether it began.
func (s *Shard) Sweep(now time.Time, ids []string) bool {
	s.desk.now = now
	if s.state != Open || s.claim.step != stepNone || !s.sweep.line.idle() {
		return false
	}
	s.sweep.ids = nil
	r := Request{Op: OpGet, AtLeast: s.head.stored.Revision}
	for _, id := range ids {
		if s.tail.entities[id] == nil { // others are judged when they are loaded, or written
			s.sweep.ids, r.IDs = append(s.sweep.ids, id), append(r.IDs, entityKey(id))
		}
	}
	if len(r.IDs) == 0 {
		return false
	}
	s.sweep.line.ask(&s.desk, r)
	return true
}

// done takes the records.
func (w *sweep) done(s *Shard, r Response) {
	ids := w.ids
	w.line.close()
	w.ids = nil
	// A checkpoint may have written other records since. They are found again.
	if r.Outcome != OK || !s.ours(r.Head) || r.Head.Revision != s.head.stored.Revision {
		return
	}
	found := false
	for i, id := range ids {
		v, err := readRecord(id, r.Records[i])
		if err != nil || !v.spent(s.desk.now) || s.tail.entities[id] != nil {
			continue
		}
		e := s.tail.at(id)
		e.last, e.acked, e.loaded = v, v, true // a Load before the next checkpoint has it lapse
		e.outlived(s.group.acked)
		found = true
	}
	switch {
	case !found:
	case s.group.position > s.head.stored.Since:
		s.checkpoint.wanted = true
	default: // a checkpoint needs something to move since to
		s.checkpoint.after = s.group.add(&wire.DurableEntry{Kind: &wire.DurableEntry_Empty{Empty: &wire.DurableEmpty{}}})
	}
}
