package remember

import (
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
)

// samples has every message, with every field set.
func samples() []Message {
	id := placement.ShardID{Kind: "Cart", Shard: 300}
	e := placement.MakeEpoch(3, 4)
	return []Message{
		Keep{7, []Part{
			{ShardID: id, Epoch: e, Reset: true, Changes: []Change{{ID: "a"}, {ID: "\xff\x00"}}},
			{ShardID: id, Epoch: e, Seq: 9, Seal: true, Changes: []Change{{ID: "a"}, {ID: "b", Gone: true}}},
			{ShardID: id, Epoch: e, Drop: true},
		}},
		Kept{7},
		Recall{8, []Want{{id, ""}, {placement.ShardID{Kind: "Stock", Shard: 1}, "\xffz"}}},
		Recalled{8, []Part{{ShardID: id, Epoch: e, Seq: 5, More: true, Changes: []Change{{ID: "c"}}}, {ShardID: id}}},
	}
}

func TestCodec(t *testing.T) {
	for _, want := range samples() {
		b, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(b); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%T: got %+v, %v\nwant %+v", want, got, err, want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	keep := func(s *wire.RememberSet) *wire.RememberMessage {
		return &wire.RememberMessage{Format: 1, Body: &wire.RememberMessage_Keep{Keep: &wire.RememberSets{Sets: []*wire.RememberSet{s}}}}
	}
	for _, test := range []struct {
		name string
		w    *wire.RememberMessage
		want string
	}{
		{"no format", &wire.RememberMessage{}, "format 0"},
		{"a later format", &wire.RememberMessage{Format: 2}, "format 2"},
		{"nothing", &wire.RememberMessage{Format: 1}, "the message has no body"},
		{"no kind", keep(&wire.RememberSet{Shard: 1}), "type name is empty"},
		{"no shard", keep(&wire.RememberSet{Kind: "Cart"}), "shard 0"},
		{"no such shard", keep(&wire.RememberSet{Kind: "Cart", Shard: 1 << 31}), "want 1 to"},
		{"an empty id", keep(&wire.RememberSet{Kind: "Cart", Shard: 1, Ids: [][]byte{{}}}), "id of 0 bytes"},
		{"a long id", keep(&wire.RememberSet{Kind: "Cart", Shard: 1, Ids: [][]byte{make([]byte, 1025)}}), "id of 1025 bytes"},
		{"other marks", keep(&wire.RememberSet{Kind: "Cart", Shard: 1, Ids: [][]byte{{1}}, Gone: []bool{true, true}}), "1 ids, but 2 marks"},
	} {
		b, err := proto.Marshal(test.w)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := Decode(b); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, %v, want an error with %q", test.name, m, err, test.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		b, err := Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("GET / HTTP/1.1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(again); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, m)
		}
	})
}

// FuzzPage reads any bytes as a record with remembered ids. An accepted record must be the same
// after it was written and read again.
func FuzzPage(f *testing.F) {
	id := placement.ShardID{Kind: "Cart", Shard: 7}
	for _, ids := range [][]string{nil, {"a"}, {"a", "\x00\xff", strings.Repeat("x", MaxIDBytes)}} {
		b, err := encodeBucket(id, ids)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ids, err := decodeBucket(id, b)
		if err != nil {
			return
		}
		again, err := encodeBucket(id, ids)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeBucket(id, again); err != nil || !reflect.DeepEqual(got, ids) {
			t.Errorf("got %q, %v, want %q", got, err, ids)
		}
	})
}
