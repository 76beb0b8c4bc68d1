package durable

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/shardgen/shardgen/internal/wire"
)

// A filler fills messages with random values, whatever fields they have. So a field that
// appendEntry does not know fails the tests.
type filler struct {
	*rand.Rand
	chance float64 // of a field to be set
	bytes  int     // bounds strings and bytes
}

func (f filler) fill(m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		d := m.Descriptor().Fields().Get(i)
		switch {
		case d.ContainingOneof() != nil || f.Float64() >= f.chance:
		case d.IsList():
			for list := m.Mutable(d).List(); ; {
				list.Append(f.value(d, list.NewElement()))
				if f.IntN(3) == 0 {
					break
				}
			}
		default:
			m.Set(d, f.value(d, m.NewField(d)))
		}
	}
}

// value returns a value of the field, which is rarely zero. It fills the message in empty.
func (f filler) value(d protoreflect.FieldDescriptor, empty protoreflect.Value) protoreflect.Value {
	n := f.Uint64() >> f.IntN(64)
	switch d.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(n)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(n))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(string(bytes.Repeat([]byte("é"), f.IntN(f.bytes+1)/2)))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(bytes.Repeat([]byte{byte(n)}, f.IntN(f.bytes+1)))
	case protoreflect.MessageKind:
		f.fill(empty.Message())
		return empty
	default:
		panic("a field of a new kind, add it here: " + d.FullName())
	}
}

// compare encodes the commit by the library and by appendEntry, and compares the bytes.
func compare(t *testing.T, c *wire.DurableCommit) {
	t.Helper()
	e := &wire.DurableEntry{Kind: &wire.DurableEntry_Commit{Commit: c}}
	entry, err := proto.MarshalOptions{Deterministic: true}.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	before := []byte("before")
	want := protowire.AppendBytes(protowire.AppendTag(before, entriesField, protowire.BytesType), entry)
	var source []byte
	if s := c.GetCommand().GetSource(); s != nil {
		source = appendSource(nil, sourceField, s)
	}
	for _, source := range [][]byte{nil, source} {
		if got := appendEntry(before, e, source); !bytes.Equal(got, want) {
			t.Fatalf("%v:\ngot  %x\nwant %x", c, got, want)
		}
	}
}

// TestAppendEntry: a commit has the library's bytes with any single field, with all fields, and
// around the sizes at which a length takes one more byte.
func TestAppendEntry(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	compare(t, &wire.DurableCommit{})
	compare(t, &wire.DurableCommit{Command: &wire.DurableCommand{Source: &wire.DurableSource{}}, Tells: []*wire.DurableTell{{}}, Events: [][]byte{{}, nil}})
	for range 10_000 {
		c := &wire.DurableCommit{}
		filler{random, random.Float64() * 1.3, 1 << random.IntN(10)}.fill(c.ProtoReflect())
		compare(t, c)
	}
	all := filler{random, 1, 30}
	for i := range (&wire.DurableCommit{}).ProtoReflect().Descriptor().Fields().Len() {
		m := (&wire.DurableCommit{}).ProtoReflect()
		d := m.Descriptor().Fields().Get(i)
		whole := (&wire.DurableCommit{}).ProtoReflect()
		all.fill(whole)
		m.Set(d, whole.Get(d))
		compare(t, m.Interface().(*wire.DurableCommit))
	}
	for _, edge := range []int{1 << 7, 1 << 14, 1 << 21} {
		for n := edge - 2*appendRoom; n <= edge+2; n += 1 + edge>>20*7 {
			compare(t, &wire.DurableCommit{Entity: []byte("e"), State: make([]byte, n)})
			compare(t, &wire.DurableCommit{Events: [][]byte{make([]byte, n)}})
			compare(t, &wire.DurableCommit{Command: &wire.DurableCommand{Answer: make([]byte, n)}})
			compare(t, &wire.DurableCommit{Command: &wire.DurableCommand{Source: &wire.DurableSource{Log: string(make([]byte, n))}}})
		}
	}
}

// TestAppendHead: the fields of an append before its entries are the library's bytes, too.
func TestAppendHead(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		a := &wire.DurableAppend{}
		filler{random, random.Float64() * 1.3, 1}.fill(a.ProtoReflect())
		a.Entries, a.Check = nil, 0
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(a)
		if got := appendHead(nil, a); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v: got %x, want %x, %v", a, got, want, err)
		}
	}
}

// TestAppendEntryOfBadSource: a source that could not be read again is not written.
func TestAppendEntryOfBadSource(t *testing.T) {
	for _, s := range []*wire.DurableSource{{Log: "\xff"}, {To: "\xff"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v is written", s)
				}
			}()
			appendEntry(nil, &wire.DurableEntry{Kind: &wire.DurableEntry_Commit{Commit: &wire.DurableCommit{Command: &wire.DurableCommand{Source: s}}}}, nil)
		}()
	}
}

// FuzzAppendEntry compares the bytes of random commits with those that the library writes.
func FuzzAppendEntry(f *testing.F) {
	f.Add(uint64(1), 0.5, uint16(30))
	f.Fuzz(func(t *testing.T, seed uint64, chance float64, size uint16) {
		c := &wire.DurableCommit{}
		filler{rand.New(rand.NewPCG(seed, 0)), chance, int(size)}.fill(c.ProtoReflect())
		compare(t, c)
	})
}

func BenchmarkAppendEntry(b *testing.B) {
	e := &wire.DurableEntry{Kind: &wire.DurableEntry_Commit{Commit: &wire.DurableCommit{
		Entity: []byte("account-17"), Version: 1000, State: make([]byte, 20), At: 1_763_820_000_123,
		Command: &wire.DurableCommand{
			Source: &wire.DurableSource{Incarnation: 0xfedcba0987654321}, Number: 100_000, Floor: 99_900, Hash: 0xfedcba0987654321, Answer: make([]byte, 8),
		},
	}}}
	b.ReportAllocs()
	var room []byte
	source := appendSource(nil, sourceField, e.GetCommit().Command.Source)
	for b.Loop() {
		room = appendEntry(room[:0], e, source)
	}
}
