package durable

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// aJournal returns the records of a journal. Chunk first+i has the events with the numbers
// chunks[i]. The chunks in lost are left out.
func aJournal(first uint64, chunks [][]uint64, lost ...uint64) (records []store.Record) {
	index := &wire.DurableJournal{Format: 1, First: first, Last: first - 1}
	for _, numbers := range chunks {
		index.Last++
		c := &wire.DurableChunk{Format: 1, Chunk: index.Last}
		for _, n := range numbers {
			c.Events = append(c.Events, &wire.DurableEvent{Number: n, Entity: []byte("a"), Version: n, Event: fmt.Append(nil, "e", n)})
			index.Number = max(index.Number, n)
		}
		if !slices.Contains(lost, index.Last) {
			records = append(records, store.Record{Key: chunkKey(index.Last), Revision: 1, Value: seal(c)})
		}
	}
	return append(records, store.Record{Key: journalKey, Revision: 1, Value: seal(index)})
}

// aLog returns a log: a claim, and a commit with each of the events.
func aLog(numbers ...uint64) []store.Append {
	log := []store.Append{{Position: 1, Data: ClaimAppend("n", 7, 1)}}
	for _, n := range numbers {
		log = append(log, store.Append{Position: store.Position(n + 1), Data: seal(&wire.DurableAppend{
			Format: 1, Epoch: 1, Incarnation: 7, Claim: 1, Counter: n,
			Entries: []*wire.DurableEntry{{Kind: &wire.DurableEntry_Commit{Commit: &wire.DurableCommit{
				Entity: []byte("a"), Version: n, State: []byte("s"), Events: [][]byte{fmt.Append(nil, "e", n)}, Event: n,
			}}}},
		})})
	}
	return log
}

// readFrom returns what a follower reads after a place, and its last place. It fails if the
// follower waits although there are more events.
func readFrom(p Place, records []store.Record) (got []string, after Place, err error) {
	there := make(map[string]store.Record)
	for _, r := range records {
		there[r.Key] = r
	}
	for {
		events, after, err := p.Look(func(keys ...string) (read []store.Record, err error) {
			for _, key := range keys {
				read = append(read, there[key])
			}
			return read, nil
		})
		if err != nil {
			return got, p, err
		}
		if len(events) == 0 && after == p {
			var index wire.DurableJournal
			if err := unseal(there[journalKey].Value, &index); err != nil {
				return got, p, err
			}
			if p.Number < index.GetNumber() {
				err = errors.New("it waits")
			}
			return got, p, err
		}
		for _, e := range events {
			got = append(got, fmt.Sprint(e.Place.Number, ":", string(e.Event)))
		}
		p = after
	}
}

// TestUndamagedJournal: whatever chunks are lost, verify reports the loss, the rest of the journal
// begins behind them, and no follower waits, at whatever place. The same holds if the index is
// lost: its number then comes from the chunks and the log.
func TestUndamagedJournal(t *testing.T) {
	three := [][]uint64{{1, 2}, {3, 4}, {5, 6}}
	garbage := store.Record{Key: journalKey, Revision: 1, Value: []byte("garbage")}
	type index []store.Record // in place of the one that counts the chunks
	for _, tt := range []struct {
		name   string
		first  uint64
		chunks [][]uint64
		lost   []uint64
		index  *index
		log    []uint64 // events that the log has, too
		report string
		want   string // what a new follower reads
		rest   string // the numbers of the log's events that the journal lacks
	}{
		{"nothing", 1, three, nil, nil, []uint64{6, 7}, "", "1:e1 2:e2 3:e3 4:e4 5:e5 6:e6", "7"},
		{"the middle", 1, three, []uint64{2}, nil, []uint64{6, 7}, "j2", "5:e5 6:e6", "7"},
		{"the oldest", 1, three, []uint64{1}, nil, nil, "j1", "3:e3 4:e4 5:e5 6:e6", ""},
		{"the last", 1, three, []uint64{3}, nil, []uint64{7, 8}, "j3", "", "7 8"},
		{"two", 1, [][]uint64{{1}, {2}, {3}, {4}}, []uint64{2, 3}, nil, []uint64{5}, "j2 j3", "4:e4", "5"},
		{"all", 1, three, []uint64{1, 2, 3}, nil, []uint64{7}, "j1 j2 j3", "", "7"},
		{"of one that is trimmed", 3, [][]uint64{{5}, {6}, {7}}, []uint64{4}, nil, []uint64{4, 5}, "j4", "7:e7", ""},
		{"events in a chunk", 1, [][]uint64{{1, 2}, {4, 5}}, nil, nil, nil, "j2", "", ""},
		{"chunks that overlap", 1, [][]uint64{{1, 2}, {2, 3}, {4}}, nil, nil, nil, "", "1:e1 2:e2 3:e3 4:e4", ""},
		{"one of chunks that overlap", 1, [][]uint64{{1, 2}, {2, 3}, {4}}, []uint64{1}, nil, nil, "j1", "2:e2 3:e3 4:e4", ""},
		{"no index", 1, three, nil, &index{}, []uint64{6, 7}, "j", "", "7"},
		{"no index, and an empty log", 1, three, nil, &index{}, nil, "j", "", ""},
		{"no index, and no last chunk", 1, three, []uint64{3}, &index{}, []uint64{7, 8}, "j", "", "7 8"},
		{"a damaged index", 1, three, nil, &index{garbage}, []uint64{6, 7}, "j", "", "7"},
		{"a damaged index alone", 1, nil, nil, &index{garbage}, nil, "j", "", ""},
		{"an index that is not written yet", 1, three, nil, &index{}, []uint64{1, 2, 3, 4, 5, 6, 7}, "", "", "1 2 3 4 5 6 7"},
	} {
		records, log := aJournal(tt.first, tt.chunks, tt.lost...), aLog(tt.log...)
		if tt.index != nil {
			records = append(records[:len(records)-1], *tt.index...)
		} else if LacksChunks(records) != (len(tt.lost) > 0) {
			t.Errorf("%s: LacksChunks: %v", tt.name, LacksChunks(records))
		}
		head := store.Head{Revision: 1, Value: FreshHead("n", 7, 1, nil)}
		snap := Snap(head, log, records, nil)
		if got := places(snap.Problems); got != tt.report {
			t.Errorf("%s: verify reports %q, want %q", tt.name, got, tt.report)
		}
		head, log, rest := Undamaged(head, log, records, snap.Problems)
		if got := places(Snap(head, log, rest, nil).Problems); got != "" {
			t.Errorf("%s: of the rest verify reports %q", tt.name, got)
		}
		j := newJournal(Journal{On: true}, 0)
		if i := slices.IndexFunc(rest, func(r store.Record) bool { return r.Key == journalKey }); i >= 0 {
			if err := j.recover(rest[i]); err != nil {
				t.Fatal(err)
			}
			got, _, err := readFrom(Place{}, rest)
			if s := strings.Join(got, " "); err != nil || s != tt.want {
				t.Errorf("%s: a new follower reads %q, %v, want %q", tt.name, s, err, tt.want)
			}
		}
		var later []string
		for _, a := range log {
			decoded, err := readAppend(a.Data)
			if err != nil {
				t.Fatal(err)
			}
			j.ack(decoded.GetEntries()[0].GetCommit(), j.due)
		}
		for _, e := range j.waiting {
			later = append(later, fmt.Sprint(e.GetNumber()))
		}
		if s := strings.Join(later, " "); s != tt.rest || j.check() != nil {
			t.Errorf("%s: the log's other events are %q (%v), want %q", tt.name, s, j.check(), tt.rest)
		}

		// A follower of any place goes on with a later event, or hears what is gone.
		more := &wire.DurableJournal{Format: 1, First: j.index.GetFirst(), Last: j.index.GetLast() + 1, Number: j.index.GetNumber() + 9}
		chunk := &wire.DurableChunk{Format: 1, Chunk: more.Last}
		for n := j.index.GetNumber() + 1; n <= more.Number; n++ {
			chunk.Events = append(chunk.Events, &wire.DurableEvent{Number: n, Event: []byte("new")})
		}
		rest = slices.DeleteFunc(rest, func(r store.Record) bool { // a home writes chunks that are not counted again
			n, _ := strconv.ParseUint(r.Key[len(journalKey):], 10, 64)
			return r.Key == journalKey || n > j.index.GetLast()
		})
		rest = append(rest, store.Record{Key: chunkKey(more.Last), Revision: 1, Value: seal(chunk)}, store.Record{Key: journalKey, Revision: 1, Value: seal(more)})
		for i, numbers := range tt.chunks {
			for _, n := range numbers {
				got, after, err := readFrom(Place{Chunk: tt.first + uint64(i), Number: n}, rest)
				if gone := (*GoneError)(nil); !errors.As(err, &gone) && (err != nil || after.Number != more.Number) {
					t.Errorf("%s: a follower behind %d reads %q, %v", tt.name, n, got, err)
				}
			}
		}
	}
}

// TestUndamaged: the rest of a damaged shard can be opened, and has what was stored before the
// damage.
func TestUndamaged(t *testing.T) {
	entity := func(id, state string) store.Record {
		return store.Record{Key: entityKey(id), Revision: 1, Value: seal(&wire.DurableRecord{Format: 1, Entity: []byte(id), Version: 1, State: []byte(state)})}
	}
	bad := func(key string) store.Record { return store.Record{Key: key, Revision: 1, Value: []byte("garbage")} }
	commit := func(n uint64, id, state string) store.Append {
		c := &wire.DurableCommit{Entity: []byte(id), Version: 2, State: []byte(state)}
		if state == "" {
			c.State, c.Folded, c.Events, c.Event = nil, true, [][]byte{{1}}, 1
		}
		return store.Append{Position: store.Position(n), Data: seal(&wire.DurableAppend{
			Format: 1, Epoch: 1, Incarnation: 7, Claim: 1, Counter: n,
			Entries: []*wire.DurableEntry{{Kind: &wire.DurableEntry_Commit{Commit: c}}},
		})}
	}
	claim := store.Append{Position: 1, Data: ClaimAppend("n", 7, 1)}
	head := store.Head{Revision: 1, Value: FreshHead("n", 7, 1, nil)}
	lost := head
	lost.Value = seal(&wire.DurableHead{Format: 1, Epoch: 1, Node: "n", Lost: &wire.DurableLost{Node: "m"}})
	for _, tt := range []struct {
		name    string
		head    store.Head
		log     []store.Append
		records []store.Record
		want    string
	}{
		{"nothing", head, []store.Append{claim, commit(2, "a", "a2")}, []store.Record{entity("a", "a1"), entity("b", "b1")}, "a=a2 b=b1"},
		{"an append", head, []store.Append{claim, commit(2, "a", "a2"), {Position: 3, Data: []byte("garbage")}, commit(4, "b", "b2")}, []store.Record{entity("a", "a1"), entity("b", "b1")}, "a=a2 b=b1"},
		{"a record", head, []store.Append{claim, commit(2, "a", "a2")}, []store.Record{entity("a", "a1"), bad(entityKey("b"))}, "a=a2"},
		{"a record under events", head, []store.Append{claim, commit(2, "a", "a2"), commit(3, "b", ""), commit(4, "a", "a3")}, []store.Record{bad(entityKey("b"))}, "a=a2"},
		{"a record that the log replaces, and an append before that", head, []store.Append{claim, {Position: 2, Data: []byte("garbage")}, commit(3, "b", "b2")}, []store.Record{entity("a", "a1"), bad(entityKey("b"))}, "a=a1"},
		{"the head", store.Head{Revision: 1, Value: []byte("garbage")}, []store.Append{claim, commit(2, "a", "a2")}, []store.Record{bad("t0/0")}, "a=a2"},
		{"no head", store.Head{}, []store.Append{claim, commit(2, "a", "a2")}, nil, "a=a2"},
		{"the table", head, []store.Append{claim, commit(2, "a", "a2")}, []store.Record{bad("t0/0")}, "a=a2"},
		{"two histories", lost, []store.Append{claim, commit(2, "a", "a2")}, []store.Record{entity("b", "b1")}, "a=a2 b=b1"},
	} {
		h, log, records := Undamaged(tt.head, tt.log, tt.records, Snap(tt.head, tt.log, tt.records, nil).Problems)
		if tt.name == "two histories" {
			var err error
			if h.Value, err = Unanchored(h.Value); err != nil {
				t.Fatal(err)
			}
		}
		snap := Snap(h, log, records, nil)
		var got []string
		for _, e := range snap.Entities {
			got = append(got, e.ID+"="+string(e.State))
		}
		if s := strings.Join(got, " "); s != tt.want || len(snap.Problems) > 0 {
			t.Errorf("%s: the rest has %s and the problems %v, want %s", tt.name, s, snap.Problems, tt.want)
		}
	}
}

// places returns the places of problems as text; a record of the journal is its key.
func places(problems []Problem) string {
	var all []string
	for _, p := range problems {
		all = append(all, strings.TrimPrefix(p.Place, "journal, record "))
	}
	return strings.Join(all, " ")
}

// TestUncountedChunk: a former home had begun a chunk that it never counted, and the present home
// has its events, and later ones, in the last chunk. A follower reads on from any place.
func TestUncountedChunk(t *testing.T) {
	all := aJournal(1, [][]uint64{{1, 2, 3}, {4, 5, 6, 7, 8}})
	uncounted := &wire.DurableChunk{Format: 1, Chunk: 3, Events: []*wire.DurableEvent{{Number: 4, Event: []byte("e4")}, {Number: 5, Event: []byte("e5")}}}
	all = append(all, store.Record{Key: chunkKey(3), Revision: 1, Value: seal(uncounted)})
	for n := range uint64(9) {
		for chunk := uint64(1); chunk <= 3; chunk++ { // the chunk of a place is a hint
			got, after, err := readFrom(Place{Chunk: chunk, Number: n}, all)
			if err != nil || after.Number != 8 || len(got) != int(8-n) {
				t.Errorf("behind event %d, in chunk %d: read %q up to %d, %v", n, chunk, got, after.Number, err)
			}
		}
	}
}
