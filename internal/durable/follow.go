package durable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// A Place is how far a follower has read a shard's journal. Events are followed by their numbers.
// The zero value is that of a follower that begins anew: it begins at the oldest event that is kept.
// Every other place has a chunk, and events that were deleted behind it are missed.
type Place struct {
	// Chunk has event Number, as far as that is known. It is a hint: an image of the shard may
	// have events in other chunks.
	Chunk  uint64
	Number uint64 // the event that was read last, or that before the first one to be read
	// Sum is the checksum of event Number; 0: it was not read, or by a program that had none. A
	// journal that was put back to an older state has another event of that number later.
	Sum uint32 `json:",omitempty"`
}

// FirstPlace is before the first event of a shard.
var FirstPlace = Place{Chunk: 1}

// A Recorded is one event of a journal.
type Recorded struct {
	Place   Place
	Entity  string
	Version uint64 // of the entity, after the turn that recorded it
	At      int64  // Unix time of the turn's end, in milliseconds
	Event   []byte // not to be changed
}

// A GoneError says that events after a follower's place are not kept any more.
type GoneError struct {
	Place Place
	Next  uint64 // the oldest that is kept
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("events %d to %d of the journal are deleted and were not read (keep them longer, or let followers have a name and keep what they have not read)", e.Place.Number+1, e.Next-1)
}

// Reasons of a LostError.
var (
	// ErrBeyond is a place behind the journal's last event.
	ErrBeyond = errors.New("the journal ends before it")
	// ErrOther is a place whose event is not the one that was read.
	ErrOther = errors.New("the journal has another event of this number now")
)

// A LostError says that a journal does not go on behind a follower's place. Its Cause is ErrBeyond or
// ErrOther if the journal was put back to an older state, and ErrCorrupt if it lacks events. A stale
// answer of the store may look the same, so it holds only if it lasts.
type LostError struct {
	Place Place
	Last  uint64 // the journal's last event
	Cause error
}

func (e *LostError) Error() string {
	if errors.Is(e.Cause, ErrCorrupt) {
		return fmt.Sprintf("a part of the journal is missing, at event %d of %d: %v", e.Place.Number+1, e.Last, e.Cause)
	}
	return fmt.Sprintf("the follower has read up to event %d, and the journal goes up to %d: %v: the store, or this shard, was restored to an older state (begin anew: without the position, or under another name; events up to %d that are the same come again)", e.Place.Number, e.Last, e.Cause, e.Place.Number)
}

func (e *LostError) Unwrap() error { return e.Cause }

// JournalIndex is the key of the record that says how far a journal goes.
const JournalIndex = journalKey

// indexOf reads the index of a journal, which may have no events yet.
func indexOf(r store.Record) (*wire.DurableJournal, error) {
	if r.Revision == store.None {
		return &wire.DurableJournal{First: 1}, nil
	}
	return readIndex(r)
}

// Keys returns the records to be read after a place, in one Get. There are none where the
// index that was read has nothing behind it. Its error may be a *LostError.
func (p Place) Keys(index store.Record) ([]string, error) {
	i, err := indexOf(index)
	if err == nil {
		err = p.beyond(i)
	}
	if err != nil || i.GetNumber() == p.Number {
		return nil, err
	}
	chunk := p.in(i).Chunk
	return []string{journalKey, chunkKey(chunk), chunkKey(chunk + 1)}, nil
}

// beyond returns an error for a place behind the last event.
func (p Place) beyond(i *wire.DurableJournal) error {
	if i.GetNumber() >= p.Number {
		return nil
	}
	return &LostError{p, i.GetNumber(), ErrBeyond}
}

// in returns the place with a chunk that the journal may have.
func (p Place) in(i *wire.DurableJournal) Place {
	p.Chunk = max(min(p.Chunk, i.GetLast()), i.GetFirst())
	return p
}

// Next returns the events after a place, from the records that Keys named, and the place
// behind them. If that is without a chunk, Search finds it. Where there are no events the place may be
// another all the same: read again. Its error may be a *GoneError or a *LostError.
func (p Place) Next(records []store.Record) (events []Recorded, after Place, err error) {
	index, err := indexOf(records[0])
	if err == nil {
		err = p.beyond(index)
	}
	if err != nil || index.GetNumber() == p.Number {
		return nil, p, err
	}
	var found []*wire.DurableEvent
	var chunks []uint64 // of found
	for _, r := range records[1:] {
		if r.Revision == store.None {
			continue
		}
		chunk := &wire.DurableChunk{}
		if err := unseal(r.Value, chunk); err != nil {
			return nil, p, fmt.Errorf("journal: %w", err)
		}
		for _, e := range chunk.GetEvents() {
			found, chunks = append(found, e), append(chunks, chunk.GetChunk())
		}
	}
	if len(found) == 0 || p == (Place{}) && found[0].GetNumber() > index.GetNumber() {
		return nil, p, p.missing(index)
	}
	if p == (Place{}) {
		after = Place{Chunk: chunks[0], Number: found[0].GetNumber() - 1}
	} else if after, err = p.among(index, found, chunks[0]); err != nil || after.Chunk == 0 {
		return nil, after, err
	}
	for k, e := range found {
		n := e.GetNumber()
		switch {
		case n == p.Number && p.Sum != 0 && sumOf(e) != p.Sum:
			return nil, p, &LostError{p, index.GetNumber(), ErrOther}
		case n <= after.Number:
			if chunks[k] <= index.GetLast() { // else it is written anew
				after.Chunk = max(after.Chunk, chunks[k])
			}
			continue
		case n > index.GetNumber(), n != after.Number+1: // not counted yet; or something is missing
			return events, after, p.stays(index, after)
		}
		after = Place{chunks[k], n, sumOf(e)}
		events = append(events, Recorded{
			Place: after, Entity: string(e.GetEntity()), Version: e.GetVersion(), At: e.GetAt(), Event: e.GetEvent(),
		})
	}
	return events, after, p.stays(index, after)
}

// among returns the place, without its chunk if events that were found, from that chunk on, are not those around it.
func (p Place) among(index *wire.DurableJournal, found []*wire.DurableEvent, first uint64) (Place, error) {
	low, high := found[0].GetNumber(), found[len(found)-1].GetNumber()
	switch oldest := first <= index.GetFirst(); {
	case oldest && low > p.Number+1:
		return p, &GoneError{p, low}
	case !oldest && low > p.Number+1, !oldest && low > p.Number && p.Sum != 0, high < p.Number:
		p.Chunk = 0
		return p, nil
	}
	return p.in(index), nil
}

// stays returns an error if there are events behind a place and nothing leads to them.
func (p Place) stays(index *wire.DurableJournal, after Place) error {
	if p == (Place{}) || after != p.in(index) {
		return nil
	}
	return p.missing(index)
}

// Missing returns the error of a place whose event is in none of the chunks.
func (p Place) Missing(index store.Record) error {
	i, err := indexOf(index)
	if err != nil {
		return err
	}
	return p.missing(i)
}

func (p Place) missing(index *wire.DurableJournal) error {
	return &LostError{p, index.GetNumber(), ErrCorrupt}
}

// sumOf returns the checksum of an event; it is never 0.
func sumOf(e *wire.DurableEvent) uint32 {
	b := binary.LittleEndian.AppendUint64(nil, e.GetVersion())
	b = binary.LittleEndian.AppendUint64(b, uint64(e.GetAt()))
	b = append(b, e.GetEntity()...)
	return max(crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, e.GetEvent()), 1)
}

// A Search finds the chunk that has the event of a place, by halves.
type Search struct {
	place     Place
	low, high uint64 // the chunk is one of these, both included
	last      uint64 // the journal's last event
}

// Search begins one.
func (p Place) Search(index store.Record) (Search, error) {
	i, err := indexOf(index)
	return Search{p, i.GetFirst(), i.GetLast(), i.GetNumber()}, err
}

// Key returns the key of the chunk to be read next; none: the place is found.
func (s *Search) Key() (key string, more bool) {
	return chunkKey(s.middle()), s.low < s.high
}

func (s *Search) middle() uint64 { return s.low + (s.high-s.low+1)/2 }

// Read takes the chunk that Key named.
func (s *Search) Read(r store.Record) error {
	chunk := &wire.DurableChunk{}
	if r.Revision != store.None {
		if err := unseal(r.Value, chunk); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	switch events := chunk.GetEvents(); {
	case len(events) == 0:
		return &LostError{s.place, s.last, ErrCorrupt}
	case events[0].GetNumber() <= s.place.Number:
		s.low = s.middle()
	default:
		s.high = s.middle() - 1
	}
	return nil
}

// Place returns the place with the chunk that was found.
func (s *Search) Place() Place {
	s.place.Chunk = s.low
	return s.place
}
