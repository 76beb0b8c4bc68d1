package durable

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// A Snapshot is a shard as the store has it, read without a claim.
type Snapshot struct {
	Epoch    uint64 // of the head; 0 means it has none
	Node     string // that wrote the head
	Entities []Kept // by id
	// Problems are the head, appends and records that cannot be decoded. An entity with a
	// problem is missing among Entities, or has an older state there.
	Problems []Problem
}

// A Kept is an entity in the store.
type Kept struct {
	ID      string
	Version uint64
	State   []byte
	Since   [][]byte // events that follow State
	Form    uint32   // the version of State, by the type's directive; 0 means the first
	Expires int64    // Unix time in milliseconds, from which it is not there; 0 means never
}

// A Problem is something that cannot be decoded.
type Problem struct {
	Place  string // such as `record of entity "a"`
	Entity string // "": it is no entity's record
	Err    error
	Bytes  []byte // of an entity's record
	// Blocks says that the shard cannot be opened with it, nor without the entity's record.
	Blocks bool
}

// Snap decodes a shard: its head, the log from the head's since, and its records. The
// records were read after the log. If lost is not nil, it says which part of the log is not there.
func Snap(h store.Head, log []store.Append, records []store.Record, lost error) Snapshot {
	var s Snapshot
	if lost != nil {
		s.Problems = append(s.Problems, Problem{Place: "log", Err: lost, Blocks: true})
	}
	if h.Revision == store.None && len(log) > 0 {
		s.Problems = append(s.Problems, Problem{Place: "head", Err: fmt.Errorf("%w: it is missing, and the log has appends", ErrCorrupt), Blocks: true})
	}
	if decoded, err := readHead(h); err != nil {
		s.Problems = append(s.Problems, Problem{Place: "head", Err: err, Blocks: true})
	} else {
		s.Epoch, s.Node = decoded.value.GetEpoch(), decoded.value.GetNode()
		if lost := decoded.value.GetLost(); lost != nil {
			s.Problems = append(s.Problems, Problem{Place: "head", Err: lostHead(lost), Blocks: true})
		}
		s.others(decoded.value, records)
		s.checkIndex(h.Since, log, records)
	}
	before := len(s.Problems)
	tail := s.tail(h.Since, log)
	gaps := lost != nil || len(s.Problems) > before
	kept := make(map[string]Kept)
	for _, r := range records {
		id, ok := strings.CutPrefix(r.Key, entityKey(""))
		if !ok {
			continue // a part of the shard's table, or of a journal
		}
		v, err := readRecord(id, r)
		e := tail[id]
		if err != nil && e != nil && len(e.loose) == 0 {
			continue // a commit in the log replaces the record
		}
		blocks := e != nil && e.needsRecord()
		if err == nil && e != nil && len(e.loose) > 0 {
			err = e.base(v)
		}
		if err != nil {
			s.Problems = append(s.Problems, Problem{fmt.Sprintf("record of entity %q", id), id, err, r.Value, blocks})
			continue
		}
		if !v.ended {
			kept[id] = Kept{id, v.number, v.state, v.since, v.form, v.expires}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(tail)) {
		e := tail[id]
		if len(e.loose) > 0 {
			if err := e.base(version{}); err != nil {
				if gaps { // else it has ended meanwhile
					s.lacksBase(id, err)
				}
				continue
			}
		}
		switch {
		case e.last.ended && kept[id].Version <= e.last.number:
			delete(kept, id)
		case !e.last.ended && kept[id].Version <= e.last.number:
			kept[id] = Kept{id, e.last.number, e.last.state, e.last.since, e.last.form, e.last.expires}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(kept)) {
		s.Entities = append(s.Entities, kept[id])
	}
	return s
}

// lacksBase notes that an entity's commits in the log follow a state that is not there.
func (s *Snapshot) lacksBase(id string, err error) {
	if !slices.ContainsFunc(s.Problems, func(p Problem) bool { return p.Entity == id }) {
		s.Problems = append(s.Problems, Problem{Place: fmt.Sprintf("log of entity %q", id), Entity: id, Err: err, Blocks: true})
	}
}

// others checks the records that are none of entities: the table's parts and the journal.
func (s *Snapshot) others(h *wire.DurableHead, records []store.Record) {
	there, later := make(map[string]bool), false
	var index *wire.DurableJournal
	chunks, damaged := make(map[string]*wire.DurableChunk), make(map[string]bool)
	for _, r := range records {
		var err error
		place := "journal, record " + r.Key
		switch {
		case r.Key[0] == 't':
			part := &wire.DurableTable{}
			err = unseal(r.Value, part)
			place = "table, record " + r.Key
			there[r.Key] = true
			later = later || part.GetGeneration() > h.GetGeneration()
		case r.Key == journalKey:
			index, err = readIndex(r)
		case isChunk(r.Key):
			chunks[r.Key], err = chunkIn(r)
			damaged[r.Key] = err != nil
		}
		if err != nil {
			s.Problems = append(s.Problems, Problem{Place: place, Err: err, Blocks: !isChunk(r.Key)})
		}
	}
	if index != nil {
		s.checkJournal(index, chunks, damaged)
	}
	for _, key := range tableKeys(h.GetGeneration(), h.GetParts()) {
		if !there[key] && !later { // later: a checkpoint was written meanwhile
			s.Problems = append(s.Problems, Problem{Place: "table, record " + key, Err: fmt.Errorf("%w: it is missing", ErrCorrupt), Blocks: true})
		}
	}
}

// tail returns the entities as the log has them behind since. Records have the commits of the append there.
func (s *Snapshot) tail(since store.Position, log []store.Append) map[string]*entity {
	var counted chain
	tail := make(map[string]*entity)
	for i, a := range log {
		decoded, err := readAppend(a.Data)
		if err != nil {
			s.Problems = append(s.Problems, Problem{Place: fmt.Sprintf("append at position %d", a.Position), Err: err, Blocks: true})
			continue
		}
		if !counted.add(decoded) || i == 0 && a.Position == since {
			continue
		}
		for _, entry := range decoded.GetEntries() {
			c, ok := entry.GetKind().(*wire.DurableEntry_Commit)
			if !ok {
				continue
			}
			id := string(c.Commit.GetEntity())
			if tail[id] == nil {
				tail[id] = &entity{id: id}
			}
			tail[id].recover(c.Commit)
		}
	}
	return tail
}
