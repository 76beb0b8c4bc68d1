package wire

import (
	"reflect"
	"testing"

	"github.com/shardgen/shardgen/transport"
)

func TestOpenWord(t *testing.T) {
	a, b := transport.Address{Name: "a", Incarnation: 1}, transport.Address{Name: "b", Incarnation: 1<<64 - 1}
	for _, want := range []OpenWord{
		{},
		{Silent: []transport.Address{a, b}},
		{Refused: []Way{{a, b}, {b, a}}},
		{Silent: []transport.Address{b}, Refused: []Way{{a, b}}},
	} {
		got, err := ParseOpenWord(AppendOpenWord(nil, want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	odd := AppendRecord(nil, "a", []byte("short"), NotRemembered)
	if got, err := ParseOpenWord(odd); err != nil || !reflect.DeepEqual(got, OpenWord{}) {
		t.Errorf("got %+v, %v, want nothing", got, err)
	}
	if _, err := ParseOpenWord([]byte{0xff}); err == nil {
		t.Error("got no error for what is no record")
	}
}
