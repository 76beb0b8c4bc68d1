package durable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// A Place is a follower's position in the journal of one shard. It is the number of the last event
// that the follower has read, and the chunk of the journal with that event. Reading from the zero
// Place begins at the oldest kept event. Reading from any other place fails if events behind that
// place were deleted.
type Place struct {
	// Chunk is the chunk of event Number, as far as that is known. It is a hint: a copy of the
	// shard may have the event in another chunk.
	Chunk  uint64
	Number uint64 // the last event read, or the event before the first one to be read
	// Sum is the checksum of event Number. 0 means that the event was not read, or was read by a
	// program without checksums. Sum detects a journal that was restored to an older state, and
	// later got another event with this number.
	Sum uint32 `json:",omitempty"`
}

// FirstPlace is the place before the first event of a shard.
var FirstPlace = Place{Chunk: 1}

// A Recorded is an event that was read from a journal, with the follower's place after it.
type Recorded struct {
	Place   Place
	Entity  string
	Version uint64 // of the entity, after the turn that recorded it
	At      int64  // Unix time of the turn's end, in milliseconds
	Event   []byte // not to be changed
}

// A GoneError says that events after a follower's place were deleted.
type GoneError struct {
	Place Place
	Next  uint64 // the oldest kept event
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("events %d to %d of the journal were deleted before the follower read them (keep events longer, or name the follower and keep events until named followers have read them)", e.Place.Number+1, e.Next-1)
}

// The causes of a LostError.
var (
	// ErrBeyond means that the place is behind the journal's last event.
	ErrBeyond = errors.New("the journal ends before the follower's position")
	// ErrOther means that the journal has another event at the place than the follower has read.
	ErrOther = errors.New("the journal now has another event with this number")
)

// A LostError says that a journal does not continue at a follower's place. Cause is ErrBeyond or
// ErrOther if the journal was restored to an older state. Cause is ErrCorrupt if events are missing
// from the journal. A stale read of the store can give the same error, so the loss is certain only
// if the error lasts.
type LostError struct {
	Place Place
	Last  uint64 // the journal's last event
	Cause error
}

func (e *LostError) Error() string {
	if errors.Is(e.Cause, ErrCorrupt) {
		return fmt.Sprintf("a part of the journal is missing, at event %d of %d: the store has lost it (restore the store from a backup, or the shard from an export: shardctl store repair -shard -from)", e.Place.Number+1, e.Last)
	}
	return fmt.Sprintf("the follower has read up to event %d, and the journal ends at event %d: %v, because the store or this shard was restored to an older state (start the follower again without its position, after shardctl store delete TYPE -follower NAME, or under another name)", e.Place.Number, e.Last, e.Cause)
}

func (e *LostError) Unwrap() error { return e.Cause }

// A Getter returns the records under the given keys, in the order of the keys and as of one moment.
type Getter func(keys ...string) ([]store.Record, error)

// Look reads some of the events behind place p. It returns these events, and the place of the last
// of them as after. If there are no events behind p, after is p, perhaps with the chunk or number
// filled in. The error may be a *GoneError, a *LostError, or an error of get.
func (p Place) Look(get Getter) (events []Recorded, after Place, err error) {
	index, _, err := p.read(get)
	if err == nil {
		err = p.beyond(index)
	}
	switch {
	case err != nil:
		return nil, p, err
	case index.GetNumber() == p.Number && p == Place{}:
		return nil, FirstPlace, nil
	case index.GetNumber() == p.Number:
		return nil, p, nil
	case index.GetFirst() > index.GetLast() && p == Place{}: // repair has found no chunk
		return nil, Place{Chunk: index.GetFirst(), Number: index.GetNumber()}, nil
	case index.GetFirst() > index.GetLast():
		return nil, p, &GoneError{p, index.GetNumber() + 1}
	}
	events, after, err = p.next(get, p.in(index).Chunk)
	if err != nil || after.Chunk != 0 {
		return events, after, err
	}
	if p, err = p.search(get, index); err != nil { // the event is in another chunk
		return nil, p, err
	}
	if events, after, err = p.next(get, p.Chunk); err == nil && after.Chunk == 0 {
		return nil, p, p.missing(index)
	}
	return events, after, err
}

// End returns the place behind the journal's last event.
func End(get Getter) (Place, error) {
	index, _, err := Place{}.read(get)
	if err != nil || index.GetNumber() == 0 {
		return FirstPlace, err
	}
	return Place{Chunk: max(index.GetLast(), 1), Number: index.GetNumber()}, nil
}

// Fits reports whether the journal still has the event that was read at this place. It compares
// checksums. It returns false if the journal ends before this place. It returns true if it cannot
// compare, because the event was deleted or the place has no checksum.
func (p Place) Fits(get Getter) (bool, error) {
	if p.Sum == 0 {
		return true, nil
	}
	index, found, err := p.read(get, p.Chunk)
	if err != nil || index.GetNumber() < p.Number {
		return false, err
	}
	if len(found) == 0 || found[0].GetNumber() > p.Number || found[len(found)-1].GetNumber() < p.Number {
		if p, err = p.search(get, index); err != nil {
			return false, err
		}
		if _, found, err = p.read(get, p.Chunk); err != nil {
			return false, err
		}
	}
	for _, e := range found {
		if e.GetNumber() == p.Number {
			return sumOf(e.DurableEvent) == p.Sum, nil
		}
	}
	return true, nil
}

// read returns the journal's index and the events of the given chunks. A missing index reads as
// empty.
func (p Place) read(get Getter, chunks ...uint64) (index *wire.DurableJournal, found []located, err error) {
	keys := []string{journalKey}
	for _, chunk := range chunks {
		keys = append(keys, chunkKey(chunk))
	}
	records, err := get(keys...)
	if err != nil {
		return nil, nil, err
	}
	if index = (&wire.DurableJournal{First: 1}); records[0].Revision != store.None {
		if index, err = readIndex(records[0]); err != nil {
			return nil, nil, err
		}
	}
	for _, r := range records[1:] {
		if r.Revision == store.None {
			continue
		}
		chunk := &wire.DurableChunk{}
		if err := unseal(r.Value, chunk); err != nil {
			return nil, nil, fmt.Errorf("journal: %w", err)
		}
		for _, e := range chunk.GetEvents() {
			found = append(found, located{e, chunk.GetChunk()})
		}
	}
	return index, found, nil
}

type located struct {
	*wire.DurableEvent
	chunk uint64
}

func (p Place) beyond(i *wire.DurableJournal) error {
	if i.GetNumber() >= p.Number {
		return nil
	}
	return &LostError{p, i.GetNumber(), ErrBeyond}
}

// in returns the place with its chunk limited to the chunks that the index counts.
func (p Place) in(i *wire.DurableJournal) Place {
	p.Chunk = max(min(p.Chunk, i.GetLast()), i.GetFirst())
	return p
}

// next reads the given chunk and the chunk behind it, and returns their events after the place. The
// returned place has no chunk if neither chunk has event p.Number.
func (p Place) next(get Getter, chunk uint64) (events []Recorded, after Place, err error) {
	index, found, err := p.read(get, chunk, chunk+1)
	if err == nil {
		err = p.beyond(index)
	}
	// A chunk behind the last is one that a former home wrote, and did not count. It may have events
	// that the present home has written to the last chunk.
	found = slices.DeleteFunc(found, func(e located) bool { return e.chunk > index.GetLast() })
	switch {
	case err != nil || index.GetNumber() == p.Number:
		return nil, p, err
	case len(found) == 0 || p == Place{} && found[0].GetNumber() > index.GetNumber():
		return nil, p, p.missing(index)
	case p == Place{}:
		after = Place{Chunk: found[0].chunk, Number: found[0].GetNumber() - 1}
	default:
		if after, err = p.among(index, found); err != nil || after.Chunk == 0 {
			return nil, after, err
		}
	}
	for _, e := range found {
		n := e.GetNumber()
		switch {
		case n == p.Number && p.Sum != 0 && sumOf(e.DurableEvent) != p.Sum:
			return nil, p, &LostError{p, index.GetNumber(), ErrOther}
		case n <= after.Number:
			after.Chunk = max(after.Chunk, e.chunk)
			continue
		case n > index.GetNumber(), n != after.Number+1: // not counted yet; or something is missing
			return events, after, p.stays(index, after)
		}
		after = Place{e.chunk, n, sumOf(e.DurableEvent)}
		events = append(events, Recorded{
			Place: after, Entity: string(e.GetEntity()), Version: e.GetVersion(), At: e.GetAt(), Event: e.GetEvent(),
		})
	}
	return events, after, p.stays(index, after)
}

// among returns the place if the found events continue from it. If they belong to another part of
// the journal, it returns the place with chunk 0, so that the caller searches for the right chunk.
// It fails with a *GoneError if the next event is older than the journal's oldest chunk.
func (p Place) among(index *wire.DurableJournal, found []located) (Place, error) {
	low, high := found[0].GetNumber(), found[len(found)-1].GetNumber()
	switch oldest := found[0].chunk <= index.GetFirst(); {
	case oldest && low > p.Number+1:
		return p, &GoneError{p, low}
	case !oldest && low > p.Number+1, !oldest && low > p.Number && p.Sum != 0, high < p.Number:
		p.Chunk = 0
		return p, nil
	}
	return p.in(index), nil
}

// stays returns an error if the journal has events behind p but reading them gave no later place
// than p.
func (p Place) stays(index *wire.DurableJournal, after Place) error {
	if p == (Place{}) || after != p.in(index) {
		return nil
	}
	return p.missing(index)
}

func (p Place) missing(index *wire.DurableJournal) error {
	return &LostError{p, index.GetNumber(), ErrCorrupt}
}

// sumOf returns a checksum that is never 0.
func sumOf(e *wire.DurableEvent) uint32 {
	b := binary.LittleEndian.AppendUint64(nil, e.GetVersion())
	b = binary.LittleEndian.AppendUint64(b, uint64(e.GetAt()))
	b = append(b, e.GetEntity()...)
	return max(crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, e.GetEvent()), 1)
}

func (p Place) search(get Getter, index *wire.DurableJournal) (Place, error) {
	low, high := index.GetFirst(), index.GetLast() // the chunk is one of these, both included
	for low < high {
		middle := low + (high-low+1)/2
		_, found, err := p.read(get, middle)
		switch {
		case err != nil:
			return p, err
		case len(found) == 0:
			return p, p.missing(index)
		case found[0].GetNumber() <= p.Number:
			low = middle
		default:
			high = middle - 1
		}
	}
	p.Chunk = low
	return p, nil
}
