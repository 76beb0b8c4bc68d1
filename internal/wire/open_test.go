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
