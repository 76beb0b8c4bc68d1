package durablehost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// follower returns a Follower of this shard alone, which begins at a place.
func (j *journaled) follower(at durable.Place) *Follower {
	f := NewFollower(j.store.Shards(), account.Type, account.Number)
	f.Places[0] = at
	return &f
}

// poll returns the numbers of the shard's events from one Poll.
func (j *journaled) poll(f *Follower) (numbers []uint64, err error) {
	j.t.Helper()
	events, err := f.Poll(within(j.t, time.Minute))
	for _, e := range events[0] {
		numbers = append(numbers, e.Place.Number)
	}
	return numbers, err
}

// until polls until there are events or an error, or until d has passed, and returns the numbers of
// the events.
func (j *journaled) until(f *Follower, d time.Duration) (numbers []uint64, err error) {
	j.t.Helper()
	for began := time.Now(); time.Since(began) < d; time.Sleep(250 * time.Millisecond) {
		events, err := f.poll(within(j.t, time.Minute), 0)
		for _, e := range events {
			numbers = append(numbers, e.Place.Number)
			f.Read(0, e)
		}
		if err != nil || len(events) > 0 {
			return numbers, err
		}
	}
	return nil, nil
}

// TestAPlaceWithoutEvents: a follower that began before a shard had events gets an error if the
// first events were deleted, even if it restarts at its stored place. A new follower begins at the
// oldest kept event.
func TestAPlaceWithoutEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournaled(t, durable.Journal{Events: 5})
		f := j.follower(durable.Place{})
		if numbers, err := j.poll(f); err != nil || len(numbers) > 0 || !f.Begun() {
			t.Fatalf("%v, %v, at %v, want known places and no events", numbers, err, f.Places)
		}
		j.record(20)
		gone := (*durable.GoneError)(nil)
		for _, from := range []*Follower{f, j.follower(f.Places[0])} {
			if numbers, err := j.until(from, time.Minute); !errors.As(err, &gone) || gone.Place.Number != 0 || gone.Next != 16 {
				t.Errorf("read %v, %v, want that 1 to 15 are gone", numbers, err)
			}
		}
		anew := j.follower(durable.Place{})
		numbers, err := j.poll(anew)
		if err != nil || !slices.Equal(numbers, []uint64{16, 17}) || anew.Places[0].Number != 15 {
			t.Fatalf("%v, %v, at %v, want 16, 17 and the place behind 15", numbers, err, anew.Places[0])
		}
		j.record(10) // 16 is deleted, and the follower has not read it
		if numbers, err := j.until(j.follower(anew.Places[0]), time.Minute); !errors.As(err, &gone) || gone.Next != 26 {
			t.Errorf("read %v, %v, want that 16 to 25 are gone", numbers, err)
		}
	})
}

// TestEventsWaitForAllShards: a new follower gets events only when all shards have answered,
// because only then its places say where it begins in each shard.
func TestEventsWaitForAllShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournaled(t, durable.Journal{})
		j.record(3)
		var down atomic.Bool
		down.Store(true)
		j.store.(*memory.Client).Fault(func(op memory.Op) (f memory.Fault) {
			if down.Load() && op.Key == fmt.Sprint("Account/", account.Number+1) {
				f.Loss = memory.LoseConnection
			}
			return f
		})
		f := j.follower(durable.Place{})
		for range 10 {
			if numbers, err := j.poll(f); err == nil || len(numbers) > 0 || f.Begun() {
				t.Fatalf("%v, %v, although a shard has not answered", numbers, err)
			}
		}
		down.Store(false)
		if numbers, err := j.poll(f); err != nil || !slices.Equal(numbers, []uint64{1, 2}) {
			t.Errorf("%v, %v, want the first events", numbers, err)
		}
		down.Store(true)
		if numbers, err := j.poll(f); err == nil || len(numbers) == 0 {
			t.Errorf("%v, %v, want events of the shard that answers", numbers, err)
		}
	})
}

// TestPlacesOfAnotherJournal: events are followed by number, whatever chunk a place names. The
// follower gets an error within seconds if the journal ends before the place, has a different event
// there, or lacks the next event.
func TestPlacesOfAnotherJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournaled(t, durable.Journal{})
		j.record(40) // in a chunk each
		sums, f := make([]uint32, 41), j.follower(durable.Place{})
		for f.Places[0].Number < 40 {
			events, err := f.poll(within(t, time.Minute), 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				sums[e.Place.Number] = e.Place.Sum
				f.Read(0, e)
			}
		}
		head, err := j.store.Shards().Head(t.Context(), account)
		if err == nil {
			_, err = j.store.Shards().Put(t.Context(), account, head.Revision, []store.Change{{ID: "j25"}})
		}
		if err != nil {
			t.Fatal(err)
		}
		for name, tt := range map[string]struct {
			at    durable.Place
			next  uint64
			cause error
		}{
			"as it was":           {durable.Place{Chunk: 7, Number: 7, Sum: sums[7]}, 8, nil},
			"a later chunk":       {durable.Place{Chunk: 31, Number: 7, Sum: sums[7]}, 8, nil},
			"the next chunk":      {durable.Place{Chunk: 8, Number: 7, Sum: sums[7]}, 8, nil},
			"an earlier chunk":    {durable.Place{Chunk: 2, Number: 37, Sum: sums[37]}, 38, nil},
			"a chunk too far":     {durable.Place{Chunk: 1 << 40, Number: 39, Sum: sums[39]}, 40, nil},
			"no chunk":            {durable.Place{Number: 20, Sum: sums[20]}, 21, nil},
			"no sum":              {durable.Place{Chunk: 1 << 40, Number: 20}, 21, nil},
			"nothing read":        {durable.FirstPlace, 1, nil},
			"nothing, far":        {durable.Place{Chunk: 9}, 1, nil},
			"another event":       {durable.Place{Chunk: 7, Number: 7, Sum: sums[8]}, 0, durable.ErrOther},
			"another, far":        {durable.Place{Chunk: 30, Number: 7, Sum: sums[8]}, 0, durable.ErrOther},
			"behind the end":      {durable.Place{Chunk: 41, Number: 41, Sum: 1}, 0, durable.ErrBeyond},
			"far behind the end":  {durable.Place{Chunk: 3, Number: 1 << 63, Sum: 1}, 0, durable.ErrBeyond},
			"before a lost chunk": {durable.Place{Chunk: 24, Number: 24, Sum: sums[24]}, 0, durable.ErrCorrupt},
			"in a lost chunk":     {durable.Place{Chunk: 25, Number: 25, Sum: sums[25]}, 0, durable.ErrCorrupt},
			"search a lost chunk": {durable.Place{Chunk: 3, Number: 25, Sum: sums[25]}, 0, durable.ErrCorrupt},
			"behind a lost chunk": {durable.Place{Chunk: 26, Number: 26, Sum: sums[26]}, 27, nil},
			"at the end":          {durable.Place{Chunk: 40, Number: 40, Sum: sums[40]}, 0, nil},
		} {
			numbers, err := j.until(j.follower(tt.at), time.Minute)
			if want := tt.next; tt.cause == nil && err != nil || want != 0 && (err != nil || len(numbers) == 0 || numbers[0] != want) || want == 0 && len(numbers) > 0 || !errors.Is(err, tt.cause) {
				t.Errorf("%s: %v, %v, want %d, %v", name, numbers, err, want, tt.cause)
			}
		}
	})
}

// TestStaleIsNotLost: stale answers for only a moment do not make a follower take the journal for a
// restored older one. Time without answers does not count.
func TestStaleIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournaled(t, durable.Journal{})
		j.record(5)
		f := j.follower(durable.Place{Chunk: 6, Number: 6, Sum: 1})
		if numbers, err := j.until(f, lostAfter-time.Second); err != nil || len(numbers) > 0 {
			t.Fatalf("%v, %v, want neither events nor an error yet", numbers, err)
		}
		j.store.(*memory.Client).Cut(true)
		if numbers, err := j.until(f, time.Second); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("%v, %v, want an error, because the store does not answer", numbers, err)
		}
		j.store.(*memory.Client).Cut(false)
		if numbers, err := j.until(f, lostAfter-time.Second); err != nil || len(numbers) > 0 {
			t.Fatalf("%v, %v, want neither events nor an error: the wait begins again", numbers, err)
		}
		if _, err := j.until(f, 2*time.Second); !errors.Is(err, durable.ErrBeyond) {
			t.Errorf("%v, want an error that the place is behind the journal's end", err)
		}
		f = j.follower(durable.Place{Chunk: 6, Number: 6}) // a program without sums has read one event more
		if numbers, err := j.until(f, lostAfter-time.Second); err != nil || len(numbers) > 0 {
			t.Fatalf("%v, %v, want neither events nor an error yet", numbers, err)
		}
		j.record(2)
		if numbers, err := j.until(f, time.Minute); err != nil || !slices.Equal(numbers, []uint64{7}) {
			t.Errorf("%v, %v, want 7, which the stale answers lacked", numbers, err)
		}
	})
}

// A led store has a leader that knows which record was written last.
type led struct {
	store.Shards
	leader store.Shards
}

func (l led) Latest(ctx context.Context, s store.Shard) (latest store.Revision, err error) {
	for {
		page, err := l.leader.List(ctx, s, latest)
		if err != nil || len(page) == 0 {
			return latest, err
		}
		latest = page[len(page)-1].Revision
	}
}

// TestReplicaBehindTheFollower: a replica that lacks events that a follower has read does not end
// the follower, however long the replica lags.
func TestReplicaBehindTheFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournaled(t, durable.Journal{})
		j.record(5)
		j.server.Lag(20)
		j.record(2)
		_, last, err := j.read(durable.Place{})
		if err != nil || last.Number != 7 {
			t.Fatalf("read up to %v, %v, want 7", last, err)
		}
		behind := j.server.Client()
		behind.Fault(func(memory.Op) memory.Fault { return memory.Fault{Follower: true} })
		f := j.follower(last)
		f.Store = led{behind.Shards(), j.store.Shards()}
		if numbers, err := j.until(f, time.Minute); err != nil || len(numbers) > 0 {
			t.Fatalf("%v, %v, want that the follower waits", numbers, err)
		}
		j.server.Lag(0)
		j.record(1)
		if numbers, err := j.until(f, time.Minute); err != nil || !slices.Equal(numbers, []uint64{8}) {
			t.Errorf("%v, %v, want 8", numbers, err)
		}
	})
}
