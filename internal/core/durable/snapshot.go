package durable

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// A Snapshot is a shard's data in the store, read without claiming the shard.
type Snapshot struct {
	Epoch    uint64         // of the head; 0 means there is no head
	Node     string         // the node that wrote the head
	Entities []StoredEntity // by id
	// Problems are the head, appends and records that cannot be decoded. An entity with a
	// problem is missing among Entities, or has an older state there.
	Problems []Problem
}

// A StoredEntity is an entity in the store.
type StoredEntity struct {
	ID      string
	Version uint64
	State   []byte
	Since   [][]byte // events that follow State
	Form    uint32   // the version of State, by the type's directive; 0 means the first
	Expires int64    // Unix time in milliseconds from which it counts as ended; 0 means never
}

// A Problem is a part of a shard's data that is missing or cannot be decoded.
type Problem struct {
	Place  string // such as `record of entity "a"`
	Entity string // the entity whose record it is; "" means none
	Err    error
	Bytes  []byte // the content of an entity's record
	// Blocks reports that the shard cannot be opened, even without the records of damaged entities.
	Blocks bool

	key string         // of a record that is not an entity's; "" means that the head or the log has the problem
	at  store.Position // of an append; 0 means that no append has the problem
}

// Snap decodes a shard from its head, its log from the head's Since position on, and its records.
// The caller must read the records after the log. If a part of the log is missing, lost says which
// part; otherwise lost is nil.
func Snap(h store.Head, log []store.Append, records []store.Record, lost error) Snapshot {
	var s Snapshot
	if lost != nil {
		s.Problems = append(s.Problems, Problem{Place: "log", Err: lost, Blocks: true})
	}
	if h.Revision == store.None && (len(log) > 0 || lost != nil) {
		s.Problems = append(s.Problems, Problem{Place: "head", Err: fmt.Errorf("%w: the head is missing, but the log has appends", ErrCorrupt), Blocks: true})
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
	tail := s.tail(h.Since, log, numberIn(records))
	s.checkKeys(h, tail, records)
	kept := make(map[string]StoredEntity)
	for _, r := range records {
		id, ok := strings.CutPrefix(r.Key, entityKey(""))
		if !ok {
			continue // a part of the shard's table, or of a journal
		}
		v, err := readRecord(id, r, "")
		e := tail[id]
		if err != nil && e != nil && len(e.loose) == 0 {
			continue // a commit in the log replaces the record
		}
		blocks := e != nil && e.needsRecord()
		if err == nil && e != nil && len(e.loose) > 0 {
			err = e.base(v)
		}
		if err != nil {
			s.Problems = append(s.Problems, Problem{Place: fmt.Sprintf("record of entity %q", id), Entity: id, Err: err, Bytes: r.Value, Blocks: blocks})
			continue
		}
		if !v.ended {
			kept[id] = StoredEntity{id, v.number, v.state, v.since, v.form, v.expires}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(tail)) {
		e := tail[id]
		if len(e.loose) > 0 {
			if err := e.base(version{}); err != nil {
				continue // the entity has ended meanwhile, or its record is damaged
			}
		}
		switch {
		case e.last.ended && kept[id].Version <= e.last.number:
			delete(kept, id)
		case !e.last.ended && kept[id].Version <= e.last.number:
			kept[id] = StoredEntity{id, e.last.number, e.last.state, e.last.since, e.last.form, e.last.expires}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(kept)) {
		s.Entities = append(s.Entities, kept[id])
	}
	return s
}

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
		case IsLeaf(r.Key):
			err = unseal(r.Value, &wire.DurableLeaf{})
			place = "catalog, record " + r.Key
		case r.Key == journalKey:
			index, err = readIndex(r)
		case isChunk(r.Key):
			chunks[r.Key], err = chunkIn(r)
			damaged[r.Key] = err != nil
		}
		if err != nil {
			s.Problems = append(s.Problems, Problem{Place: place, Err: err, Blocks: !isChunk(r.Key) && !IsLeaf(r.Key), key: r.Key})
		}
	}
	if index != nil {
		s.checkJournal(index, chunks, damaged)
	}
	for _, key := range tableKeys(h.GetGeneration(), h.GetParts()) {
		if !there[key] && !later { // later: a checkpoint was written meanwhile
			s.Problems = append(s.Problems, Problem{Place: "table, record " + key, Err: fmt.Errorf("%w: the record is missing", ErrCorrupt), Blocks: true, key: key})
		}
	}
}

// tail returns the entities with commits in the log. It stops at the first append that is damaged
// or leaves a gap in the numbers of events. last is the number of the last event before the log.
// The append at position since is left out, because records have the commits of that append.
func (s *Snapshot) tail(since store.Position, log []store.Append, last uint64) map[string]*entity {
	var counted chain
	tail := make(map[string]*entity)
	for i, a := range log {
		decoded, err := readAppend(a.Data)
		counts := err == nil && counted.add(decoded) && (i > 0 || a.Position != since)
		if counts {
			last, err = eventsBehind(last, decoded)
		}
		if err != nil {
			s.Problems = append(s.Problems, Problem{Place: fmt.Sprintf("append at position %d", a.Position), Err: err, Blocks: true, at: a.Position})
			break
		}
		if !counts {
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

// checkKeys adds a Problem for each entity whose keys in the catalog differ from the keys in its
// record. It leaves out entities with commits in the log, because the records of these may be newer
// than the catalog.
func (s *Snapshot) checkKeys(h store.Head, tail map[string]*entity, records []store.Record) {
	at := make(map[string]store.Record)
	for _, r := range records {
		at[r.Key] = r
	}
	head, err := readHead(h)
	if err != nil {
		return
	}
	c, fields := newCatalog(0), ""
	for i, key := range tableKeys(head.value.GetGeneration(), head.value.GetParts()) {
		t := &wire.DurableTable{}
		if unseal(at[key].Value, t) != nil || t.GetGeneration() != head.value.GetGeneration() {
			return // the chunk is missing, or a checkpoint was written meanwhile
		}
		if i == 0 {
			fields = t.GetIndexes()
		}
		c.recover(t, fields)
	}
	if !c.whole || fields == "" || fields == unknownFields {
		return
	}
	have, leaves := make(map[string][]byte), make(map[string]string)
	for _, l := range c.leaves {
		keys, ok := readLeaf(l, at[l.key()])
		if !ok {
			return // the missing leaf is a Problem already, or a checkpoint was written meanwhile
		}
		for _, k := range keys {
			if key := string(k); strings.HasPrefix(key, kindIndex) {
				id := ownerOf(key)
				have[id] = append(have[id], key[len(kindIndex):len(key)-len(id)]...)
				leaves[id] = l.key()
			}
		}
	}
	want := make(map[string][]byte)
	for _, r := range records {
		if id, ok := strings.CutPrefix(r.Key, entityKey("")); ok {
			if v, err := readRecord(id, r, fields); err != nil || !v.ended && v.index() == nil { // the record has keys of other indexes
				delete(have, id)
			} else if !v.ended {
				want[id] = v.index()
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(unite(have, want))) {
		if tail[id] == nil && !bytes.Equal(have[id], want[id]) {
			s.Problems = append(s.Problems, Problem{
				Place: fmt.Sprintf("catalog, keys of entity %q", id), key: cmp.Or(leaves[id], leaf{}.key()),
				Err: fmt.Errorf("%w: the catalog has %x, and the entity's record %x", ErrCorrupt, have[id], want[id]),
			})
		}
	}
}

func unite(a, b map[string][]byte) map[string][]byte {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func eventsBehind(last uint64, a *wire.DurableAppend) (uint64, error) {
	for _, e := range a.GetEntries() {
		c := e.GetCommit()
		n := uint64(len(c.GetEvents()))
		if n > 0 && c.GetEvent() > last+1 {
			return last, fmt.Errorf("%w: the append has event %d, but the last event before it is %d", errLost, c.GetEvent(), last)
		}
		if n > 0 {
			last = max(last, c.GetEvent()+n-1)
		}
	}
	return last, nil
}

// numberIn returns the number of the journal's last event, or unknownEvents if the index is
// damaged or missing.
func numberIn(records []store.Record) uint64 {
	number := uint64(0)
	for _, r := range records {
		if r.Key == journalKey {
			index, err := readIndex(r)
			if err != nil {
				return unknownEvents
			}
			return index.GetNumber()
		}
		if isChunk(r.Key) {
			number = unknownEvents
		}
	}
	return number
}

const unknownEvents = math.MaxUint64 - 1

func chunkIn(r store.Record) (*wire.DurableChunk, error) {
	c := &wire.DurableChunk{}
	if err := unseal(r.Value, c); err != nil {
		return nil, err
	}
	switch {
	case chunkKey(c.GetChunk()) != r.Key:
		return nil, fmt.Errorf("%w: the record contains chunk %d, which has another key", ErrCorrupt, c.GetChunk())
	case len(c.GetEvents()) == 0:
		return nil, fmt.Errorf("%w: the chunk has no events", ErrCorrupt)
	}
	return c, nil
}

// checkIndex adds a Problem if the journal has chunks but no index, unless the log has the first
// event: the next home then writes both again.
func (s *Snapshot) checkIndex(since store.Position, log []store.Append, records []store.Record) {
	chunks := false
	for _, r := range records {
		if r.Key == journalKey {
			return
		}
		chunks = chunks || isChunk(r.Key)
	}
	if !chunks {
		return
	}
	var counted chain
	for i, a := range log {
		decoded, err := readAppend(a.Data)
		if err != nil || !counted.add(decoded) || i == 0 && a.Position == since {
			continue
		}
		for _, e := range decoded.GetEntries() {
			if c := e.GetCommit(); len(c.GetEvents()) > 0 && c.GetEvent() == 1 {
				return
			}
		}
	}
	s.Problems = append(s.Problems, Problem{Place: "journal, record " + journalKey, Err: fmt.Errorf("%w: the record is missing", ErrCorrupt), key: journalKey})
}

func isChunk(key string) bool {
	n, err := strconv.ParseUint(key[min(len(key), len(journalKey)):], 10, 64)
	return err == nil && key == chunkKey(n)
}

// checkJournal adds a Problem for each missing chunk or event, because followers would wait there
// forever. It ignores chunks that the index does not count.
func (s *Snapshot) checkJournal(index *wire.DurableJournal, chunks map[string]*wire.DurableChunk, damaged map[string]bool) {
	note := func(key, text string, args ...any) {
		s.Problems = append(s.Problems, Problem{
			Place: "journal, record " + key, Err: fmt.Errorf("%w: "+text, append([]any{ErrCorrupt}, args...)...), key: key,
		})
	}
	last, unsure := uint64(0), true // unsure: nothing is known of the number behind which a chunk begins
	for n := index.GetFirst(); n <= index.GetLast(); n++ {
		key := chunkKey(n)
		c := chunks[key]
		if c == nil && !damaged[key] {
			note(key, "the chunk is missing")
		}
		if c == nil {
			unsure = true
			continue
		}
		for _, e := range c.GetEvents() {
			if !unsure && e.GetNumber() > last+1 {
				note(key, "events are missing: event %d follows event %d", e.GetNumber(), last)
			}
			last, unsure = max(last, e.GetNumber()), false
		}
	}
	if !unsure && last < index.GetNumber() {
		note(journalKey, "the index counts events up to %d, but the last event in the chunks is %d", index.GetNumber(), last)
	}
}

// LacksChunks reports whether the records lack chunks of a journal, or its index. While a home
// works, records can lack them for a moment without a loss: the home deletes the oldest chunks, and
// writes the first chunk, before it writes the index.
func LacksChunks(records []store.Record) bool {
	there := make(map[string]bool)
	for _, r := range records {
		there[r.Key] = true
	}
	for _, r := range records {
		if isChunk(r.Key) && !there[journalKey] {
			return true
		}
		if r.Key != journalKey {
			continue
		}
		index, err := readIndex(r)
		for n := index.GetFirst(); err == nil && n <= index.GetLast(); n++ {
			if !there[chunkKey(n)] {
				return true
			}
		}
	}
	return false
}
