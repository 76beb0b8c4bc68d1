package feeds

import (
	"reflect"
	"testing"

	"github.com/shardgen/shardgen/store"
)

// FuzzLetter reads random bytes as a dead letter's record. If they are accepted, the letter gets
// its name from the record's key.
func FuzzLetter(f *testing.F) {
	f.Add([]byte(`{"format":1,"feed":"paid","partition":2,"position":7,"part":1,"data":"eA==","why":"poison"}`))
	f.Add([]byte(`{"format":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ParseLetter(store.Record{Key: LetterKey("paid", "0-1"), Value: b})
		if err != nil {
			return
		}
		again, err := ParseLetter(store.Record{Key: LetterKey("paid", "0-1"), Value: b})
		if err != nil || !reflect.DeepEqual(again, l) || l.Format > format || l.Name != "0-1" {
			t.Fatalf("got %+v, %v, want %+v", again, err, l)
		}
	})
}
