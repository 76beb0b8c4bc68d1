package conformance

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/membertable"
)

// began is an arbitrary time, with more digits of a second than a table keeps.
var began = time.Date(2026, 11, 27, 20, 15, 30, 123456789, time.FixedZone("", 3600))

func id(name string, incarnation uint64) membertable.ID {
	return membertable.ID{Name: name, Incarnation: incarnation}
}

func member(id membertable.ID) membertable.Row {
	return membertable.Row{
		ID: id, Status: membertable.Active, Roles: []string{"front", "back"}, Data: []byte("\x00\xffdata of " + id.Name), Started: began,
		Suspicions: []membertable.Suspicion{{By: membertable.ID{Name: "voter", Incarnation: 1<<64 - 1}, At: began.Add(time.Minute)}},
	}
}

func read(t *testing.T, c membertable.Table) membertable.Snapshot {
	t.Helper()
	s := must[membertable.Snapshot](t)(c.Read(t.Context(), 0))
	if s.Since != 0 {
		t.Errorf("read all: got what changed since %d", s.Since)
	}
	return s
}

func write(t *testing.T, c membertable.Table, expect membertable.Version, row membertable.Row) membertable.Version {
	t.Helper()
	v := must[membertable.Version](t)(c.Write(t.Context(), expect, row))
	if v <= expect || v >= 1<<32 {
		t.Fatalf("write %v at version %d: the new version is %d, want a higher one below 2^32", row.ID, expect, v)
	}
	return v
}

func kept(row membertable.Row, version membertable.Version) membertable.Row {
	row.Started, row.Alive, row.Version = membertable.Time(row.Started), time.Time{}, version
	var votes []membertable.Suspicion
	for _, s := range row.Suspicions {
		votes = append(votes, membertable.Suspicion{By: s.By, At: membertable.Time(s.At)})
	}
	row.Suspicions = votes
	return row
}

func wantTable(t *testing.T, what string, got membertable.Snapshot, version membertable.Version, rows ...membertable.Row) {
	t.Helper()
	if got.Since != 0 || got.Version != version || len(got.Rows) != len(rows) {
		t.Errorf("%s: got %d rows at version %d since %d, want %d at %d", what, len(got.Rows), got.Version, got.Since, len(rows), version)
		return
	}
	for i, want := range rows {
		if g := got.Rows[i]; !same(g, want) {
			t.Errorf("%s: row %d: got\n%.2000v, want\n%.2000v", what, i, fmt.Sprintf("%+v", g), fmt.Sprintf("%+v", want))
		}
	}
}

func same(a, b membertable.Row) bool {
	for _, r := range []*membertable.Row{&a, &b} {
		r.Started, r.Alive = r.Started.UTC(), r.Alive.UTC()
		r.Roles = append([]string{}, r.Roles...)
		r.Data = append([]byte{}, r.Data...)
		r.Suspicions = append([]membertable.Suspicion{}, r.Suspicions...)
		for i := range r.Suspicions {
			r.Suspicions[i].At = r.Suspicions[i].At.UTC()
		}
	}
	return reflect.DeepEqual(a, b)
}

func testEmpty(t *testing.T, h Harness) {
	a, b := h.Client(t, cluster), h.Client(t, cluster)
	first := read(t, a)
	wantTable(t, "another reads", read(t, b), first.Version)
	_, err := a.Write(t.Context(), first.Version+1, member(id("a", 1)))
	wantError(t, "write at a version that never was", err, store.ErrConflict)
	v := write(t, b, first.Version, member(id("a", 1)))
	wantTable(t, "after the first write", read(t, a), v, kept(member(id("a", 1)), v))
}

func testWriteAndRead(t *testing.T, h Harness) {
	a, b := h.Client(t, cluster), h.Client(t, cluster)
	one, two := member(id("a", 1<<63)), member(id("a", 2))
	v1 := write(t, a, read(t, a).Version, one)
	v2 := write(t, b, v1, two) // same name, another incarnation
	bare := membertable.Row{ID: id("Z_-9", 0)}
	v3 := write(t, a, v2, bare)
	for who, c := range map[string]membertable.Table{"a": a, "b": b} {
		wantTable(t, who+" reads", read(t, c), v3, kept(bare, v3), kept(two, v2), kept(one, v1))
	}
	one.Status, one.Roles, one.Data, one.Started = membertable.Dead, nil, nil, time.Time{}
	one.Suspicions = append(one.Suspicions, membertable.Suspicion{By: two.ID, At: began})
	one.Alive, one.Version = began, v3 // ignored
	v4 := write(t, b, v3, one)
	s := read(t, a)
	wantTable(t, "after a change", s, v4, kept(bare, v3), kept(two, v2), kept(one, v4))
	if r, ok := s.Row(two.ID); !ok || r.Version != v2 {
		t.Errorf("row %v: got %v %v, want that of version %d", two.ID, r, ok, v2)
	}
	if r, ok := s.Row(id("b", 2)); ok {
		t.Errorf("a row that is not there: got %v", r)
	}
}

// wantRows is wantTable after one write, which raised the table's version from old to version. A wanted
// row with version 0 may have any version in (old, version].
func wantRows(t *testing.T, what string, got membertable.Snapshot, old, version membertable.Version, rows ...membertable.Row) {
	t.Helper()
	for i := range got.Rows {
		if v := got.Rows[i].Version; i < len(rows) && rows[i].Version == 0 && v > old && v <= version {
			rows[i] = kept(rows[i], v)
		}
	}
	wantTable(t, what, got, version, rows...)
}

func testWriteMany(t *testing.T, h Harness) {
	a, b := h.Client(t, cluster), h.Client(t, cluster)
	zero := read(t, a).Version
	old := member(id("m", 7))
	v1 := write(t, a, zero, old)
	var all []membertable.Row
	for i := range membertable.MaxRows {
		all = append(all, member(id("m", uint64(i))))
	}
	all[7].Status, all[7].Roles = membertable.Dead, []string{"b", "a"} // replaces old
	v2 := must[membertable.Version](t)(b.Write(t.Context(), v1, all...))
	if v2 < v1+membertable.MaxRows {
		t.Errorf("%d rows raise the version from %d to %d, want their number or more", len(all), v1, v2)
	}
	wantRows(t, "all rows", read(t, a), v1, v2, slices.Clone(all)...)
	since := must[membertable.Snapshot](t)(a.Read(t.Context(), v1))
	wantRows(t, "what changed", since.Over(membertable.Snapshot{Version: v1, Rows: []membertable.Row{kept(old, v1)}}), v1, v2, slices.Clone(all)...)

	dead := slices.Clone(all[:3])
	for i := range dead {
		dead[i].Status = membertable.Dead
	}
	_, err := a.Write(t.Context(), v1, dead...)
	wantError(t, "several rows at a former version", err, store.ErrConflict)
	_, err = a.Write(t.Context(), v2)
	wantError(t, "no row", err, store.ErrBadKey)
	_, err = a.Write(t.Context(), v2, append(slices.Clone(all), member(id("z", 1)))...)
	wantError(t, "a row too many", err, store.ErrBadKey)
	_, err = a.Write(t.Context(), v2, all[0], all[1], all[0])
	wantError(t, "a row twice", err, store.ErrBadKey)
	_, err = a.Write(t.Context(), v2, all[0], member(id("a.b", 1)))
	wantError(t, "a bad name among them", err, store.ErrBadKey)
	_, err = a.Write(t.Context(), v2, large(t, id("m", 1), membertable.MaxRow/2), large(t, id("m", 2), membertable.MaxRow/2+1))
	wantError(t, "a byte too many", err, store.ErrTooLarge)
	wantRows(t, "afterwards", read(t, b), v1, v2, slices.Clone(all)...)
}

func testConflict(t *testing.T, h Harness) {
	a, b := h.Client(t, cluster), h.Client(t, cluster)
	zero := read(t, a).Version
	v1 := write(t, a, zero, member(id("a", 1)))
	v2 := write(t, b, v1, member(id("b", 1)))
	changed := member(id("a", 1))
	changed.Status = membertable.Dead
	for _, expect := range []membertable.Version{0, zero, v1, v2 + 1, v2 + 1000} {
		if expect == v2 {
			continue
		}
		for what, row := range map[string]membertable.Row{"replace": changed, "insert": member(id("c", 1))} {
			_, err := a.Write(t.Context(), expect, row)
			wantError(t, fmt.Sprintf("%s at version %d of %d", what, expect, v2), err, store.ErrConflict)
		}
		_, err := a.Delete(t.Context(), expect, []membertable.ID{id("a", 1)})
		wantError(t, fmt.Sprintf("delete at version %d of %d", expect, v2), err, store.ErrConflict)
	}
	wantTable(t, "afterwards", read(t, b), v2, kept(member(id("a", 1)), v1), kept(member(id("b", 1)), v2))
}

// testSince checks that Snapshot.Over adds changes to the former snapshot.
func testSince(t *testing.T, h Harness) {
	a, b := h.Client(t, cluster), h.Client(t, cluster)
	v := read(t, a).Version
	for i := range 4 {
		v = write(t, a, v, member(id("m", uint64(i))))
	}
	old := read(t, a)
	same := must[membertable.Snapshot](t)(h.Client(t, cluster).Read(t.Context(), v))
	wantTable(t, "nothing has changed", same.Over(old), v, old.Rows...)
	changed := member(id("m", 2))
	changed.Status = membertable.Dead
	v = write(t, b, v, changed)
	v = write(t, b, v, member(id("a", 1)))
	v = write(t, b, v, member(id("z", 1)))
	var since membertable.Snapshot
	for who, c := range map[string]membertable.Table{"the reader": a, "the writer": b, "another": h.Client(t, cluster)} {
		since = must[membertable.Snapshot](t)(c.Read(t.Context(), old.Version))
		if since.Since != 0 && (since.Since != old.Version || len(since.Rows) != 3) {
			t.Errorf("%s reads %d rows since %d, want 3 since %d", who, len(since.Rows), since.Since, old.Version)
		}
		wantTable(t, who+": what changed over what was", since.Over(old), v, read(t, h.Client(t, cluster)).Rows...)
	}
	base := read(t, a)
	if again := since.Over(base); again.Version != v || len(again.Rows) != 6 {
		t.Errorf("what changed over the newest: %d rows at %d, want 6 at %d", len(again.Rows), again.Version, v)
	}
	own := write(t, b, v, member(id("own", 1))) // its writer knows the table without reading it
	base = membertable.Snapshot{Version: own, Since: v, Rows: []membertable.Row{kept(member(id("own", 1)), own)}}.Over(base)
	v = write(t, a, own, member(id("other", 1)))
	since = must[membertable.Snapshot](t)(b.Read(t.Context(), own))
	wantTable(t, "what changed over a write", since.Over(base), v, read(t, a).Rows...)
	future := must[membertable.Snapshot](t)(a.Read(t.Context(), v+1000))
	if newest := future.Over(membertable.Snapshot{Version: v + 1000}); newest.Version != v+1000 {
		t.Errorf("a table below the reader's version replaces it: %d", newest.Version)
	}
}

func testDelete(t *testing.T, h Harness) {
	a, b := h.Client(t, cluster), h.Client(t, cluster)
	v := read(t, a).Version
	var ids []membertable.ID
	for i := range membertable.MaxDelete + 2 {
		ids = append(ids, id("m", uint64(i)))
		v = write(t, a, v, membertable.Row{ID: ids[i], Status: membertable.Dead})
	}
	old := read(t, b)
	_, err := a.Delete(t.Context(), v, ids[:membertable.MaxDelete+1])
	wantError(t, "delete one too many", err, store.ErrBadKey)
	_, err = a.Delete(t.Context(), v, nil)
	wantError(t, "delete nothing", err, store.ErrBadKey)
	_, err = a.Delete(t.Context(), v, []membertable.ID{ids[0], ids[0]})
	wantError(t, "delete a row twice", err, store.ErrBadKey)
	deleted := must[membertable.Version](t)(a.Delete(t.Context(), v, ids[2:]))
	if deleted <= v {
		t.Fatalf("version is %d after a deletion at %d, want a higher one", deleted, v)
	}
	left := []membertable.Row{old.Rows[0], old.Rows[1]}
	wantTable(t, "what is left", read(t, b), deleted, left...)
	since := must[membertable.Snapshot](t)(b.Read(t.Context(), v))
	wantTable(t, "since before the deletion", since.Over(old), deleted, left...)
	_, err = b.Write(t.Context(), v, membertable.Row{ID: ids[5]})
	wantError(t, "write at a version before the deletion", err, store.ErrConflict)
	again := must[membertable.Version](t)(b.Delete(t.Context(), deleted, []membertable.ID{ids[1], ids[7], id("never", 1)}))
	wantTable(t, "after the second deletion", read(t, a), again, old.Rows[0])
	back := membertable.Row{ID: ids[5], Status: membertable.Joining}
	v = write(t, a, again, back)
	wantTable(t, "written again", read(t, b), v, old.Rows[0], kept(back, v))
	since = must[membertable.Snapshot](t)(b.Read(t.Context(), again))
	wantTable(t, "since the deletion", since.Over(membertable.Snapshot{Version: again, Rows: old.Rows[:1]}), v, old.Rows[0], kept(back, v))
}

// aliveWithin bounds how far reads lag behind calls of Alive.
const aliveWithin = 5 * time.Second

func (h Harness) wantAlive(t *testing.T, c membertable.Table, id membertable.ID, want time.Time) membertable.Snapshot {
	t.Helper()
	for began := time.Now(); ; h.Wait(10 * time.Millisecond) {
		s := read(t, c)
		row, _ := s.Row(id)
		if row.Alive.Equal(membertable.Time(want)) {
			return s
		}
		if time.Since(began) > aliveWithin {
			t.Fatalf("row %v has the I-am-alive %v, want %v", id, row.Alive, membertable.Time(want))
		}
	}
}

func testAlive(t *testing.T, h Harness) {
	a, b := h.Client(t, cluster), h.Client(t, cluster)
	one, two := member(id("a", 1)), member(id("b", 1))
	v := write(t, a, write(t, a, read(t, a).Version, one), two)
	alive := func(id membertable.ID, at time.Time) {
		t.Helper()
		if err := a.Alive(t.Context(), id, at); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		alive(one.ID, began.Add(time.Duration(i)*time.Minute))
	}
	alive(id("nobody", 1), began)
	s := h.wantAlive(t, b, one.ID, began.Add(2*time.Minute))
	if s.Version != v || len(s.Rows) != 2 {
		t.Errorf("%d rows at version %d, want 2 at %d: an I-am-alive changes no version", len(s.Rows), s.Version, v)
	}
	v = write(t, b, v, one) // by another process, which does not know the I-am-alive
	s = h.wantAlive(t, a, one.ID, began.Add(2*time.Minute))
	if s.Version != v {
		t.Errorf("version is %d, want %d", s.Version, v)
	}
	if r, _ := s.Row(two.ID); !r.Alive.IsZero() {
		t.Errorf("%v has the I-am-alive %v, want none", two.ID, r.Alive)
	}
	v = must[membertable.Version](t)(b.Delete(t.Context(), v, []membertable.ID{one.ID}))
	alive(one.ID, began.Add(3*time.Minute)) // by a process that does not know that its row is deleted
	alive(two.ID, began.Add(3*time.Minute))
	if s := h.wantAlive(t, b, two.ID, began.Add(3*time.Minute)); len(s.Rows) != 1 || s.Version != v {
		t.Errorf("%d rows at version %d, want 1 at %d: an I-am-alive makes no row", len(s.Rows), s.Version, v)
	}
}

func testOwnership(t *testing.T, h Harness) {
	a := h.Client(t, cluster)
	row := member(id("a", 1))
	v := write(t, a, read(t, a).Version, row)
	copy(row.Data, "xxxxx")
	row.Roles[0], row.Suspicions[0].By.Name = "x", "x"
	wantTable(t, "what was written", read(t, a), v, kept(member(id("a", 1)), v))
	before := read(t, a)
	v2 := write(t, a, v, membertable.Row{ID: id("a", 1), Status: membertable.Dead})
	v3 := write(t, a, v2, member(id("b", 1)))
	wantTable(t, "a snapshot before a write", before, v, kept(member(id("a", 1)), v))
	before = read(t, a)
	if err := a.Alive(t.Context(), id("b", 1), began); err != nil {
		t.Fatal(err)
	}
	must[membertable.Version](t)(a.Delete(t.Context(), v3, []membertable.ID{id("a", 1)}))
	wantTable(t, "a snapshot before a deletion", before, v3,
		kept(membertable.Row{ID: id("a", 1), Status: membertable.Dead}, v2), kept(member(id("b", 1)), v3))
}

// large returns a row of size bytes in Encode's form.
func large(t *testing.T, id membertable.ID, size int) membertable.Row {
	t.Helper()
	row := membertable.Row{ID: id}
	data := must[[]byte](t)(membertable.Encode(row))
	row.Status = membertable.Status(strings.Repeat("s", size-len(data)-len(`,"status":""`)))
	return row
}

func testLimits(t *testing.T, h Harness) {
	a, b := h.Client(t, strings.Repeat("c", membertable.MaxName)), h.Client(t, strings.Repeat("c", membertable.MaxName))
	largest := large(t, id(strings.Repeat("m", membertable.MaxName), 1<<64-1), membertable.MaxRow)
	v := write(t, a, read(t, a).Version, largest)
	wantTable(t, "the largest row", read(t, b), v, kept(largest, v))
	_, err := a.Write(t.Context(), v, large(t, id("m", 1), membertable.MaxRow+1))
	wantError(t, "a byte too many", err, store.ErrTooLarge)
	data := membertable.Row{ID: id("m", 1), Data: bytes.Repeat([]byte{0xff}, membertable.MaxRow/2)}
	v2 := write(t, a, v, data)
	wantTable(t, "two large rows", read(t, b), v2, kept(data, v2), kept(largest, v))

	// The largest write has MaxRows rows of MaxRow bytes together.
	c := h.Client(t, cluster)
	var all []membertable.Row
	for i, left := 0, membertable.MaxRow; i < membertable.MaxRows; i++ {
		size := left / (membertable.MaxRows - i)
		all = append(all, large(t, id(strings.Repeat("m", membertable.MaxName), uint64(i)), size))
		left -= size
	}
	zero := read(t, c).Version
	v = must[membertable.Version](t)(c.Write(t.Context(), zero, all...))
	wantRows(t, "the largest write", read(t, c), zero, v, all...)
}

func testLargestRows(t *testing.T, h Harness) {
	a := h.Client(t, cluster)
	v := read(t, a).Version
	old := membertable.Snapshot{Version: v}
	var rows []membertable.Row
	for i := range h.Largest {
		row := large(t, id("m", uint64(i)), membertable.MaxRow)
		v = write(t, a, v, row)
		rows = append(rows, kept(row, v))
	}
	wantTable(t, "the largest rows", read(t, h.Client(t, cluster)), v, rows...)
	since := must[membertable.Snapshot](t)(a.Read(t.Context(), old.Version))
	wantTable(t, "what changed", since.Over(old), v, rows...)
}

func testBadNames(t *testing.T, h Harness) {
	a := h.Client(t, cluster)
	v := read(t, a).Version
	for _, name := range []string{"", "a.b", "a*", ">", "a/b", "a b", "é", "a\x00", "a'", strings.Repeat("n", membertable.MaxName+1)} {
		_, err := a.Write(t.Context(), v, membertable.Row{ID: id(name, 1)})
		wantError(t, fmt.Sprintf("write %q", name), err, store.ErrBadKey)
		_, err = a.Delete(t.Context(), v, []membertable.ID{id(name, 1)})
		wantError(t, fmt.Sprintf("delete %q", name), err, store.ErrBadKey)
		wantError(t, fmt.Sprintf("alive %q", name), a.Alive(t.Context(), id(name, 1), began), store.ErrBadKey)
		other := h.Client(t, name)
		_, err = other.Read(t.Context(), 0)
		wantError(t, fmt.Sprintf("read the table of %q", name), err, store.ErrBadKey)
		_, err = other.Write(t.Context(), 0, membertable.Row{ID: id("a", 1)})
		wantError(t, fmt.Sprintf("write to the table of %q", name), err, store.ErrBadKey)
	}
	for what, row := range map[string]membertable.Row{
		"status":    {ID: id("a", 1), Status: "a\x00"},
		"role":      {ID: id("a", 1), Roles: []string{"a", "\xff"}},
		"suspicion": {ID: id("a", 1), Suspicions: []membertable.Suspicion{{By: id("a b", 1)}}},
		"time":      {ID: id("a", 1), Started: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		_, err := a.Write(t.Context(), v, row)
		wantError(t, "write a bad "+what, err, store.ErrBadKey)
	}
	wantTable(t, "afterwards", read(t, a), v)
}

// testTablesApart writes the same members to tables with similar names.
func testTablesApart(t *testing.T, h Harness) {
	want := make(map[string]membertable.Snapshot)
	names := []string{"one", "one-two", "ONE", "o", "one_0"}
	both := []membertable.ID{id("a", 1), id("b", 1)}
	for i, name := range names {
		c := h.Client(t, name)
		v := write(t, c, read(t, c).Version, membertable.Row{ID: both[0]})
		for range i + 1 {
			v = write(t, c, v, member(both[1]))
		}
		want[name] = read(t, c)
	}
	changed := h.Client(t, "one")
	if err := changed.Alive(t.Context(), both[0], began); err != nil {
		t.Fatal(err)
	}
	v := must[membertable.Version](t)(changed.Delete(t.Context(), want["one"].Version, both[1:]))
	h.wantAlive(t, changed, both[0], began)
	for _, name := range names {
		s := read(t, h.Client(t, name))
		if name == "one" {
			wantTable(t, "table one", membertable.Snapshot{Version: s.Version, Rows: []membertable.Row{kept(s.Rows[0], s.Rows[0].Version)}}, v, want["one"].Rows[0])
			continue
		}
		wantTable(t, "table "+name, s, want[name].Version, want[name].Rows...)
	}
}

// testContextEnded uses an ended context: nothing is sent, so outcomes are certain.
func testContextEnded(t *testing.T, h Harness) {
	a := h.Client(t, cluster)
	v := write(t, a, read(t, a).Version, member(id("a", 1)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := a.Write(ctx, v, member(id("b", 1)))
	for _, want := range []error{store.ErrUnavailable, context.Canceled} {
		wantError(t, "write", err, want)
	}
	_, err = a.Delete(ctx, v, []membertable.ID{id("a", 1)})
	wantError(t, "delete", err, store.ErrUnavailable)
	_, err = a.Read(ctx, 0)
	wantError(t, "read", err, store.ErrUnavailable)
	wantError(t, "alive", a.Alive(ctx, id("a", 1), began), store.ErrUnavailable)
	wantTable(t, "afterwards", read(t, a), v, kept(member(id("a", 1)), v))
}
