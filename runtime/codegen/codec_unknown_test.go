package codegen

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
)

// knownNode is the Fields of a message with a number in field 1 and the same message in fields 2
// and 3.
func knownNode(num int) (bool, Fields) {
	switch num {
	case 1:
		return true, nil
	case 2, 3:
		return true, knownNode
	}
	return false, nil
}

// node is the message of knownNode, with a field that a newer program adds.
type node struct {
	n, added    int
	left, right *node
}

func (v *node) append(b []byte) []byte {
	b = AppendInt(b, 1, v.n)
	for i, child := range []*node{v.left, v.right} {
		if child != nil {
			var at int
			b, at = Open(b, 2+i)
			b = Close(child.append(b), at)
		}
	}
	return AppendInt(b, 9, v.added)
}

func (v *node) read(d *Decoder, newer bool) {
	child := func(c **node) {
		if *c == nil {
			*c = &node{}
		}
		outer := d.Enter()
		(*c).read(d, newer)
		d.Leave(outer)
	}
	for d.Next() {
		switch d.Field() {
		case 1:
			ReadInt(d, &v.n)
		case 2:
			child(&v.left)
		case 3:
			child(&v.right)
		case 9:
			if newer {
				ReadInt(d, &v.added)
			}
		}
	}
}

// randomNode returns a tree in which some nodes have the field that the older program does not
// know.
func randomNode(r *rand.Rand, depth int) *node {
	v := &node{n: r.IntN(300), added: r.IntN(2) * r.IntN(300)}
	if depth > 0 && r.IntN(3) > 0 {
		v.left = randomNode(r, depth-1)
	}
	if depth > 0 && r.IntN(3) > 0 {
		v.right = randomNode(r, depth-1)
	}
	return v
}

// TestUnknownComesBack: an older program changes or drops known fields of a state. It writes the
// unknown fields back, however often it reads its own result.
func TestUnknownComesBack(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		want := randomNode(r, 6)
		state := want.append(nil)
		for range 3 {
			d := NewDecoder(state)
			var old node
			old.read(&d, false)
			require.NoError(t, d.Err("node"))
			var kept []byte
			if d.Skipped() {
				kept = UnknownFields(state, knownNode)
			}
			change := func(v, w *node) { // changes the values of both programs in the same way
				v.n += 5
				w.n += 5
				if r.IntN(5) == 0 {
					v.left, w.left = nil, nil
				}
			}
			var both func(v, w *node)
			both = func(v, w *node) {
				if v != nil {
					change(v, w)
					both(v.left, w.left)
					both(v.right, w.right)
				}
			}
			both(&old, want)
			state = AppendUnknown(old.append(nil), kept, knownNode)
			d = NewDecoder(state)
			var got node
			got.read(&d, true)
			require.NoError(t, d.Err("node"))
			require.Equal(t, *want, got, "seed %d", seed)
		}
	}
}

// TestUnknownCostsNothingWithout: a state without unknown fields is neither scanned again nor
// copied.
func TestUnknownCostsNothingWithout(t *testing.T) {
	v := node{n: 1, left: &node{n: 2}}
	state := v.append(nil)
	d := NewDecoder(state)
	var got node
	got.read(&d, false)
	require.False(t, d.Skipped())
	require.Nil(t, UnknownFields(state, knownNode))
	require.Zero(t, testing.AllocsPerRun(10, func() {
		_ = AppendUnknown(state, nil, knownNode)
	}))
}

// TestUnknownOfHostileBytes: invalid bytes end the search for unknown fields.
func TestUnknownOfHostileBytes(t *testing.T) {
	v := randomNode(rand.New(rand.NewPCG(1, 1)), 6)
	state := v.append(nil)
	for i := range state {
		for _, b := range []byte{0, 0x7f, 0xff, state[i] ^ 1} {
			bad := append([]byte(nil), state...)
			bad[i] = b
			kept := UnknownFields(bad, knownNode)
			_ = AppendUnknown(bad, kept, knownNode)
			_ = UnknownFields(bad[:i], knownNode)
		}
	}
}

// TestEventsAreKnownCompletely: an event's decoder refuses unknown fields, also within protobuf
// messages, and skips retired fields.
func TestEventsAreKnownCompletely(t *testing.T) {
	within := func(m *structpb.Struct) []byte {
		b, err := PutProto(nil, 1, m)
		require.NoError(t, err)
		return b
	}
	message := func(unknown protoreflect.RawFields) *structpb.Struct {
		s, err := structpb.NewStruct(map[string]any{"a": []any{map[string]any{"b": 1.0}}})
		require.NoError(t, err)
		s.Fields["a"].GetListValue().Values[0].GetStructValue().Fields["b"].ProtoReflect().SetUnknown(unknown)
		return s
	}
	read := func(d Decoder) error {
		var m *structpb.Struct
		for d.Next() {
			switch d.Field() {
			case 1:
				ReadProto(&d, &m)
			case 2:
				d.Retired()
			}
		}
		return d.Err("event")
	}
	unknown := AppendInt(nil, 77, 1)
	for name, tt := range map[string]struct {
		event []byte
		known bool
	}{
		"known":                 {within(message(nil)), true},
		"retired":               {AppendInt(within(message(nil)), 2, 1), true},
		"unknown":               {AppendInt(within(message(nil)), 3, 1), false},
		"unknown in a message":  {within(message(unknown)), false},
		"unknown and cut short": {AppendInt(nil, 3, 1<<40)[:3], false},
	} {
		if err := read(NewEventDecoder(tt.event)); (err == nil) != tt.known {
			t.Errorf("%s: got %v, want it to be known: %t", name, err, tt.known)
		}
		if err := read(NewDecoder(tt.event)); name != "unknown and cut short" && err != nil {
			t.Errorf("%s, to be read alone: %v", name, err)
		}
	}
}
