package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/membertable"
)

// change reads the table, lets f change the row of id, and writes that row. After a conflict it
// begins again. old is a snapshot from before. change returns the snapshot after its write.
func change(ctx context.Context, c membertable.Table, old membertable.Snapshot, id membertable.ID, f func(*membertable.Row)) (membertable.Snapshot, error) {
	for {
		s, err := c.Read(ctx, old.Version)
		if err != nil {
			return old, err
		}
		old = s.Over(old)
		row, _ := old.Row(id)
		row.ID = id
		row.Suspicions = slices.Clone(row.Suspicions)
		f(&row)
		v, err := c.Write(ctx, old.Version, row)
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err != nil {
			return old, err
		}
		row = kept(row, v)
		return membertable.Snapshot{Version: v, Since: old.Version, Rows: []membertable.Row{row}}.Over(old), nil
	}
}

// testConcurrentVotes checks that no concurrent suspicion is lost.
func testConcurrentVotes(t *testing.T, h Harness) {
	const clients, each = 4, 10
	suspect := id("suspect", 1)
	var wg sync.WaitGroup
	errs := make(chan error, clients)
	for n := range clients {
		c := h.Client(t, cluster)
		wg.Go(func() {
			var s membertable.Snapshot
			var err error
			for i := range each {
				vote := membertable.Suspicion{By: id(fmt.Sprint("voter-", n), uint64(i)), At: began}
				s, err = change(t.Context(), c, s, suspect, func(r *membertable.Row) { r.Suspicions = append(r.Suspicions, vote) })
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	row, _ := read(t, h.Client(t, cluster)).Row(suspect)
	voters := make(map[membertable.ID]bool)
	for _, s := range row.Suspicions {
		voters[s.By] = true
	}
	if len(row.Suspicions) != clients*each || len(voters) != clients*each {
		t.Errorf("%d suspicions of %d voters, want %d of each", len(row.Suspicions), len(voters), clients*each)
	}
}

// A history has the rows written at each version; a version without rows means that all rows were
// deleted.
type history struct {
	mu     sync.Mutex
	writes map[membertable.Version][]membertable.Row
	seen   []membertable.Snapshot
}

func (h *history) wrote(v membertable.Version, rows []membertable.Row) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes[v] = rows
}

func (h *history) saw(s membertable.Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, s)
}

func (h *history) check(t *testing.T) {
	t.Helper()
	slices.SortFunc(h.seen, func(a, b membertable.Snapshot) int { return int(a.Version) - int(b.Version) })
	rows := make(map[membertable.ID]membertable.Row)
	versions := slices.Sorted(maps.Keys(h.writes))
	for _, s := range h.seen {
		for len(versions) > 0 && versions[0] <= s.Version {
			written := h.writes[versions[0]]
			if written == nil {
				clear(rows)
			}
			for _, row := range written {
				if len(written) == 1 {
					row = kept(row, versions[0])
				}
				rows[row.ID] = row
			}
			versions = versions[1:]
		}
		want := slices.SortedFunc(maps.Values(rows), func(a, b membertable.Row) int { return a.ID.Compare(b.ID) })
		wantRows(t, fmt.Sprint("what was read at version ", s.Version), s, 0, s.Version, want...)
	}
}

// testSnapshots reads the table, whole and by changes, during writes. Each snapshot, even a former
// state, must be the table at its version.
func testSnapshots(t *testing.T, h Harness) {
	const writers, each, rows = 4, 15, 6
	all := &history{writes: make(map[membertable.Version][]membertable.Row)}
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for n := range writers {
		c := h.raw(t, cluster)
		writing.Go(func() {
			var s membertable.Snapshot
			for i := 0; i < each; {
				next, err := c.Read(t.Context(), s.Version)
				if err != nil {
					t.Error(err)
					return
				}
				s = next.Over(s)
				all.saw(s)
				var write []membertable.Row
				for k := range 1 + i%3 { // at once
					row := member(id("m", uint64((n+i+k)%rows)))
					row.Data = fmt.Appendf(nil, "%d of writer %d", i, n)
					write = append(write, row)
				}
				var version membertable.Version
				if i%5 == 4 {
					var ids []membertable.ID
					for i := range rows {
						ids = append(ids, id("m", uint64(i)))
					}
					write = nil
					version, err = c.Delete(t.Context(), s.Version, ids)
				} else {
					version, err = c.Write(t.Context(), s.Version, write...)
				}
				if errors.Is(err, store.ErrConflict) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				all.wrote(version, write)
				i++
			}
		})
	}
	for n := range 2 {
		c := h.raw(t, cluster)
		reading.Go(func() {
			var s membertable.Snapshot
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				since := s.Version
				if (i+n)%2 == 0 {
					since = 0
				}
				next, err := c.Read(t.Context(), since)
				if err != nil {
					t.Error(err)
					return
				}
				s = next.Over(s)
				all.saw(s)
				h.Wait(time.Millisecond)
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	if len(all.writes) != writers*each && !t.Failed() {
		t.Errorf("%d versions were written, want %d: two writes have one version", len(all.writes), writers*each)
	}
	all.check(t)
}

// testHang checks a process that hangs for Harness.Hang between its read and its write. That write
// must not overwrite what another process wrote meanwhile.
func testHang(t *testing.T, h Harness) {
	hanging, other := h.Client(t, cluster), h.Client(t, cluster)
	suspect := member(id("suspect", 1))
	v := write(t, other, read(t, other).Version, suspect)
	old := read(t, hanging)
	suspect.Suspicions = nil
	suspect.Status = membertable.Dead
	h.Wait(h.Hang)
	v = write(t, other, v, suspect)
	h.Wait(h.Hang)
	_, err := hanging.Write(t.Context(), old.Version, old.Rows[0])
	wantError(t, "write what was read before", err, store.ErrConflict)
	_, err = hanging.Delete(t.Context(), old.Version, []membertable.ID{suspect.ID})
	wantError(t, "delete what was read before", err, store.ErrConflict)
	wantTable(t, "afterwards", read(t, other), v, kept(suspect, v))
	s := must[membertable.Snapshot](t)(change(t.Context(), hanging, old, id("late", 1), func(*membertable.Row) {}))
	if s.Version <= v {
		t.Errorf("after reading again it wrote version %d, want a version above %d", s.Version, v)
	}
}

// warm writes and deletes a row, so that later operations send one request each.
func warm(t *testing.T, c membertable.Table, v membertable.Version) membertable.Version {
	t.Helper()
	if s := read(t, c); s.Version != v {
		t.Fatalf("the table is at version %d, want %d", s.Version, v)
	}
	v = write(t, c, v, membertable.Row{ID: id("warm", 1)})
	return must[membertable.Version](t)(c.Delete(t.Context(), v, []membertable.ID{id("warm", 1)}))
}

// settles calls f repeatedly while a late request may have an effect.
func (h Harness) settles(f func()) {
	for range 5 {
		f()
		h.Wait(50 * time.Millisecond)
	}
	f()
}

// testLate lets a write arrive after its caller gave up and others wrote.
func testLate(t *testing.T, h Harness) {
	if h.Held == nil {
		t.Skip("requests of this table cannot be held up")
	}
	other := h.Client(t, cluster)
	c, hold, release := h.Held(t, cluster)
	row := member(id("a", 1))
	v := write(t, other, warm(t, c, read(t, other).Version), row)
	late, second := row, member(id("b", 1))
	late.Status = "late"
	hold()
	unanswered(t, "a write that is held up", func(ctx context.Context) error {
		_, err := c.Write(ctx, v, late, second)
		return err
	})
	v2 := write(t, other, v, row)
	h.Wait(h.Hang)
	release()
	h.settles(func() { wantTable(t, "after it arrived", read(t, other), v2, kept(row, v2)) })

	// A late write whose caller waits is refused.
	v2 = warm(t, c, v2)
	hold()
	answer := make(chan error, 1)
	go func() {
		_, err := c.Write(t.Context(), v2, late, second)
		answer <- err
	}()
	h.Wait(heldFor)
	v3 := write(t, other, v2, row)
	release()
	if err := <-answer; !errors.Is(err, store.ErrUncertain) {
		wantError(t, "a write that was delayed", err, store.ErrConflict)
	}
	h.settles(func() { wantTable(t, "after the delay", read(t, other), v3, kept(row, v3)) })

	// If nobody wrote meanwhile, it is applied as a whole, or not at all.
	v2 = warm(t, c, v3)
	row.Status = "again"
	v2 = write(t, other, v2, row)
	hold()
	unanswered(t, "a write that is held up again", func(ctx context.Context) error {
		_, err := c.Write(ctx, v2, late, second)
		return err
	})
	release()
	applied := false
	h.settles(func() {
		s := read(t, other)
		applied = s.Version != v2
		if !applied {
			wantTable(t, "if it was not applied", s, v2, kept(row, v2))
			return
		}
		wantRows(t, "if it was applied", s, v2, s.Version, late, second)
	})
	t.Logf("a late write that fits was applied: %v", applied)
}

func testLateDelete(t *testing.T, h Harness) {
	if h.Held == nil {
		t.Skip("requests of this table cannot be held up")
	}
	other := h.Client(t, cluster)
	c, hold, release := h.Held(t, cluster)
	row := membertable.Row{ID: id("a", 1), Status: membertable.Dead}
	v := write(t, other, warm(t, c, read(t, other).Version), row)
	hold()
	unanswered(t, "a deletion that is held up", func(ctx context.Context) error {
		_, err := c.Delete(ctx, v, []membertable.ID{row.ID})
		return err
	})
	v2 := write(t, other, v, member(id("b", 1)))
	release()
	h.settles(func() {
		wantTable(t, "after it arrived", read(t, other), v2, kept(row, v), kept(member(id("b", 1)), v2))
	})
}

func (h Harness) after(t *testing.T, c membertable.Table, v membertable.Version) membertable.Snapshot {
	t.Helper()
	for began := time.Now(); ; h.Wait(10 * time.Millisecond) {
		s, err := c.Read(t.Context(), 0)
		if err == nil && s.Version > v {
			return s
		}
		if time.Since(began) > freshWithin {
			t.Fatalf("the table is at version %d (%v): the write was not applied, though its request arrived", v, err)
		}
	}
}

// testAnswerLost checks that later reads, and a second try, agree with what the unanswered write
// did.
func testAnswerLost(t *testing.T, h Harness) {
	if h.Deaf == nil {
		t.Skip("answers of this table cannot get lost")
	}
	other := h.Client(t, cluster)
	c, deafen, hear := h.Deaf(t, cluster)
	v := write(t, other, warm(t, c, read(t, other).Version), member(id("a", 1)))
	mine := member(id("b", 1))
	deafen()
	unanswered(t, "a write without an answer", func(ctx context.Context) error {
		_, err := c.Write(ctx, v, mine)
		return err
	})
	hear()
	s := h.after(t, c, v)
	wantTable(t, "it was applied", s, s.Version, kept(member(id("a", 1)), v), kept(mine, s.Version))
	_, err := c.Write(t.Context(), v, mine)
	wantError(t, "the same write again", err, store.ErrConflict)
	last := warm(t, c, s.Version)
	deafen()
	unanswered(t, "a deletion without an answer", func(ctx context.Context) error {
		_, err := c.Delete(ctx, last, []membertable.ID{mine.ID})
		return err
	})
	hear()
	after := h.after(t, c, last)
	wantTable(t, "it was deleted", after, after.Version, kept(member(id("a", 1)), v))
}

func testRestarted(t *testing.T, h Harness) {
	if h.Restart == nil {
		t.Skip("the store cannot be restarted")
	}
	a := h.Client(t, cluster)
	v := write(t, a, read(t, a).Version, member(id("a", 1)))
	v = write(t, a, v, member(id("b", 1)))
	v = must[membertable.Version](t)(a.Delete(t.Context(), v, []membertable.ID{id("a", 1)}))
	before := read(t, a)
	h.Restart(t)
	after := read(t, h.Client(t, cluster))
	wantTable(t, "after a restart", after, v, before.Rows...)
	_, err := change(t.Context(), h.Client(t, cluster), after, id("c", 1), func(*membertable.Row) {})
	if err != nil {
		t.Error(err)
	}
}

func testManyRows(t *testing.T, h Harness) {
	a, b := h.Client(t, cluster), h.Client(t, cluster)
	v := read(t, a).Version
	began := time.Now()
	var half membertable.Snapshot
	for i := range h.Rows {
		if i == h.Rows/2 {
			half = read(t, b)
		}
		v = write(t, a, v, member(id(fmt.Sprintf("member-%05d", i), uint64(i)*0x9e3779b97f4a7c15)))
	}
	written := time.Now()
	s := read(t, b)
	whole := time.Now()
	t.Logf("%d rows: %v a write, %v to read them", h.Rows, written.Sub(began)/time.Duration(h.Rows), whole.Sub(written))
	if s.Version != v || len(s.Rows) != h.Rows {
		t.Fatalf("%d rows at version %d, want %d at %d", len(s.Rows), s.Version, h.Rows, v)
	}
	for i, row := range s.Rows {
		if want := fmt.Sprintf("member-%05d", i); row.Name != want {
			t.Fatalf("row %d is %v, want %s", i, row.ID, want)
		}
	}
	since := must[membertable.Snapshot](t)(b.Read(t.Context(), half.Version))
	if got := since.Over(half); got.Version != v || !slices.EqualFunc(got.Rows, s.Rows, same) {
		t.Errorf("half of the rows and what changed since are %d rows at version %d, want %d at %d", len(got.Rows), got.Version, h.Rows, v)
	}
	changed := s.Rows[h.Rows/2]
	changed.Status = membertable.Dead
	v = write(t, a, v, changed)
	since = must[membertable.Snapshot](t)(b.Read(t.Context(), s.Version))
	next := since.Over(s)
	if row, _ := next.Row(changed.ID); next.Version != v || len(next.Rows) != h.Rows || row.Status != membertable.Dead {
		t.Errorf("%d rows at version %d with %v %v, want %d at %d, dead", len(next.Rows), next.Version, row.ID, row.Status, h.Rows, v)
	}
	h.readWhileWriting(t, a, next)

	alive := s.Rows[:min(len(s.Rows), 1500)]
	for _, row := range alive {
		if err := a.Alive(t.Context(), row.ID, row.Started); err != nil {
			t.Fatal(err)
		}
	}
	s = h.wantAlive(t, b, alive[len(alive)-1].ID, alive[0].Started)
	for _, row := range alive {
		if got, _ := s.Row(row.ID); !got.Alive.Equal(row.Started) {
			s = h.wantAlive(t, b, row.ID, row.Started)
		}
	}
}

// readWhileWriting checks snapshots read during writes against the table's states.
func (h Harness) readWhileWriting(t *testing.T, c membertable.Table, first membertable.Snapshot) {
	t.Helper()
	all := &history{writes: make(map[membertable.Version][]membertable.Row)}
	for i := range first.Rows {
		all.wrote(first.Rows[i].Version, first.Rows[i:i+1])
	}
	done := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		s := first
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			row := first.Rows[(i*7919)%len(first.Rows)]
			if row.Data = fmt.Append(nil, i); i%4 == 3 {
				row = member(id("writer", uint64(i)))
			}
			v, err := c.Write(t.Context(), s.Version, row)
			if err != nil {
				done <- err
				return
			}
			all.wrote(v, []membertable.Row{row})
			s.Version = v
			h.Wait(time.Millisecond)
		}
	}()
	raw := h.raw(t, cluster)
	for range 3 {
		all.saw(read(t, raw))
		h.Wait(time.Millisecond)
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
	all.check(t)
}
