package durable

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// aJournal is a journal with an event of each number in chunks, of which some are lost: the numbers of
// chunk i+first are in chunks[i].
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

// aLog is a claim and a commit with each event.
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

// readFrom returns what a follower reads behind a place, and its last place. It fails if the follower waits
// though there is more.
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

// TestMendJournal: whatever chunks are lost, verify reports it, the mended journal has the other events and
// those that the log has, and no follower waits, wherever it stood.
func TestMendJournal(t *testing.T) {
	three := [][]uint64{{1, 2}, {3, 4}, {5, 6}}
	for _, tt := range []struct {
		name   string
		first  uint64
		chunks [][]uint64
		lost   []uint64
		log    []uint64 // events that the log has, too
		report string
		want   string // what a new follower reads
		rest   string // the numbers of the log's events that the journal lacks
	}{
		{"nothing", 1, three, nil, []uint64{6, 7}, "", "1:e1 2:e2 3:e3 4:e4 5:e5 6:e6", "7"},
		{"the middle", 1, three, []uint64{2}, []uint64{6, 7}, "j2", "1:e1 2:e2 3:e5 4:e6", "5"},
		{"the middle, which the log has", 1, three, []uint64{2}, []uint64{3, 4, 5, 6, 7}, "j2", "1:e1 2:e2 3:e3 4:e4 5:e5 6:e6", "7"},
		{"the middle, which the log has in part", 1, three, []uint64{2}, []uint64{4, 5, 6, 7}, "j2", "1:e1 2:e2 3:e4 4:e5 5:e6", "6"},
		{"the oldest", 1, three, []uint64{1}, nil, "j1", "3:e3 4:e4 5:e5 6:e6", ""},
		{"the oldest, which the log has", 1, three, []uint64{1}, []uint64{1, 2, 3, 4, 5, 6}, "j1", "1:e1 2:e2 3:e3 4:e4 5:e5 6:e6", ""},
		{"the last", 1, three, []uint64{3}, []uint64{7, 8}, "j3", "1:e1 2:e2 3:e3 4:e4", "5 6"},
		{"the last, which the log has", 1, three, []uint64{3}, []uint64{5, 6, 7}, "j3", "1:e1 2:e2 3:e3 4:e4 5:e5 6:e6", "7"},
		{"two", 1, [][]uint64{{1}, {2}, {3}, {4}}, []uint64{2, 3}, []uint64{5}, "j2 j3", "1:e1 2:e4", "3"},
		{"two, which the log has", 1, [][]uint64{{1}, {2}, {3}, {4}}, []uint64{2, 3}, []uint64{2, 3, 4, 5}, "j2 j3", "1:e1 2:e2 3:e3 4:e4", "5"},
		{"two of three", 1, three, []uint64{1, 3}, nil, "j1 j3", "3:e3 4:e4", ""},
		{"all", 1, three, []uint64{1, 2, 3}, []uint64{7}, "j1 j2 j3", "", "7"},
		{"of one that is trimmed", 3, [][]uint64{{5}, {6}, {7}}, []uint64{4}, []uint64{4, 5}, "j4", "5:e5 6:e7", ""},
		{"events in a chunk", 1, [][]uint64{{1, 2}, {4, 5}}, nil, nil, "j2", "1:e1 2:e2 3:e4 4:e5", ""},
		{"events in a chunk, which the log has", 1, [][]uint64{{1, 2}, {4, 5}}, nil, []uint64{3, 4, 5}, "j2", "1:e1 2:e2 3:e3 4:e4 5:e5", ""},
		{"chunks that overlap", 1, [][]uint64{{1, 2}, {2, 3}, {4}}, nil, nil, "", "1:e1 2:e2 3:e3 4:e4", ""},
		{"one of chunks that overlap", 1, [][]uint64{{1, 2}, {2, 3}, {4}}, []uint64{1}, nil, "j1", "2:e2 3:e3 4:e4", ""},
	} {
		records, log := aJournal(tt.first, tt.chunks, tt.lost...), aLog(tt.log...)
		if got := reported(records); got != tt.report {
			t.Errorf("%s: verify reports %q, want %q", tt.name, got, tt.report)
		}
		if LacksChunks(records) != (len(tt.lost) > 0) {
			t.Errorf("%s: LacksChunks: %v", tt.name, LacksChunks(records))
		}
		mendedLog, mended, err := MendJournal(log, records)
		if err != nil {
			t.Fatal(err)
		}
		if got := reported(mended); got != "" {
			t.Errorf("%s: when it is mended, verify reports %q", tt.name, got)
		}
		got, _, err := readFrom(Place{}, mended)
		if s := strings.Join(got, " "); err != nil || s != tt.want {
			t.Errorf("%s: a new follower reads %q, %v, want %q", tt.name, s, err, tt.want)
		}
		j := newJournal(Journal{Kept: true}, 0)
		if err := j.recover(mended[len(mended)-1]); err != nil {
			t.Fatal(err)
		}
		var rest []string
		for _, a := range mendedLog {
			decoded, err := readAppend(a.Data)
			if err != nil {
				t.Fatal(err)
			}
			j.ack(decoded.GetEntries()[0].GetCommit(), j.due)
		}
		for _, e := range j.waiting {
			rest = append(rest, fmt.Sprint(e.GetNumber()))
		}
		if s := strings.Join(rest, " "); s != tt.rest || j.check() != nil {
			t.Errorf("%s: the log's other events are %q (%v), want %q", tt.name, s, j.check(), tt.rest)
		}

		for i, numbers := range tt.chunks { // nor does a follower of any place, before there are later events
			for _, n := range numbers {
				_, _, err := readFrom(Place{Chunk: tt.first + uint64(i), Number: n}, mended)
				if gone := (*GoneError)(nil); err != nil && !errors.As(err, &gone) && !errors.Is(err, ErrBeyond) {
					t.Errorf("%s: a follower behind %d: %v", tt.name, n, err)
				}
			}
		}

		// A follower of any place goes on with a later event, or hears what is gone.
		more := &wire.DurableJournal{Format: 1, First: j.index.GetFirst(), Last: j.index.GetLast() + 1, Number: j.index.GetNumber() + 9}
		chunk := &wire.DurableChunk{Format: 1, Chunk: more.Last}
		for n := j.index.GetNumber() + 1; n <= more.Number; n++ {
			chunk.Events = append(chunk.Events, &wire.DurableEvent{Number: n, Event: []byte("new")})
		}
		later := append(mended[:len(mended)-1:len(mended)-1],
			store.Record{Key: chunkKey(more.Last), Revision: 1, Value: seal(chunk)}, store.Record{Key: journalKey, Revision: 1, Value: seal(more)})
		for i, numbers := range tt.chunks {
			for _, n := range numbers {
				got, after, err := readFrom(Place{Chunk: tt.first + uint64(i), Number: n}, later)
				if gone := (*GoneError)(nil); !errors.As(err, &gone) && (err != nil || after.Number != more.Number) {
					t.Errorf("%s: a follower behind %d reads %q, %v", tt.name, n, got, err)
				}
			}
		}
	}
}

// TestMendIndex: an index that is lost, or damaged, is reported and made of the chunks, and followers go on. One that was not
// written yet is no damage: the log has all events then.
func TestMendIndex(t *testing.T) {
	garbage := store.Record{Key: journalKey, Revision: 1, Value: []byte("garbage")}
	for _, tt := range []struct {
		name   string
		index  []store.Record
		lost   []uint64 // chunks
		log    []uint64
		report string
		want   string // what a new follower reads
	}{
		{"missing", nil, nil, []uint64{6, 7}, "j", "3:e3 4:e4 5:e5 6:e6"},
		{"missing, with an empty log", nil, nil, nil, "j", "3:e3 4:e4 5:e5 6:e6"},
		{"missing, and a chunk", nil, []uint64{3}, []uint64{6, 7}, "j", "3:e3 4:e4 5:e6"},
		{"damaged", []store.Record{garbage}, nil, []uint64{6, 7}, "j", "3:e3 4:e4 5:e5 6:e6"},
		{"not written yet", nil, nil, []uint64{1, 2, 3, 4, 5, 6, 7}, "", "3:e3 4:e4 5:e5 6:e6"},
	} {
		records := aJournal(2, [][]uint64{{3, 4}, {5}, {6}}, tt.lost...)
		records = append(records[:len(records)-1], tt.index...)
		log := aLog(tt.log...)
		var places []string
		for _, p := range Snap(store.Head{Revision: 1, Value: FreshHead("n", 7, 1, nil)}, log, records, nil).Problems {
			places = append(places, strings.TrimPrefix(p.Place, "journal, record "))
		}
		if got := strings.Join(places, " "); got != tt.report {
			t.Errorf("%s: verify reports %q, want %q", tt.name, got, tt.report)
		}
		_, mended, err := MendJournal(log, records)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := readFrom(Place{}, mended)
		if s := strings.Join(got, " "); err != nil || s != tt.want || reported(mended) != "" {
			t.Errorf("%s: a new follower reads %q, %v, want %q; verify reports %q", tt.name, s, err, tt.want, reported(mended))
		}
	}
	all := []store.Record{{Key: "j1", Revision: 1, Value: []byte("garbage")}, garbage, {Key: "ea", Revision: 1}}
	if _, mended, err := MendJournal(nil, all); err != nil || len(mended) != 1 {
		t.Errorf("without chunks that can be decoded: %d records, %v, want the entity's alone", len(mended), err)
	}
}

// reported are the journal's records of which verify has a problem.
func reported(records []store.Record) string {
	var keys []string
	for _, p := range Snap(store.Head{}, nil, records, nil).Problems {
		keys = append(keys, strings.TrimPrefix(p.Place, "journal, record "))
	}
	return strings.Join(keys, " ")
}
