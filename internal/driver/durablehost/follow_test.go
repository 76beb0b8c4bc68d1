package durablehost

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// A journaled has a shard with a journal. Its events are so large that each has its own chunk.
type journaled struct {
	t      *testing.T
	server *memory.Server
	store  store.Backend
	tenure *Tenure
	events int
}

func newJournaled(t *testing.T, j durable.Journal) *journaled {
	server := memory.New()
	s := server.Client()
	j.On = true
	sh := New(Config{
		Shard: account, Store: s.Shards(), Records: s, Node: "n1", Incarnation: 1, Patience: time.Second, Host: newProcess(t), Journal: j,
	})
	t.Cleanup(sh.Close)
	sh.Open(anEpoch + 1)
	return &journaled{t: t, server: server, store: s, tenure: tenureOf(t, sh)}
}

// record commits n events, one a second.
func (j *journaled) record(n int) {
	j.t.Helper()
	for range n {
		ctx := within(j.t, time.Minute)
		if _, err := j.tenure.Load(ctx, "alice"); err != nil {
			j.t.Fatal(err)
		}
		ticket, err := j.tenure.Commit(&durable.Turn{Entity: "alice", State: []byte("s"), Events: [][]byte{bytes.Repeat([]byte("e"), 20<<10)}})
		if err == nil {
			err = j.tenure.Wait(ctx, ticket)
		}
		if err != nil {
			j.t.Fatal(err)
		}
		j.events++
		time.Sleep(time.Second)
	}
}

// read reads all events after a place.
func (j *journaled) read(at durable.Place) (numbers []uint64, last durable.Place, err error) {
	j.t.Helper()
	f := NewFollower(j.store.Shards(), account.Type, account.Number)
	f.Places[0] = at
	f.Places = f.Places[:account.Number] // shard numbers begin with their count: this is the first
	for {
		events, err := f.poll(within(j.t, time.Minute), 0)
		if err != nil || len(events) == 0 {
			return numbers, f.Places[0], err
		}
		for _, e := range events {
			numbers = append(numbers, e.Place.Number)
			f.Read(0, e)
		}
	}
}

// oldest checks that want is the oldest kept event, and that all later events exist.
func (j *journaled) oldest(want int) {
	j.t.Helper()
	numbers, _, err := j.read(durable.Place{})
	if err != nil || len(numbers) == 0 || numbers[0] != uint64(want) || len(numbers) != j.events-want+1 {
		j.t.Errorf("events %v of %d are kept (%v), want those from %d on", numbers, j.events, err, want)
	}
}

// follow records that a named follower has read up to an event, which is alone in its chunk.
func (j *journaled) follow(name string, event uint64) {
	j.t.Helper()
	j.followAt(name, durable.Place{Chunk: event, Number: event})
}

// followAt records that a named follower is at a place.
func (j *journaled) followAt(name string, place durable.Place) {
	j.t.Helper()
	places := make([]durable.Place, account.Number)
	places[0] = place
	_, revision, err := LoadFollowed(j.t.Context(), j.store, account.Type, name)
	if err == nil {
		_, err = SaveFollowed(j.t.Context(), j.store, account.Type, name, Followed{Places: places}, revision)
	}
	if err != nil {
		j.t.Fatal(err)
	}
	time.Sleep(2 * followersPeriod) // until the home has checked the followers again
}

// TestEventsAreKept: events are kept as long as the type says: for good, by age, by number, or
// until the slowest named follower has read them.
func TestEventsAreKept(t *testing.T) {
	for name, tt := range map[string]struct {
		journal durable.Journal
		run     func(j *journaled)
	}{
		"all": {durable.Journal{}, func(j *journaled) {
			j.record(20)
			time.Sleep(time.Hour)
			j.record(1)
			j.oldest(1)
		}},
		"by age": {durable.Journal{Age: 10 * time.Second}, func(j *journaled) {
			j.record(10)
			j.oldest(1)
			j.record(10) // the newest is a second old
			j.oldest(11)
			time.Sleep(time.Minute)
			j.oldest(20) // the last chunk stays, because it has the number of the last event
		}},
		"by number": {durable.Journal{Events: 5}, func(j *journaled) {
			j.record(5)
			j.oldest(1)
			j.record(15)
			j.oldest(16)
			time.Sleep(time.Hour)
			j.oldest(16)
		}},
		"while nobody follows": {durable.Journal{Followers: true}, func(j *journaled) {
			j.record(20)
			time.Sleep(time.Hour)
			j.oldest(1)
		}},
		"for the slowest follower": {durable.Journal{Followers: true}, func(j *journaled) {
			j.record(20)
			j.follow("fast", 19)
			j.oldest(19)
			j.record(10)
			j.follow("slow", 25) // a new follower
			j.follow("fast", 30)
			j.oldest(25)
			j.follow("slow", 30)
			j.oldest(30)
		}},
		"by number and for followers": {durable.Journal{Events: 5, Followers: true}, func(j *journaled) {
			j.record(20)
			j.follow("only", 3)
			j.oldest(3)
			j.follow("only", 20)
			j.oldest(16)
		}},
		"for a follower of a journal that was put back": {durable.Journal{Followers: true}, func(j *journaled) {
			j.record(2)
			j.followAt("ahead", durable.Place{Chunk: 5, Number: 5, Sum: 1})
			j.record(3) // the journal has as many events as the follower had read, but different ones
			j.oldest(1)
			j.record(5)
			j.oldest(1)
			time.Sleep(time.Hour)
			j.oldest(1)
			_, last, err := j.read(durable.Place{})
			if err != nil {
				j.t.Fatal(err)
			}
			j.followAt("ahead", last) // the follower has begun again
			j.oldest(10)
		}},
		"by age and number": {durable.Journal{Events: 5, Age: time.Hour}, func(j *journaled) {
			j.record(20)
			j.oldest(1)
			time.Sleep(70 * time.Minute)
			j.oldest(16)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { tt.run(newJournaled(t, tt.journal)) })
		})
	}
}

// TestEventsAreGone: a follower whose next events were deleted gets an error that names them. A new
// follower begins at the oldest kept event.
func TestEventsAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournaled(t, durable.Journal{Events: 5})
		j.record(2)
		_, at, err := j.read(durable.Place{})
		if err != nil || at.Number != 2 {
			t.Fatalf("read up to %v, %v, want 2", at, err)
		}
		j.record(18)
		gone := (*durable.GoneError)(nil)
		if numbers, _, err := j.read(at); !errors.As(err, &gone) || gone.Place != at || gone.Next != 16 || len(numbers) > 0 {
			t.Errorf("read %v, %v (%+v), want that 3 to 15 are gone", numbers, err, gone)
		}
		if numbers, _, err := j.read(durable.Place{Chunk: 15, Number: 15}); err != nil || len(numbers) != 5 {
			t.Errorf("behind 15: %v, %v, want 16 to 20", numbers, err)
		}
		j.oldest(16)
	})
}

// TestFollowedOfEarlierPrograms: a record without an owner, written by an earlier program, can be
// read.
func TestFollowedOfEarlierPrograms(t *testing.T) {
	s, ctx := memory.New().Client(), t.Context()
	wrote, err := s.Put(ctx, "followers/Account/billing", []byte(`{"format":1,"places":[{"Chunk":3,"Number":7}]}`), store.None)
	if err != nil {
		t.Fatal(err)
	}
	got, revision, err := LoadFollowed(ctx, s, "Account", "billing")
	want := Followed{Format: 1, Places: []durable.Place{{Chunk: 3, Number: 7}}}
	if err != nil || revision != wrote || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v at %d, %v, want %+v at %d", got, revision, err, want, wrote)
	}
	got.Owner = "n1#1/1"
	if revision, err = SaveFollowed(ctx, s, "Account", "billing", got, revision); err != nil {
		t.Fatal(err)
	}
	if back, at, err := LoadFollowed(ctx, s, "Account", "billing"); err != nil || at != revision || !reflect.DeepEqual(back, got) {
		t.Errorf("got %+v at %d, %v, want %+v at %d", back, at, err, got, revision)
	}
}

// TestFollowedSaysItsFormat: a follower's record always states its format, so that a program that
// knows only earlier formats refuses it. Otherwise that program would drop the fields that it does
// not know when it writes.
func TestFollowedSaysItsFormat(t *testing.T) {
	s, ctx := memory.New().Client(), t.Context()
	const key = "followers/Account/billing"
	revision, err := SaveFollowed(ctx, s, "Account", "billing", Followed{Places: []durable.Place{{Chunk: 3, Number: 7}}}, store.None)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Get(ctx, key)
	if want := `{"format":1,"places":[{"Chunk":3,"Number":7}]}`; err != nil || string(r.Value) != want {
		t.Errorf("stored %s, %v, want %s", r.Value, err, want)
	}
	if _, err = s.Put(ctx, key, []byte(`{"format":2,"places":[]}`), revision); err != nil {
		t.Fatal(err)
	}
	if f, _, err := LoadFollowed(ctx, s, "Account", "billing"); err == nil || !strings.Contains(err.Error(), "run the newer program") {
		t.Errorf("read %+v of a later format, %v", f, err)
	}
}

// TestFollowerOfASlowStore: a follower reads all shards, however long that takes in total, and also
// while some do not answer.
func TestFollowerOfASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournaled(t, durable.Journal{})
		j.record(1)
		j.store.(*memory.Client).Fault(func(op memory.Op) (f memory.Fault) {
			f.Delay = readWithin / 3
			return f
		})
		f := j.follower(durable.Place{})
		for range 2 {
			if _, err := f.Poll(within(t, time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		if !f.Begun() {
			t.Error("some shards were never read")
		}
		j.store.(*memory.Client).Fault(func(op memory.Op) (f memory.Fault) {
			if strings.HasSuffix(op.Key, "5") {
				f.Delay = time.Hour
			}
			return f
		})
		j.record(1)
		began := time.Now()
		if events, err := f.Poll(within(t, time.Hour)); err == nil || len(events[0]) == 0 || time.Since(began) > 3*readWithin {
			t.Errorf("%v, %v after %v: want events of shards that answer", events[0], err, time.Since(began))
		}
	})
}
