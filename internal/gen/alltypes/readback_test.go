package alltypes

import (
	"errors"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/runtime/codegen"
)

// TestStateIsReadWhereItIsWritten checks that encoding refuses a state with a value that could not
// be decoded again, wherever in the state the value is. The entity is then still in memory.
func TestStateIsReadWhereItIsWritten(t *testing.T) {
	for name, z := range map[string]*AllTypes{
		"field":   {texts: Texts{Code: "unreadable"}},
		"element": {texts: Texts{Codes: []Code{"a", "unreadable"}}},
		"key":     {texts: Texts{ByCode: map[Code]Code{"unreadable": "a"}}},
		"case":    {shape: Group{Dot{}, &Seal{code: "unreadable"}}},
	} {
		_, err := appendAllTypesState(nil, z)
		var refused *codegen.EncodeError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "the encoded value cannot be decoded") || !strings.Contains(err.Error(), "unreadable code") {
			t.Errorf("%s: got %v, want an EncodeError that says that the code cannot be read", name, err)
		}
	}
	b := []byte("before")
	got, err := appendAllTypesState(b, &AllTypes{texts: Texts{Code: "fine"}})
	if err != nil || !strings.HasPrefix(string(got), "before") {
		t.Errorf("got %q, %v, want the state behind what was there", got, err)
	}
}

// BenchmarkAppendState measures the cost of decoding, when a state is encoded, those values that
// have their own text or binary form.
func BenchmarkAppendState(b *testing.B) {
	plain := &AllTypes{Scalars: Scalars{Int: 1, String: "some text"}, Lists: Lists{Strings: []string{"a", "b", "c"}, Ints: make([]int, 100)}}
	forms := *plain
	forms.texts = Texts{Code: "a code", Key: Key{ID: 1}}
	for name, z := range map[string]*AllTypes{"plain": plain, "forms": &forms} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			buffer := make([]byte, 0, 4096)
			for b.Loop() {
				if _, err := appendAllTypesState(buffer[:0], z); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
