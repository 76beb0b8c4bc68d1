package durable

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// chunkIn returns the chunk in a record.
func chunkIn(r store.Record) (*wire.DurableChunk, error) {
	c := &wire.DurableChunk{}
	if err := unseal(r.Value, c); err != nil {
		return nil, err
	}
	switch {
	case chunkKey(c.GetChunk()) != r.Key:
		return nil, fmt.Errorf("%w: it is chunk %d", ErrCorrupt, c.GetChunk())
	case len(c.GetEvents()) == 0:
		return nil, fmt.Errorf("%w: it has no events", ErrCorrupt)
	}
	return c, nil
}

// checkIndex notes that the index of chunks is missing. If the log has the first event, the index was not
// written yet, and the chunks are written anew.
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
	s.Problems = append(s.Problems, Problem{Place: "journal, record " + journalKey, Err: fmt.Errorf("%w: it is missing", ErrCorrupt)})
}

// isChunk reports whether a record's key is that of a chunk.
func isChunk(key string) bool {
	n, err := strconv.ParseUint(key[min(len(key), len(journalKey)):], 10, 64)
	return err == nil && key == chunkKey(n)
}

// checkJournal notes at which chunks followers would wait for ever: those that are missing, and those behind
// events that are missing. Chunks that the index does not count are not read.
func (s *Snapshot) checkJournal(index *wire.DurableJournal, chunks map[string]*wire.DurableChunk, damaged map[string]bool) {
	note := func(key, text string, args ...any) {
		s.Problems = append(s.Problems, Problem{
			Place: "journal, record " + key, Err: fmt.Errorf("%w: "+text, append([]any{ErrCorrupt}, args...)...),
		})
	}
	last, unsure := uint64(0), true // unsure: nothing is known of the number behind which a chunk begins
	for n := index.GetFirst(); n <= index.GetLast(); n++ {
		key := chunkKey(n)
		c := chunks[key]
		if c == nil && !damaged[key] {
			note(key, "it is missing")
		}
		if c == nil {
			unsure = true
			continue
		}
		for _, e := range c.GetEvents() {
			if !unsure && e.GetNumber() > last+1 {
				note(key, "it has event %d behind event %d", e.GetNumber(), last)
			}
			last, unsure = max(last, e.GetNumber()), false
		}
	}
	if !unsure && last < index.GetNumber() {
		note(journalKey, "it counts events up to %d, and the last is %d", index.GetNumber(), last)
	}
}

// LacksChunks reports whether chunks of a journal, or their index, are missing. A home deletes the oldest ones,
// and writes the first one, a moment before it writes that into the index.
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

// indexFor returns the index of the chunks among the records. One that is missing, or cannot be decoded, is made
// of them; restored reports that. It is nil if there are none.
func indexFor(records []store.Record) (index *wire.DurableJournal, restored bool, err error) {
	if i := slices.IndexFunc(records, func(r store.Record) bool { return r.Key == journalKey }); i >= 0 {
		if index, err = readIndex(records[i]); !errors.Is(err, ErrCorrupt) {
			return index, false, err
		}
	}
	index = &wire.DurableJournal{Format: formatNow}
	for _, r := range records {
		c, err := chunkIn(r)
		if err != nil || !isChunk(r.Key) {
			continue
		}
		if index.Last = max(index.Last, c.GetChunk()); index.First == 0 || c.GetChunk() < index.First {
			index.First = c.GetChunk()
		}
		index.Number = max(index.Number, c.GetEvents()[len(c.GetEvents())-1].GetNumber())
	}
	if index.Last == 0 {
		return nil, true, nil
	}
	return index, true, nil
}

// MendJournal returns a log and the records of a shard whose journal has no gap, at which followers would wait
// for ever. Events of chunks that are missing, or cannot be decoded, are taken from the log as far as that
// has them; behind the others the numbers go on without a gap. If the journal's oldest chunks are missing, it
// begins behind them, as if they had been deleted in time. Without a gap, all stays as it is.
func MendJournal(log []store.Append, records []store.Record) ([]store.Append, []store.Record, error) {
	index, restored, err := indexFor(records)
	if err != nil {
		return nil, nil, err
	}
	if restored {
		records = slices.DeleteFunc(slices.Clone(records), func(r store.Record) bool {
			return r.Key == journalKey || index == nil && isChunk(r.Key)
		})
	}
	if index == nil {
		return log, records, nil
	}
	if restored {
		records = append(records, store.Record{Key: journalKey, Revision: store.None + 1, Value: seal(index)})
	}
	m := mending{
		index: index, chunks: make(map[uint64][]*wire.DurableEvent),
		has: make(map[uint64]*wire.DurableEvent), renumbered: make(map[uint64]uint64),
	}
	var found Snapshot
	found.others(&wire.DurableHead{}, records)
	for _, r := range records {
		if c, err := chunkIn(r); err == nil && isChunk(r.Key) && c.GetChunk() >= index.GetFirst() && c.GetChunk() <= index.GetLast() {
			m.take(c)
		}
	}
	if !slices.ContainsFunc(found.Problems, func(p Problem) bool { return p.journal() }) {
		return log, records, nil
	}
	m.restore(log)
	m.renumber()
	m.place()
	var rest []store.Record
	for _, r := range records {
		if r.Key != journalKey && !isChunk(r.Key) {
			rest = append(rest, r)
		}
	}
	log = m.log(log)
	return log, append(rest, m.records()...), nil
}

// journal reports whether a problem is one of the journal.
func (p Problem) journal() bool { return len(p.Place) > 7 && p.Place[:7] == "journal" }

// A mending is a journal that is being mended.
type mending struct {
	index      *wire.DurableJournal
	chunks     map[uint64][]*wire.DurableEvent // that can be decoded
	has        map[uint64]*wire.DurableEvent   // all events, by their former numbers
	restored   []*wire.DurableEvent            // those that no chunk has, from the log
	renumbered map[uint64]uint64               // the new number of each
	lost       uint64                          // events behind the first that is there
	last       *wire.DurableEvent              // that was placed
}

// take takes the events of a chunk that the index counts. The log has the others.
func (m *mending) take(c *wire.DurableChunk) {
	for _, e := range c.GetEvents() {
		if e.GetNumber() <= m.index.GetNumber() {
			m.chunks[c.GetChunk()] = append(m.chunks[c.GetChunk()], e)
			m.has[e.GetNumber()] = e
		}
	}
}

// restore takes the events from the log that no chunk has, but none from before the oldest chunk.
func (m *mending) restore(log []store.Append) {
	least := uint64(0)
	if oldest := m.chunks[m.index.GetFirst()]; len(oldest) > 0 {
		least = oldest[0].GetNumber()
	}
	j := newJournal(Journal{Kept: true}, 0)
	var counted chain
	for _, a := range log {
		decoded, err := readAppend(a.Data)
		if err != nil || !counted.add(decoded) {
			continue
		}
		for _, e := range decoded.GetEntries() {
			c := e.GetCommit()
			j.index.Number, j.waiting = 0, nil
			j.ack(c, j.due)
			for _, e := range j.waiting {
				if n := e.GetNumber(); n >= least && n <= m.index.GetNumber() && m.has[n] == nil {
					m.has[n] = e
					m.restored = append(m.restored, e)
				}
			}
		}
	}
	slices.SortFunc(m.restored, func(a, b *wire.DurableEvent) int { return int(a.GetNumber()) - int(b.GetNumber()) })
}

// renumber gives the events numbers without a gap.
func (m *mending) renumber() {
	before := uint64(0)
	for _, n := range slices.Sorted(maps.Keys(m.has)) {
		if before > 0 {
			m.lost += n - before - 1
		}
		before = n
		m.renumbered[n] = n - m.lost
	}
	if before > 0 {
		m.lost += m.index.GetNumber() - before
	}
}

// place puts the restored events in the place of chunks that are missing. Those that stay empty get the event
// before them once more, which followers pass over, for a follower reads one chunk after another.
func (m *mending) place() {
	var holes []uint64
	for n := m.index.GetFirst(); n <= m.index.GetLast(); n++ {
		events := m.chunks[n]
		if len(events) == 0 {
			holes = append(holes, n)
			continue
		}
		m.fill(holes, events[0].GetNumber(), n)
		holes = nil
		events = m.chunks[n]
		m.last = events[len(events)-1]
	}
	m.fill(holes, m.index.GetNumber()+1, m.index.GetLast())
}

// fill fills holes with the restored events below a number, or adds these to a chunk if there are no holes.
func (m *mending) fill(holes []uint64, below, chunk uint64) {
	n := 0
	for n < len(m.restored) && m.restored[n].GetNumber() < below {
		n++
	}
	events := m.restored[:n]
	m.restored = m.restored[n:]
	if len(holes) == 0 && n > 0 {
		all := append(slices.Clone(events), m.chunks[chunk]...)
		slices.SortStableFunc(all, func(a, b *wire.DurableEvent) int { return int(a.GetNumber()) - int(b.GetNumber()) })
		m.chunks[chunk] = all
		return
	}
	for i, hole := range holes {
		bytes := 0
		for len(events) > 0 && (bytes == 0 || i == len(holes)-1 || bytes+proto.Size(events[0]) <= chunkBytes) {
			bytes += proto.Size(events[0]) + appendRoom
			m.chunks[hole] = append(m.chunks[hole], events[0])
			m.last, events = events[0], events[1:]
		}
		switch {
		case bytes > 0:
		case m.last == nil:
			m.index.First = hole + 1
		default:
			m.chunks[hole] = []*wire.DurableEvent{m.last}
		}
	}
}

// records are those of the mended journal, whose index then has its new number.
func (m *mending) records() (all []store.Record) {
	add := func(key string, value stored) {
		all = append(all, store.Record{Key: key, Revision: store.None + 1, Value: seal(value)})
	}
	m.index.Number -= m.lost
	for n := m.index.GetFirst(); n <= m.index.GetLast(); n++ {
		c := &wire.DurableChunk{Format: formatNow, Chunk: n}
		for _, e := range m.chunks[n] {
			e = proto.CloneOf(e)
			e.Number = m.renumbered[e.GetNumber()]
			c.Events = append(c.Events, e)
		}
		add(chunkKey(n), c)
	}
	add(journalKey, m.index)
	return all
}

// log is a log with the new numbers.
func (m *mending) log(log []store.Append) []store.Append {
	log = slices.Clone(log)
	for i, a := range log {
		decoded, err := readAppend(a.Data)
		if err != nil {
			continue
		}
		for _, e := range decoded.GetEntries() {
			if c := e.GetCommit(); len(c.GetEvents()) > 0 {
				if n, counted := m.renumbered[c.GetEvent()]; counted {
					c.Event = n
				} else if c.GetEvent() > m.index.GetNumber() {
					c.Event -= m.lost
				}
			}
		}
		log[i].Data = seal(decoded)
	}
	return log
}
