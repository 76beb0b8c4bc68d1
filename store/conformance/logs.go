package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/shardgen/shardgen/store"
)

var shard = store.Shard{Type: "Account", Number: 3}

func appendTo(t *testing.T, c Client, sh store.Shard, expect store.Position, text string) store.Position {
	t.Helper()
	for {
		p, err := c.Shards().Append(t.Context(), sh, expect, []byte(text))
		if errors.Is(err, store.ErrBusy) {
			continue
		}
		return must[store.Position](t)(p, err)
	}
}

func fill(t *testing.T, c Client, sh store.Shard, count int) []store.Position {
	t.Helper()
	var at []store.Position
	last := store.Start
	for i := range count {
		last = appendTo(t, c, sh, last, strconv.Itoa(i))
		at = append(at, last)
	}
	return at
}

func wantLog(t *testing.T, c Client, sh store.Shard, from, to store.Position, want ...string) {
	t.Helper()
	got, err := c.Shards().Read(t.Context(), sh, from, to)
	if err != nil {
		t.Fatalf("read %d to %d: %v", from, to, err)
	}
	var texts []string
	for i, a := range got {
		texts = append(texts, string(a.Data))
		if i > 0 && a.Position <= got[i-1].Position {
			t.Errorf("position %d after %d", a.Position, got[i-1].Position)
		}
	}
	if fmt.Sprint(texts) != fmt.Sprint(want) {
		t.Fatalf("read %d to %d: got %q, want %q", from, to, texts, want)
	}
	if got[len(got)-1].Position != to || from != store.Start && got[0].Position != from {
		t.Errorf("read %d to %d: got positions %d to %d", from, to, got[0].Position, got[len(got)-1].Position)
	}
}

func wantAppend(t *testing.T, c Client, sh store.Shard, expect store.Position, want error) {
	t.Helper()
	for {
		_, err := c.Shards().Append(t.Context(), sh, expect, []byte("refused"))
		if errors.Is(err, store.ErrBusy) {
			continue
		}
		wantError(t, fmt.Sprintf("append behind %d", expect), err, want)
		return
	}
}

func wantGone(t *testing.T, c Client, sh store.Shard, from, to store.Position) {
	t.Helper()
	_, err := c.Shards().Read(t.Context(), sh, from, to)
	wantError(t, fmt.Sprintf("read %d to %d", from, to), err, store.ErrGone)
}

func testLog(t *testing.T, h Harness) {
	a, b := h.Client(t), h.Client(t)
	other := shard
	other.Number++
	appendTo(t, b, other, store.Start, "of another shard")
	at := fill(t, a, shard, 5)
	appendTo(t, b, other, store.Any, "of another shard")
	for _, c := range []Client{a, b} {
		wantLog(t, c, shard, store.Start, at[4], "0", "1", "2", "3", "4")
		wantLog(t, c, shard, at[1], at[3], "1", "2", "3")
		wantLog(t, c, shard, at[2], at[2], "2")
	}
	appendTo(t, b, shard, at[4], "5")
}

func testLogConflict(t *testing.T, h Harness) {
	a := h.Client(t)
	wantAppend(t, a, shard, 1, store.ErrConflict) // 1 expects an append, but the log is empty
	at := fill(t, a, shard, 3)
	for _, expect := range []store.Position{store.Start, at[0], at[1], at[2] + 1, at[2] + 1000} {
		wantAppend(t, a, shard, expect, store.ErrConflict)
	}
	wantLog(t, a, shard, store.Start, at[2], "0", "1", "2")
}

// testLogClaimed checks that a claim (an append that expects no position) makes the former writer's
// appends fail.
func testLogClaimed(t *testing.T, h Harness) {
	zombie, home := h.Client(t), h.Client(t)
	at := fill(t, zombie, shard, 2)
	claim := appendTo(t, home, shard, store.Any, "claim")
	wantAppend(t, zombie, shard, at[1], store.ErrConflict)
	next := appendTo(t, home, shard, claim, "mine")
	wantLog(t, home, shard, at[0], next, "0", "1", "claim", "mine")
}

func testLogReadWholly(t *testing.T, h Harness) {
	a := h.Client(t)
	wantGone(t, a, shard, store.Start, 1) // an empty log
	at := fill(t, a, shard, 3)
	other := shard
	other.Number++
	alien := appendTo(t, a, other, store.Start, "alien")
	for slices.Contains(at, alien) { // both logs may have the same position
		alien = appendTo(t, a, other, alien, "alien")
	}
	wantGone(t, a, shard, at[0], at[2]+100) // after the last append
	wantGone(t, a, shard, at[0], alien)
	wantGone(t, a, shard, at[2]+100, at[2]+100)
	wantGone(t, a, shard, at[2], at[0])
	wantGone(t, a, shard, store.Start, store.Start)
	if at[0] > 1 {
		wantGone(t, a, shard, at[0]-1, at[2])
	}
}

func testLogNeverEmpty(t *testing.T, h Harness) {
	a := h.Client(t)
	at := fill(t, a, shard, 3)
	head := setHead(t, a, shard, store.Head{Since: at[2]})
	for range 2 {
		if err := a.Shards().Trim(t.Context(), shard, head); err != nil {
			t.Fatal(err)
		}
	}
	wantLog(t, a, shard, at[2], at[2], "2")
	next := appendTo(t, a, shard, at[2], "3")
	wantLog(t, a, shard, at[2], next, "2", "3")
}

func testLogTrimmed(t *testing.T, h Harness) {
	a := h.Client(t)
	at := fill(t, a, shard, 6)
	first := setHead(t, a, shard, store.Head{Since: at[1]})
	second := setHead(t, a, shard, store.Head{Revision: first.Revision, Since: at[3]})
	if err := a.Shards().Trim(t.Context(), shard, first); err != nil {
		t.Fatal(err)
	}
	wantLog(t, a, shard, at[3], at[5], "3", "4", "5")
	if err := a.Shards().Trim(t.Context(), shard, second); err != nil {
		t.Fatal(err)
	}
	wantLog(t, a, shard, at[3], at[5], "3", "4", "5")
	// A read of trimmed entries returns all or an error: the store may still have them.
	if got, err := a.Shards().Read(t.Context(), shard, at[0], at[5]); err == nil && len(got) != 6 {
		t.Errorf("read of what was trimmed has %d of 6 appends", len(got))
	} else if err != nil {
		wantError(t, "read of what was trimmed", err, store.ErrGone)
	}
	// Trim keeps entries that the head needs, for any hint.
	if err := a.Shards().Trim(t.Context(), shard, store.Head{Revision: second.Revision, Since: at[5]}); err != nil {
		t.Fatal(err)
	}
	wantLog(t, a, shard, at[3], at[5], "3", "4", "5")
}

func testLogsOfOthersTrimmed(t *testing.T, h Harness) {
	a, b := h.Client(t), h.Client(t)
	// Shards that may share a stream: some without a head, some whose head needs the whole log.
	var others []store.Shard
	var kept [][]store.Position
	for i := range 8 {
		sh := store.Shard{Type: shard.Type, Number: i}
		if sh == shard {
			continue
		}
		others = append(others, sh)
		setHead(t, b, sh, store.Head{})
		kept = append(kept, fill(t, b, sh, 2))
	}
	at := fill(t, a, shard, 3)
	head := setHead(t, a, shard, store.Head{Since: at[2]})
	late := store.Shard{Type: shard.Type, Number: 11}
	setHead(t, b, late, store.Head{}) // written after the head that the trim names
	lateAt := fill(t, b, late, 2)
	if err := a.Shards().Trim(t.Context(), shard, head); err != nil {
		t.Fatal(err)
	}
	for i, sh := range others {
		wantLog(t, b, sh, kept[i][0], kept[i][1], "0", "1")
	}
	wantLog(t, b, late, lateAt[0], lateAt[1], "0", "1")
}

// testLogTrimmedDuringReads trims during reads, which must return everything or an error.
func testLogTrimmedDuringReads(t *testing.T, h Harness) {
	a, b := h.Client(t), h.Client(t)
	const appends, every = 120, 10
	at := fill(t, a, shard, 1)
	var mu sync.Mutex
	head := setHead(t, a, shard, store.Head{Since: at[0]})
	last := at[0]
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 1; i < appends; i++ {
			p := appendTo(t, a, shard, last, strconv.Itoa(i))
			mu.Lock()
			last = p
			mu.Unlock()
			if i%every == 0 {
				next := setHead(t, a, shard, store.Head{Revision: head.Revision, Since: p})
				mu.Lock()
				head = next
				mu.Unlock()
				if err := a.Shards().Trim(t.Context(), shard, next); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for done := false; !done; {
		mu.Lock()
		from, to := head.Since, last
		mu.Unlock()
		got, err := b.Shards().Read(t.Context(), shard, from, to)
		if err != nil {
			wantError(t, "read while it is trimmed", err, store.ErrGone)
		}
		for i := range got {
			if i > 0 && atoi(got[i].Data) != atoi(got[i-1].Data)+1 {
				t.Fatalf("read %d to %d: %s comes after %s", from, to, got[i].Data, got[i-1].Data)
			}
		}
		mu.Lock()
		done = last != at[0] && len(got) > 0 && string(got[len(got)-1].Data) == strconv.Itoa(appends-1)
		mu.Unlock()
		h.Wait(time.Millisecond)
	}
	wg.Wait()
}

func atoi(b []byte) int {
	n, err := strconv.Atoi(string(b))
	if err != nil {
		return -1
	}
	return n
}

// testLogContended lets many writers append. An append must follow the append that its writer has
// read last.
func testLogContended(t *testing.T, h Harness) {
	const writers, each = 4, 8
	var mu sync.Mutex
	var last store.Position
	var wg sync.WaitGroup
	for w := range writers {
		c := h.Client(t)
		wg.Go(func() {
			for i := 0; i < each; {
				mu.Lock()
				expect := last
				mu.Unlock()
				p, err := c.Shards().Append(t.Context(), shard, expect, fmt.Append(nil, w, i))
				switch {
				case err == nil:
					i++
					mu.Lock()
					last = max(last, p)
					mu.Unlock()
				case !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrBusy):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := must[[]store.Append](t)(h.Client(t).Shards().Read(t.Context(), shard, store.Start, last)); len(got) != writers*each {
		t.Errorf("%d appends, want %d", len(got), writers*each)
	}
}

// testAppendUncertain cancels and repeats appends: each must be in the log exactly once.
func testAppendUncertain(t *testing.T, h Harness) {
	a, judge := h.Client(t), h.Client(t)
	random := rand.New(rand.NewPCG(1, 1))
	last := store.Start
	const appends = 60
	for i := range appends {
		data := []byte(strconv.Itoa(i))
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(2000))*time.Microsecond)
		p, err := a.Shards().Append(ctx, shard, last, data)
		cancel()
		for errors.Is(err, store.ErrUncertain) || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrBusy) {
			p, err = a.Shards().Append(t.Context(), shard, last, data)
		}
		if errors.Is(err, store.ErrConflict) { // the first attempt is in the log: a claim shows it
			claim := appendTo(t, judge, shard, store.Any, "claim")
			got := must[[]store.Append](t)(judge.Shards().Read(t.Context(), shard, last, claim))
			if len(got) != 3 || string(got[1].Data) != string(data) {
				t.Fatalf("append %d conflicts, and the log goes on with %v", i, got)
			}
			last = claim
			continue
		}
		last = must[store.Position](t)(p, err)
	}
	seen := 0
	for _, entry := range must[[]store.Append](t)(judge.Shards().Read(t.Context(), shard, store.Start, last)) {
		if string(entry.Data) == "claim" {
			continue
		}
		if atoi(entry.Data) != seen {
			t.Fatalf("the log has append %s where %d is wanted", entry.Data, seen)
		}
		seen++
	}
	if seen != appends {
		t.Errorf("the log has %d appends, want %d", seen, appends)
	}
}

// testAppendLate checks appends that arrive after the claim of a new home. The store must refuse a
// late append that expects a position. It must put a late append that expects no position behind
// the claim.
func testAppendLate(t *testing.T, h Harness) {
	if h.Held == nil {
		t.Skip("the store's requests cannot be held up")
	}
	zombie, hold, release := h.Held(t)
	at := fill(t, zombie, shard, 2)
	held(t, hold, "append", func(ctx context.Context) error {
		_, err := zombie.Shards().Append(ctx, shard, at[1], []byte("late"))
		return err
	})
	home := h.Client(t)
	claim := appendTo(t, home, shard, store.Any, "claim")
	release()
	wantAppend(t, zombie, shard, at[1], store.ErrConflict) // on the same connection, after the late append
	next := appendTo(t, home, shard, claim, "mine")
	wantLog(t, home, shard, at[1], next, "1", "claim", "mine")

	held(t, hold, "claim", func(ctx context.Context) error {
		_, err := zombie.Shards().Append(ctx, shard, store.Any, []byte("late claim"))
		return err
	})
	release()
	last := appendTo(t, zombie, shard, store.Any, "end")
	wantLog(t, home, shard, next, last, "mine", "late claim", "end")
	wantAppend(t, home, shard, next, store.ErrConflict)
}
