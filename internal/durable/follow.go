package durable

import (
	"fmt"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// A Place is how far a follower has read a shard's journal. The zero value is its
// beginning: the oldest event that is kept.
type Place struct {
	Chunk  uint64 // the chunk that has event Number
	Number uint64 // the last event that was read
}

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

// JournalIndex is the key of the record that says how far a journal goes.
const JournalIndex = journalKey

// Keys returns the records to be read after a place, in one Get. There are none where the
// index that was read has nothing beyond it.
func (p Place) Keys(index store.Record) ([]string, error) {
	if index.Revision == store.None {
		return nil, nil
	}
	i, err := readIndex(index)
	if err != nil || i.GetNumber() <= p.Number {
		return nil, err
	}
	chunk := max(p.Chunk, i.GetFirst())
	return []string{journalKey, chunkKey(chunk), chunkKey(chunk + 1)}, nil
}

// Next returns the events after a place, from the records that Keys named, and the place
// behind them. Where there are none the place may be another all the same, or the store's
// answer was stale: read again.
func (p Place) Next(records []store.Record) (events []Recorded, after Place, err error) {
	if records[0].Revision == store.None {
		return nil, p, nil
	}
	index, err := readIndex(records[0])
	if err != nil {
		return nil, p, err
	}
	begin := p
	for _, r := range records[1:] {
		if r.Revision == store.None {
			continue
		}
		chunk := &wire.DurableChunk{}
		if err := unseal(r.Value, chunk); err != nil {
			return nil, begin, fmt.Errorf("journal: %w", err)
		}
		for _, e := range chunk.GetEvents() {
			switch n := e.GetNumber(); {
			case n <= p.Number:
				if chunk.GetChunk() <= index.GetLast() { // else it is written anew
					p.Chunk = max(p.Chunk, chunk.GetChunk())
				}
				continue
			case n > index.GetNumber(): // not counted yet
				return events, p, nil
			case n != p.Number+1 && begin.Number == 0 && len(events) == 0: // the oldest that is kept
			case n != p.Number+1 && len(events) > 0:
				return events, p, nil
			case n != p.Number+1 && chunk.GetChunk() <= index.GetFirst():
				return nil, begin, &GoneError{begin, n}
			case n != p.Number+1:
				return nil, p, nil
			}
			p = Place{chunk.GetChunk(), e.GetNumber()}
			events = append(events, Recorded{
				Place: p, Entity: string(e.GetEntity()), Version: e.GetVersion(), At: e.GetAt(), Event: e.GetEvent(),
			})
		}
	}
	return events, p, nil
}
