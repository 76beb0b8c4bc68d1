package membertable_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/membertable"
)

// rows makes a row for each word of text, such as "b1": the letter is the row's name, and the digit
// is the version that wrote the row.
func rows(text string) (all []membertable.Row) {
	for _, word := range strings.Fields(text) {
		all = append(all, membertable.Row{ID: membertable.ID{Name: word[:1]}, Version: membertable.Version(word[1] - '0')})
	}
	return all
}

func TestOver(t *testing.T) {
	old := membertable.Snapshot{Version: 5, Rows: rows("b1 d5")}
	for _, test := range []struct {
		name string
		s    membertable.Snapshot
		want membertable.Snapshot
	}{
		{"whole", membertable.Snapshot{Version: 7, Rows: rows("c7")}, membertable.Snapshot{Version: 7, Rows: rows("c7")}},
		{"whole, older", membertable.Snapshot{Version: 4, Rows: rows("c4")}, old},
		{"unchanged", membertable.Snapshot{Version: 5, Since: 5}, old},
		{"older changes", membertable.Snapshot{Version: 4, Since: 3, Rows: rows("c4")}, old},
		{"before", membertable.Snapshot{Version: 6, Since: 5, Rows: rows("a6")}, membertable.Snapshot{Version: 6, Rows: rows("a6 b1 d5")}},
		{"between, instead and behind", membertable.Snapshot{Version: 8, Since: 5, Rows: rows("c6 d7 e8")}, membertable.Snapshot{Version: 8, Rows: rows("b1 c6 d7 e8")}},
	} {
		if got := test.s.Over(old); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestEncode(t *testing.T) {
	at := time.Date(2026, 11, 27, 20, 15, 30, 123456789, time.FixedZone("", 3600))
	row := membertable.Row{
		ID: membertable.ID{Name: "web-1", Incarnation: 0xc0ffee}, Status: membertable.Active, Roles: []string{"worker"}, Data: []byte("d"),
		Suspicions: []membertable.Suspicion{{By: membertable.ID{Name: "web-2", Incarnation: 1<<64 - 1}, At: at}},
		Started:    at, Alive: at, Version: 7,
	}
	data, err := membertable.Encode(row)
	const want = `{"name":"web-1","incarnation":"0000000000c0ffee","status":"active","roles":["worker"],"data":"ZA==",` +
		`"suspicions":[{"name":"web-2","incarnation":"ffffffffffffffff","at":"2026-11-27T19:15:30.123456Z"}],"started":"2026-11-27T19:15:30.123456Z"}`
	if err != nil || string(data) != want {
		t.Errorf("got %s %v, want %s", data, err, want)
	}
	row.Alive, row.Version, row.Started, row.Suspicions[0].At = time.Time{}, 0, membertable.Time(at), membertable.Time(at)
	if got, err := membertable.Decode(data); err != nil || !reflect.DeepEqual(got, row) {
		t.Errorf("got %+v %v, want %+v", got, err, row)
	}
	row.Started = time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err := membertable.Encode(row); !errors.Is(err, store.ErrBadKey) {
		t.Errorf("a year that JSON has not: got %v, want %v", err, store.ErrBadKey)
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"name":"a","incarnation":"ff","roles":["x"],"data":"ZA==","suspicions":[{"name":"b","at":"2026-11-27T19:15:30.123456Z"}]}`,
		`{"incarnation":1}`, `{"incarnation":"10000000000000000"}`, `{"started":"now"}`, `[`, `null`, "{\"status\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		row, err := membertable.Decode(data)
		if err != nil {
			return
		}
		again, err := membertable.Encode(row)
		if err != nil {
			return // a name or size that no table takes
		}
		if got, err := membertable.Decode(again); err != nil || got.ID != row.ID || !got.Started.Equal(row.Started) || len(got.Suspicions) != len(row.Suspicions) {
			t.Errorf("%+v is decoded as %+v (%v)", row, got, err)
		}
	})
}

func TestFirst(t *testing.T) {
	for at, want := range map[string]membertable.Version{
		"1970-01-01T00:00:00Z": 1, "2020-01-01T00:00:10Z": 10, "2026-11-27T20:15:30Z": 217_973_730, "2156-01-01T00:00:00Z": 4_291_747_200,
	} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := membertable.First(now); got != want || got >= 1<<32 {
			t.Errorf("a table made at %s begins at version %d, want %d", at, got, want)
		}
	}
}
