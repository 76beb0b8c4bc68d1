package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/store"
)

func put(t *testing.T, c Client, sh store.Shard, head store.Revision, pairs ...string) store.Revision {
	t.Helper()
	var changes []store.Change
	for i := 0; i < len(pairs); i += 2 {
		changes = append(changes, store.Change{ID: pairs[i], Value: []byte(pairs[i+1])})
	}
	for {
		r, err := c.Shards().Put(t.Context(), sh, head, changes)
		if errors.Is(err, store.ErrBusy) {
			continue
		}
		return must[store.Revision](t)(r, err)
	}
}

func wantPut(t *testing.T, c Client, sh store.Shard, head store.Revision, want error) {
	t.Helper()
	for {
		_, err := c.Shards().Put(t.Context(), sh, head, []store.Change{{ID: "id", Value: []byte("refused")}})
		if errors.Is(err, store.ErrBusy) {
			continue
		}
		wantError(t, fmt.Sprintf("put under %d", head), err, want)
		return
	}
}

// wantRecords compares records with values and returns the head. The value "" means no record.
func wantRecords(t *testing.T, c Client, sh store.Shard, atLeast store.Revision, pairs ...string) store.Head {
	t.Helper()
	var ids []string
	for i := 0; i < len(pairs); i += 2 {
		ids = append(ids, pairs[i])
	}
	head, got, err := c.Shards().Get(t.Context(), sh, ids, atLeast)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(ids) {
		t.Fatalf("%d records for %d ids", len(got), len(ids))
	}
	for i, r := range got {
		want := pairs[2*i+1]
		if r.Key != ids[i] || string(r.Value) != want || (r.Revision == store.None) != (want == "") {
			t.Errorf("id %q: value %q at %d, key %q, want %q", ids[i], r.Value, r.Revision, r.Key, want)
		}
	}
	return head
}

func testRecordsOfShards(t *testing.T, h Harness) {
	a, b := h.Client(t), h.Client(t)
	head := setHead(t, a, shard, store.Head{Value: []byte("mine")})
	r := put(t, a, shard, head.Revision, "x", "one", "y", "two", "z", "three")
	for _, c := range []Client{a, b} {
		if got := wantRecords(t, c, shard, r, "z", "three", "x", "one", "w", "", "y", "two"); got.Revision != head.Revision || string(got.Value) != "mine" {
			t.Errorf("read with the head %+v, want %+v", got, head)
		}
	}
	r = put(t, a, shard, head.Revision, "x", "", "y", "again", "v", "new", "never", "")
	wantRecords(t, b, shard, r, "x", "", "y", "again", "z", "three", "v", "new", "never", "")
	r = put(t, a, shard, head.Revision, "x", "back")
	wantRecords(t, b, shard, r, "x", "back")
	if r := put(t, a, shard, head.Revision); r < head.Revision {
		t.Errorf("a Put without records returned revision %d, want at least %d", r, head.Revision)
	}
}

// testRecordsAbsent checks that Get reports a missing record with the head of the same moment.
func testRecordsAbsent(t *testing.T, h Harness) {
	a := h.Client(t)
	if head := wantRecords(t, a, shard, store.None, "x", "", "y", ""); head.Revision != store.None {
		t.Errorf("head %+v of a shard that has none", head)
	}
	head := setHead(t, a, shard, store.Head{})
	if got := wantRecords(t, a, shard, head.Revision, "x", "", "y", ""); got.Revision != head.Revision {
		t.Errorf("the head has revision %d, want %d", got.Revision, head.Revision)
	}
	if got := wantRecords(t, a, shard, head.Revision); got.Revision != head.Revision { // of no records
		t.Errorf("the head has revision %d, want %d", got.Revision, head.Revision)
	}
}

func testRecordsUnderOldHead(t *testing.T, h Harness) {
	zombie, home := h.Client(t), h.Client(t)
	wantPut(t, home, shard, 1, store.ErrConflict) // under no head
	first := setHead(t, zombie, shard, store.Head{Value: []byte("zombie")})
	put(t, zombie, shard, first.Revision, "id", "first")
	second := setHead(t, home, shard, store.Head{Revision: first.Revision, Value: []byte("home")})
	wantPut(t, zombie, shard, first.Revision, store.ErrConflict)
	wantPut(t, zombie, shard, second.Revision+1, store.ErrConflict)
	_, err := zombie.Shards().Put(t.Context(), shard, first.Revision, []store.Change{{ID: "id"}})
	wantError(t, "delete under an old head", err, store.ErrConflict)
	if got := wantRecords(t, home, shard, second.Revision, "id", "first"); string(got.Value) != "home" {
		t.Errorf("head is %q, want home", got.Value)
	}
	r := put(t, home, shard, second.Revision, "id", "second")
	wantRecords(t, zombie, shard, r, "id", "second")
}

// testRecordsLate checks that a late write with an old head changes nothing.
func testRecordsLate(t *testing.T, h Harness) {
	if h.Held == nil {
		t.Skip("the store's requests cannot be held up")
	}
	zombie, hold, release := h.Held(t)
	first := setHead(t, zombie, shard, store.Head{})
	put(t, zombie, shard, first.Revision, "x", "old", "y", "old")
	held(t, hold, "put", func(ctx context.Context) error {
		_, err := zombie.Shards().Put(ctx, shard, first.Revision, []store.Change{{ID: "x", Value: []byte("late")}, {ID: "y"}})
		return err
	})
	home := h.Client(t)
	second := setHead(t, home, shard, store.Head{Revision: first.Revision})
	release()
	wantPut(t, zombie, shard, first.Revision, store.ErrConflict) // after the late write
	wantRecords(t, home, shard, second.Revision, "x", "old", "y", "old")
}

// testRecordsUnderChangingHead replaces the head during writes of records. After the replacement
// these writes must change nothing.
func testRecordsUnderChangingHead(t *testing.T, h Harness) {
	zombie, home := h.Client(t), h.Client(t)
	head := setHead(t, home, shard, store.Head{})
	for round := range 5 {
		old, began, done := head.Revision, make(chan struct{}), make(chan error, 1)
		go func() { // the test waits for it
			for i := range 10_000 {
				var changes []store.Change
				for n := range 20 {
					changes = append(changes, store.Change{ID: fmt.Sprint("id", n), Value: fmt.Append(nil, round, i)})
				}
				_, err := zombie.Shards().Put(t.Context(), shard, old, changes)
				if i == 0 {
					close(began)
				}
				if err != nil && !errors.Is(err, store.ErrBusy) {
					done <- err
					return
				}
			}
			done <- nil
		}()
		<-began
		head = setHead(t, home, shard, head)
		var ids []string
		for n := range 20 {
			ids = append(ids, fmt.Sprint("id", n))
		}
		_, before, err := home.Shards().Get(t.Context(), shard, ids, head.Revision)
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, "put after the head was replaced", <-done, store.ErrConflict)
		now, after, err := home.Shards().Get(t.Context(), shard, ids, head.Revision)
		if err != nil {
			t.Fatal(err)
		}
		for n := range before {
			if string(before[n].Value) != string(after[n].Value) || before[n].Revision > head.Revision {
				t.Fatalf("record %s (revision %d) changed to %s (revision %d) although the head has revision %d", before[n].Value, before[n].Revision, after[n].Value, after[n].Revision, head.Revision)
			}
		}
		if now.Revision != head.Revision {
			t.Fatalf("the head has revision %d, want %d", now.Revision, head.Revision)
		}
	}
}

func listed(t *testing.T, c Client, sh store.Shard) []string {
	t.Helper()
	var ids []string
	after := store.None
	for {
		page := must[[]store.Record](t)(c.Shards().List(t.Context(), sh, after))
		if len(page) == 0 {
			return ids
		}
		for _, r := range page {
			if r.Revision <= after {
				t.Fatalf("record %q at %d after %d", r.Key, r.Revision, after)
			}
			after = r.Revision
			ids = append(ids, r.Key)
		}
	}
}

func testRecordsListed(t *testing.T, h Harness) {
	a := h.Client(t)
	if got := listed(t, a, shard); len(got) != 0 {
		t.Errorf("listed %q of an empty shard", got)
	}
	head := setHead(t, a, shard, store.Head{})
	other := shard
	other.Number += 4
	put(t, a, other, setHead(t, a, other, store.Head{}).Revision, "alien", "x")
	large := strings.Repeat("v", store.ListBytes/3)
	put(t, a, shard, head.Revision, "a", large, "gone", "x", "b", large)
	put(t, a, shard, head.Revision, "c", large, "d", large, "a.b *>", large)
	put(t, a, shard, head.Revision, "a", "rewritten", "gone", "")
	if got := strings.Join(listed(t, a, shard), "|"); got != "b|c|d|a.b *>|a" {
		t.Errorf("listed %q, want b|c|d|a.b *>|a", got)
	}
}

// testRecordsStale checks that reads are no staler than the revision requested.
func testRecordsStale(t *testing.T, h Harness) {
	if h.Stale == nil {
		t.Skip("the store's replicas cannot be held back")
	}
	home := h.Client(t)
	reader, lag, catchUp := h.Stale(t)
	head := setHead(t, home, shard, store.Head{Value: []byte("old")})
	old := put(t, home, shard, head.Revision, "x", "old", "y", "old")
	at := fill(t, home, shard, 2)
	wantRecords(t, reader, shard, old, "x", "old")
	lag()
	new := put(t, home, shard, head.Revision, "x", "new", "y", "", "z", "new")
	wantRecords(t, reader, shard, new, "x", "new", "y", "", "z", "new")
	last := appendTo(t, home, shard, at[1], "2")
	wantLog(t, reader, shard, at[0], last, "0", "1", "2")
	next := setHead(t, home, shard, store.Head{Revision: head.Revision, Since: at[1], Value: []byte("new")})
	if got := wantRecords(t, reader, shard, next.Revision, "x", "new"); string(got.Value) != "new" {
		t.Errorf("the head is %q, want new", got.Value)
	}
	if got := must[store.Head](t)(reader.Shards().Head(t.Context(), shard)); got.Revision != head.Revision && got.Revision != next.Revision {
		t.Errorf("head %+v never was", got)
	}
	catchUp()
	wantHead(t, home, shard, next)
	wantRecords(t, reader, shard, next.Revision, "x", "new", "y", "")
}

// testRecordsFresh checks that a Get at a known revision sees all writes up to it, at every server.
func testRecordsFresh(t *testing.T, h Harness) {
	home, reader := h.Client(t), h.Client(t)
	head := setHead(t, home, shard, store.Head{})
	for i := range 30 {
		value := fmt.Sprint("v", i)
		r := put(t, home, shard, head.Revision, "x", value, fmt.Sprint("y", i), value)
		wantRecords(t, reader, shard, r, "x", value, fmt.Sprint("y", i), value, "never", "")
	}
}

func testIDs(t *testing.T, h Harness) {
	a := h.Client(t)
	head := setHead(t, a, shard, store.Head{})
	ids := []string{"=41", "A", "a", "==", "=", ".", "*", ">", "a.b", "a b", "é", "\u202e", "$SYS", "\r\n", "\"\\", "x/y", strings.Repeat(".", store.MaxID)}
	for b := range 256 {
		ids = append(ids, "byte"+string([]byte{byte(b)}))
	}
	random := rand.New(rand.NewPCG(7, 7))
	for _, size := range []int{1, 2, 3, 255, 256, 257, 1024, store.MaxID} {
		id := make([]byte, size)
		for i := range id {
			id[i] = byte(random.Uint32())
		}
		ids = append(ids, string(id))
	}
	var pairs []string
	for i, id := range ids {
		pairs = append(pairs, id, fmt.Sprint("value ", i))
	}
	for i := 0; i < len(pairs); i += 200 {
		chunk := pairs[i:min(i+200, len(pairs))]
		r := put(t, a, shard, head.Revision, chunk...)
		wantRecords(t, a, shard, r, chunk...)
	}
	found := map[string]bool{}
	for _, id := range listed(t, a, shard) {
		found[id] = true
	}
	for _, id := range ids {
		if !found[id] {
			t.Errorf("%q is not listed", id)
		}
	}
	if len(found) != len(ids) {
		t.Errorf("%d ids are listed, want %d", len(found), len(ids))
	}
}
