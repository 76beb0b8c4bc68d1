package durable

import (
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// loads are the record reads under way, by request and by entity.
type loads struct {
	asked map[uint64]string
	lines map[string]*line
	pause []string // entities to be asked for again later
}

func (l *loads) begin(s *Shard, id string) {
	if l.lines[id] != nil {
		return
	}
	l.lines[id] = &line{}
	l.ask(s, id)
}

func (l *loads) ask(s *Shard, id string) {
	// The store answers with the records as they were when the head was written, or later. The
	// records of the last checkpoint are older than the head, so one that is absent does not exist.
	line := l.lines[id]
	line.request = Request{Op: OpGet, IDs: []string{entityKey(id)}, AtLeast: s.head.stored.Revision}
	line.id = s.desk.send(line.request)
	l.asked[line.id] = id
}

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
		return true // the driver has removed the entity meanwhile
	}
	loaded := Loaded{Entity: id}
	v, err := readRecord(id, r.Records[0], s.config.Index.fields())
	if err != nil {
		loaded.Err = fmt.Errorf("entity %q: %w", id, err)
		s.Passivated(id)
	} else {
		s.readIndex(e, &v)
		e.last, e.acked = v, v
		e.loaded, e.bare, e.listing, e.entered = true, false, listedIf(v.number > 0 && !v.ended), v.due()
		switch {
		case v.expires != 0 && v.gone(s.desk.now):
			s.lapse(e)
		case v.ended && len(freshKeys(v.keys, s.desk.now.UnixMilli())) == 0:
			e.outlived(s.group.acked)
		}
		s.wakes.loaded(e)
		loaded = e.loadedNow()
		e.forgetState()
	}
	s.out.Loaded = append(s.out.Loaded, loaded)
	return true
}

func (e *entity) loadedNow() Loaded {
	v := e.last
	l := Loaded{Entity: e.id, Version: v.number, Expires: v.expires, Form: v.form, Sum: v.sum.uint32()}
	if v.number > 0 && !v.ended {
		l.Found, l.State, l.Since = true, v.state, v.since
	}
	return l
}

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

// readRecord decodes a record. It leaves out index keys that were made for other fields.
func readRecord(id string, r store.Record, fields string) (version, error) {
	if r.Revision == store.None {
		return version{}, nil
	}
	w := &wire.DurableRecord{}
	if err := unseal(r.Value, w); err != nil {
		return version{}, err
	}
	if string(w.GetEntity()) != id || w.GetVersion() == 0 {
		return version{}, fmt.Errorf("%w: the record contains version %d of another entity, %q", ErrCorrupt, w.GetVersion(), w.GetEntity())
	}
	v := version{
		number: w.GetVersion(), expires: w.GetExpires(), form: w.GetForm(), ended: w.GetEnded(), sum: newStateSum(w.GetSum()),
		state: w.GetState(), since: w.GetSince(), keys: keysOf(w.GetKeys()),
	}
	index := w.GetIndex()
	if len(index) == 0 || w.GetIndexes() != fields {
		index = nil
	}
	v.setRare(w.GetReminders(), index)
	return v, nil
}

func (l *loads) check() error {
	for _, id := range slices.Sorted(maps.Keys(l.lines)) {
		if line := l.lines[id]; l.asked[line.id] != id && !slices.Contains(l.pause, id) {
			return fmt.Errorf("loads: entity %q has neither a request under way nor one to be repeated", id)
		}
	}
	return nil
}

// absent is a Bloom filter of the entities with records. It spares the read of a record at the
// first call of a new entity. It works only if the shard had no head before: no other home can then
// have written records.
type absent struct {
	fresh bool     // the shard had no head
	bits  []uint64 // nil: no record was written
}

const (
	// With 26,000 recorded entities, the false positive rate is 1%.
	absentWords  = 32 << 10 / 8
	absentHashes = 7
)

// sure reports whether the entity certainly has no record.
func (a *absent) sure(id string) bool {
	if !a.fresh {
		return false
	}
	if a.bits == nil {
		return true
	}
	step, at := start(id)
	for range absentHashes {
		if a.bits[at/64%absentWords]&(1<<(at%64)) == 0 {
			return true
		}
		at += step
	}
	return false
}

func (a *absent) written(id string) {
	if !a.fresh {
		return
	}
	if a.bits == nil {
		a.bits = make([]uint64, absentWords)
	}
	step, at := start(id)
	for range absentHashes {
		a.bits[at/64%absentWords] |= 1 << (at % 64)
		at += step
	}
}

var absentTable = crc32.MakeTable(crc32.Castagnoli)

// start returns an id's first bit in the filter (at), and the distance between its bits (step).
func start(id string) (step, at uint32) {
	b := []byte(id)
	return crc32.ChecksumIEEE(b) | 1, crc32.Checksum(b, absentTable)
}
