package wire

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire/framepb"
)

func TestChainAgreesWithProtobuf(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		var want []Link
		var b []byte
		pb := &framepb.Chain{}
		for range r.IntN(5) {
			l := Link{string(randomText(r)), string(randomBytes(r)), uint32(randomUint(r))}
			want = append(want, l)
			b = AppendLink(b, l.Kind, l.Entity, l.Shard)
			pb.Links = append(pb.Links, &framepb.Link{Kind: l.Kind, Entity: []byte(l.Entity), Shard: l.Shard})
		}
		var read framepb.Chain
		if err := proto.Unmarshal(b, &read); err != nil {
			t.Fatalf("seed %d: protobuf cannot read the hand codec: %v", seed, err)
		}
		theirs, err := proto.Marshal(pb)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{b, theirs} {
			if got, err := ParseChain(b); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: got %v, %v, want %v", seed, got, err, want)
			}
		}
		if len(read.GetLinks()) != len(want) {
			t.Fatalf("seed %d: protobuf read %d links, want %d", seed, len(read.GetLinks()), len(want))
		}
	}
}

func TestRecordsAgreeWithProtobuf(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 6))
		var want []Record
		var b []byte
		pb := &framepb.Records{}
		for range r.IntN(5) {
			rec := Record{string(randomBytes(r)), randomBytes(r), Remembered(r.IntN(3))}
			want = append(want, rec)
			before := len(b)
			b = AppendRecord(b, rec.Entity, rec.State, rec.Remembered)
			if n := len(b) - before; n > RecordBound(rec.Entity, rec.State) {
				t.Fatalf("seed %d: %d bytes, want at most RecordBound = %d", seed, n, RecordBound(rec.Entity, rec.State))
			}
			pb.Records = append(pb.Records, &framepb.Record{Entity: []byte(rec.Entity), State: rec.State, Remembered: uint32(rec.Remembered)})
		}
		var read framepb.Records
		if err := proto.Unmarshal(b, &read); err != nil || len(read.GetRecords()) != len(want) {
			t.Fatalf("seed %d: protobuf read %v, %v", seed, &read, err)
		}
		theirs, err := proto.Marshal(pb)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{b, theirs} {
			var got []Record
			err := ParseRecords(b, func(r Record) { got = append(got, r) })
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: got %v, %v, want %v", seed, got, err, want)
			}
		}
	}
}

// TestRecordIsACopy: a record must not refer to the frame's memory, because an entity lives longer
// than the frame.
func TestRecordIsACopy(t *testing.T) {
	b := AppendRecord(nil, "e", []byte("state"), 0)
	var got Record
	if err := ParseRecords(b, func(r Record) { got = r }); err != nil {
		t.Fatal(err)
	}
	clear(b)
	if got.Entity != "e" || string(got.State) != "state" {
		t.Errorf("got %q, %q after the buffer was cleared", got.Entity, got.State)
	}
}

func TestUnknownFieldsInRecords(t *testing.T) {
	inner := protowire.AppendTag(nil, 9, protowire.Fixed32Type)
	inner = protowire.AppendFixed32(inner, 1)
	inner = protowire.AppendTag(inner, 1, protowire.BytesType)
	inner = protowire.AppendString(inner, "x")
	b := protowire.AppendTag(nil, 8, protowire.VarintType)
	b = protowire.AppendVarint(b, 1)
	b = protowire.AppendTag(b, 1, protowire.BytesType)
	b = protowire.AppendBytes(b, inner)
	if got, err := ParseChain(b); err != nil || len(got) != 1 || got[0].Kind != "x" {
		t.Errorf("chain: got %v, %v", got, err)
	}
	n := 0
	err := ParseRecords(b, func(r Record) {
		n++
		if r.Entity != "x" {
			t.Errorf("records: got %q", r.Entity)
		}
	})
	if err != nil || n != 1 {
		t.Errorf("records: %d read, %v", n, err)
	}
}

func TestChainIsBounded(t *testing.T) {
	var b []byte
	for range maxLinks {
		b = AppendLink(b, "", "", 0) // two bytes each
	}
	if got, err := ParseChain(b); err != nil || len(got) != maxLinks {
		t.Errorf("%d links, %v, want %d", len(got), err, maxLinks)
	}
	if _, err := ParseChain(AppendLink(b, "", "", 0)); !errors.Is(err, ErrFrame) {
		t.Errorf("one more: %v, want ErrFrame", err)
	}
}

func FuzzRecords(f *testing.F) {
	f.Add(AppendRecord(AppendRecord(nil, "a", nil, 2), "b", []byte("state"), 1))
	f.Add(AppendLink(nil, "Cart", "17", 300))
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		size := 0
		err := ParseRecords(b, func(r Record) { size += len(r.Entity) + len(r.State) })
		if err != nil && !errors.Is(err, ErrFrame) {
			t.Errorf("records: %v is no ErrFrame", err)
		}
		if size > len(b) {
			t.Errorf("records: %d bytes came out of %d", size, len(b))
		}
		links, err := ParseChain(b)
		if err != nil && !errors.Is(err, ErrFrame) {
			t.Errorf("chain: %v is no ErrFrame", err)
		}
		if len(links) > maxLinks {
			t.Errorf("chain: %d links, want at most %d", len(links), maxLinks)
		}
	})
}
