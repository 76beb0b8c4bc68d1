package wire

import (
	"reflect"
	"testing"

	"github.com/shardgen/shardgen/transport"
)

func TestOpenWord(t *testing.T) {
	a, b := transport.Address{Name: "a", Incarnation: 1}, transport.Address{Name: "b", Incarnation: 1<<64 - 1}
	for _, want := range []OpenPayload{
		{},
		{Departed: []transport.Address{a, b}},
		{Refused: []Detour{{a, b}, {b, a}}},
		{Departed: []transport.Address{b}, Refused: []Detour{{a, b}}},
	} {
		got, err := ParseOpenPayload(AppendOpenPayload(nil, want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	odd := AppendRecord(nil, "a", []byte("short"), NotRemembered)
	if got, err := ParseOpenPayload(odd); err != nil || !reflect.DeepEqual(got, OpenPayload{}) {
		t.Errorf("got %+v, %v, want nothing", got, err)
	}
	if _, err := ParseOpenPayload([]byte{0xff}); err == nil {
		t.Error("got no error for what is no record")
	}
}

// FuzzOpenPayload checks that ParseOpenPayload returns for any bytes, and that an accepted payload
// does not change when it is written and read again.
func FuzzOpenPayload(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(AppendOpenPayload(nil, OpenPayload{
		Departed: []transport.Address{{Name: "a", Incarnation: 1}},
		Refused:  []Detour{{transport.Address{Name: "c", Incarnation: 3}, transport.Address{Name: "b", Incarnation: 2}}},
	}))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := ParseOpenPayload(b)
		if err != nil {
			return
		}
		again, err := ParseOpenPayload(AppendOpenPayload(nil, w))
		if err != nil || !reflect.DeepEqual(again, w) {
			t.Fatalf("got %+v, %v, want %+v", again, err, w)
		}
	})
}
