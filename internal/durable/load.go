package durable

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// loads are the entities whose records are being read, by request and by entity.
type loads struct {
	asked map[uint64]string
	lines map[string]*line
	pause []string // to be asked again later
}

// begin reads the record of an entity that is not in the tail, under the head.
func (l *loads) begin(s *Shard, id string) {
	if l.lines[id] != nil {
		return
	}
	l.lines[id] = &line{}
	l.ask(s, id)
}

func (l *loads) ask(s *Shard, id string) {
	// The store answers with the records as of the head's writing, or later: the last
	// checkpoint's records are older. Only then an absent record says that there is none.
	line := l.lines[id]
	line.request = Request{Op: OpGet, IDs: []string{entityKey(id)}, AtLeast: s.head.stored.Revision}
	line.id = s.desk.send(line.request)
	l.asked[line.id] = id
}

// done takes the answer. Reports whether the request was a load's.
func (l *loads) done(s *Shard, r Response) bool {
	id, ok := l.asked[r.ID]
	if !ok {
		return false
	}
	delete(l.asked, r.ID)
	if r.Outcome != OK || !s.ours(r.Head) {
		if s.state != Dropped {
			l.lines[id].again(&s.desk)
			l.pause = append(l.pause, id)
		}
		return true
	}
	delete(l.lines, id)
	e := s.tail.entities[id]
	if e == nil || !e.active {
		return true // the driver has let it go meanwhile
	}
	loaded := Loaded{Entity: id}
	v, err := readRecord(id, r.Records[0])
	if err != nil {
		loaded.Err = fmt.Errorf("entity %q: %w", id, err)
		s.Passivated(id)
	} else {
		e.last, e.acked = v, v
		e.loaded, e.bare = true, false
		switch {
		case v.expires != 0 && v.gone(s.desk.now):
			s.lapse(e)
		case v.ended && len(freshKeys(v.keys, s.desk.now.UnixMilli())) == 0:
			e.outlived(s.group.acked)
		}
		loaded = e.loadedNow()
		e.forgetState()
	}
	s.out.Loaded = append(s.out.Loaded, loaded)
	return true
}

// loadedNow describes an entity to the driver. Its last version is at hand.
func (e *entity) loadedNow() Loaded {
	v := e.last
	l := Loaded{Entity: e.id, Version: v.number, Expires: v.expires, Form: v.form}
	if v.number > 0 && !v.ended {
		l.Found, l.State, l.Since = true, v.state, v.since
	}
	return l
}

// tick sends the requests again that are due.
func (l *loads) tick(s *Shard) {
	waits := l.pause[:0]
	for _, id := range l.pause {
		if s.desk.now.Before(l.lines[id].at) {
			waits = append(waits, id)
			continue
		}
		l.ask(s, id)
	}
	l.pause = waits
}

func readRecord(id string, r store.Record) (version, error) {
	if r.Revision == store.None {
		return version{}, nil
	}
	w := &wire.DurableRecord{}
	if err := unseal(r.Value, w); err != nil {
		return version{}, err
	}
	if string(w.GetEntity()) != id || w.GetVersion() == 0 {
		return version{}, fmt.Errorf("%w: it is version %d of %q", ErrCorrupt, w.GetVersion(), w.GetEntity())
	}
	return version{w.GetVersion(), w.GetState(), w.GetSince(), w.GetEnded(), keysOf(w.GetKeys()), w.GetExpires(), w.GetForm()}, nil
}

func (l *loads) check() error {
	for _, id := range slices.Sorted(maps.Keys(l.lines)) {
		if line := l.lines[id]; l.asked[line.id] != id && !slices.Contains(l.pause, id) {
			return fmt.Errorf("loads: %q is neither asked for nor to be asked again", id)
		}
	}
	return nil
}

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
	return id, err == nil && v.left(now)
}

// left reports whether nothing of a stored version is needed any more.
func (v version) left(now time.Time) bool {
	return v.number > 0 && v.gone(now) && len(freshKeys(v.keys, now.UnixMilli())) == 0
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
		if err != nil || !v.left(s.desk.now) || s.tail.entities[id] != nil {
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
