package durable

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// sum appends the checksum of b, so that the fuzzer gets beyond the check.
func sum(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(append(slices.Clone(b), checkTag), crc32.Checksum(b, castagnoli))
}

// FuzzStored reads any bytes as each thing that a shard keeps in the store, with the checksum that
// they have and with a right one. An accepted message must be the same after it was written and
// read again.
func FuzzStored(f *testing.F) {
	for _, m := range samples() {
		b := seal(m)
		f.Add(b)
		f.Add(b[:len(b)-checkSize])
	}
	f.Add([]byte("GET / HTTP/1.1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, sum(b)} {
			for _, m := range []stored{
				&wire.DurableAppend{}, &wire.DurableHead{}, &wire.DurableRecord{}, &wire.DurableTable{}, &wire.DurableJournal{}, &wire.DurableChunk{}, &wire.DurableLeaf{},
			} {
				if unseal(b, m) != nil {
					continue
				}
				again := proto.Clone(m).(stored)
				proto.Reset(again)
				if err := unseal(seal(m), again); err != nil || !proto.Equal(m, again) {
					t.Fatalf("got %v, %v, want %v", again, err, m)
				}
			}
			readStored(t, b)
		}
	})
}

// readStored reads bytes by every function that reads from the store.
func readStored(t *testing.T, b []byte) {
	t.Helper()
	r := store.Record{Key: entityKey("e"), Value: b, Revision: 1}
	if v, err := readRecord("e", r, ""); err == nil && v.number == 0 {
		t.Fatal("a record of version 0 is accepted")
	}
	_, _ = readLeaf(leaf{number: 1}, r)
	if h, err := readHead(store.Head{Revision: 1, Value: b}); err == nil {
		_ = h.beyond(Config{Epoch: 1})
	}
	if a, err := readAppend(b); err == nil {
		_ = claimOf(a)
	}
	log, records := []store.Append{{Position: 1, Data: b}, {Position: 2, Data: b}}, []store.Record{r, {Key: "t0/0", Value: b, Revision: 1}, {Key: "j", Value: b, Revision: 1}, {Key: "j1", Value: b, Revision: 1}}
	head := store.Head{Revision: 1, Since: 1, Value: b}
	_, _, _ = Undamaged(head, log, records, Snap(head, log, records, nil).Problems)
	_, _ = Expired(time.Unix(1, 0), r)
	index := store.Record{Key: journalKey, Value: seal(&wire.DurableJournal{Format: 1, First: 1, Last: 9, Number: 9}), Revision: 1}
	for _, of := range []store.Record{index, r} {
		for _, p := range []Place{{}, FirstPlace, {Chunk: 1, Number: 3, Sum: 1}, {Number: 3}} {
			gets := 0
			_, _, _ = p.Look(func(keys ...string) (records []store.Record, err error) {
				if gets++; gets > 70 || len(keys) > 3 {
					t.Fatalf("Get %d asks for %d records", gets, len(keys))
				}
				records = slices.Repeat([]store.Record{r}, len(keys))
				records[0] = of
				return records, nil
			})
		}
	}
}

// FuzzFinished reads any bytes as the numbers of a source's stuck commands.
func FuzzFinished(f *testing.F) {
	f.Add([]byte(NumbersOf([]uint64{1, 3, 1 << 40})), uint64(5), uint64(3))
	f.Fuzz(func(t *testing.T, b []byte, below, number uint64) {
		all, err := Numbers(b).Slice()
		if err != nil {
			return
		}
		if again, err := NumbersOf(all).Slice(); err != nil || !slices.Equal(all, again) || !slices.IsSorted(all) {
			t.Fatalf("got %v, %v, want %v", again, err, all)
		}
		if canonical := []byte(NumbersOf(all)); len(canonical) > len(b) || len(canonical) == len(b) && !bytes.Equal(canonical, b) {
			t.Fatalf("%x is %v, which are %x", b, all, canonical)
		}
		stuck := slices.DeleteFunc(slices.Clone(all), func(n uint64) bool { return n >= below })
		this, other := finished{below, stuck}, finished{below: number}
		both, _ := this.join(other)
		for _, n := range append(all, number, below, this.floor()) {
			if want := this.has(n) || other.has(n); both.has(n) != want {
				t.Fatalf("%d of %+v and %+v is finished: %v, want %v", n, this, other, !want, want)
			}
		}
	})
}
