package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

var shard = store.Shard{Type: "T", Number: 1}

func TestFaultsOfShards(t *testing.T) {
	const appended, put = 1, 2
	for _, test := range []struct {
		name    string
		fault   memory.Fault
		want    error
		done    int // how many are done of the append and the two changes
		between func(*memory.Server)
	}{
		{name: "none", done: appended + put},
		{name: "cut", fault: memory.Fault{Loss: memory.LoseConnection}, want: store.ErrUnavailable},
		{name: "request lost", fault: memory.Fault{Loss: memory.LoseRequest}, want: store.ErrUncertain},
		{name: "answer lost", fault: memory.Fault{Loss: memory.LoseAnswer}, want: store.ErrUncertain, done: appended + put},
		{name: "half done", fault: memory.Fault{Loss: memory.LoseHalf}, want: store.ErrUncertain, done: 1},
		{name: "busy", fault: memory.Fault{Busy: true}, want: store.ErrBusy},
		{name: "late", fault: memory.Fault{Loss: memory.LoseTouch, Late: time.Minute}, want: store.ErrUncertain},
		{
			name: "late, and there", fault: memory.Fault{Loss: memory.LoseTouch, Late: time.Minute}, want: store.ErrUncertain, done: appended + put,
			between: func(*memory.Server) { time.Sleep(time.Minute) },
		},
		{
			name: "late, and restarted", fault: memory.Fault{Loss: memory.LoseTouch, Late: time.Minute}, want: store.ErrUncertain,
			between: func(s *memory.Server) { s.Stop(); s.Start(0); time.Sleep(time.Minute) },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := memory.New()
				c, other := server.Client(), server.Client().Shards()
				head, err := other.SetHead(t.Context(), shard, store.Head{})
				if err != nil {
					t.Fatal(err)
				}
				c.Fault(func(memory.Op) memory.Fault { return test.fault })
				_, err = c.Shards().Append(t.Context(), shard, store.Start, []byte("a"))
				if !errors.Is(err, test.want) {
					t.Errorf("append: got %v, want %v", err, test.want)
				}
				_, err = c.Shards().Put(t.Context(), shard, head, []store.Change{{ID: "x", Value: []byte("x")}, {ID: "y", Value: []byte("y")}})
				if !errors.Is(err, test.want) {
					t.Errorf("put: got %v, want %v", err, test.want)
				}
				if test.between != nil {
					test.between(server)
				}
				list, err := other.List(t.Context(), shard, store.None)
				if err != nil {
					t.Fatal(err)
				}
				done := len(list)
				if _, err := other.Append(t.Context(), shard, store.Start, []byte("b")); errors.Is(err, store.ErrConflict) {
					done += appended
				}
				if done != test.done {
					t.Errorf("%d writes were done, want %d", done, test.done)
				}
			})
		})
	}
}

// TestPowerCut: a machine that stops before its writes are on disk loses only the last writes.
func TestPowerCut(t *testing.T) {
	server := memory.New()
	c := server.Client().Shards()
	var at []store.Position
	last := store.Start
	for i := range memory.MaxUnsynced + 10 {
		p, err := c.Append(t.Context(), shard, last, fmt.Append(nil, i))
		if err != nil {
			t.Fatal(err)
		}
		at, last = append(at, p), p
	}
	server.Stop()
	if _, err := c.Read(t.Context(), shard, at[0], last); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("read of a server that has stopped: %v", err)
	}
	server.Start(3)
	if _, err := c.Append(t.Context(), shard, last, nil); !errors.Is(err, store.ErrConflict) {
		t.Errorf("append after a lost append: %v", err)
	}
	left := len(at) - 3
	if got, err := c.Read(t.Context(), shard, at[0], at[left-1]); err != nil || len(got) != left {
		t.Errorf("%d appends are left (%v), want %d", len(got), err, left)
	}
	if p, err := c.Append(t.Context(), shard, at[left-1], nil); err != nil || p != at[left] {
		t.Errorf("appended at %d (%v), want the position %d again", p, err, at[left])
	}
	server.Stop()
	server.Start(10 * memory.MaxUnsynced)
	if got, err := c.Read(t.Context(), shard, at[0], at[left-1]); err != nil || len(got) != left {
		t.Errorf("%d appends are left (%v), want the %d that were read from the disk before", len(got), err, left)
	}
}

// TestLag: a read from a lagging replica shows an older state, unless it requires a later revision.
func TestLag(t *testing.T) {
	server := memory.New()
	home, reader := server.Client().Shards(), server.Client()
	reader.Fault(func(memory.Op) memory.Fault { return memory.Fault{Follower: true} })
	first, err := home.SetHead(t.Context(), shard, store.Head{})
	if err != nil {
		t.Fatal(err)
	}
	server.Lag(1)
	second, err := home.SetHead(t.Context(), shard, store.Head{Revision: first})
	if err != nil {
		t.Fatal(err)
	}
	for atLeast, want := range map[store.Revision]store.Revision{store.None: first, first: first, second: second} {
		got, _, err := reader.Shards().Get(t.Context(), shard, nil, atLeast)
		if err != nil || got.Revision != want {
			t.Errorf("read at least at %d: head of %d (%v), want %d", atLeast, got.Revision, err, want)
		}
	}
	if got, err := reader.Shards().Head(t.Context(), shard); err != nil || got.Revision != first {
		t.Errorf("head of revision %d (%v), want the old one of revision %d", got.Revision, err, first)
	}
	if _, _, err := reader.Shards().Get(t.Context(), shard, nil, second+1); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("read at a revision that does not exist: %v", err)
	}
}

// TestSameSeedSameRun: in a simulation's time, the same seed gives the same run.
func TestSameSeedSameRun(t *testing.T) {
	run := func(seed uint64) (trace string) {
		now := time.Unix(0, 0)
		random := rand.New(rand.NewPCG(seed, 0))
		server := memory.NewAt(func() time.Time { return now })
		c := server.Client()
		c.Fault(memory.Trouble{
			Cut: 0.1, RequestLost: 0.1, AnswerLost: 0.1, ArrivesLate: 0.1, HalfDone: 0.1, Busy: 0.1, Stale: 0.3,
			LongestDelay: time.Hour, LongestAnswer: time.Hour, Latest: time.Second,
		}.Faults(random))
		var head store.Head
		var last store.Position
		for i := range 300 {
			now = now.Add(time.Duration(random.IntN(500)) * time.Millisecond)
			server.Lag(random.IntN(5))
			p, err := c.Shards().Append(t.Context(), shard, last, nil)
			if err == nil {
				last = p
			}
			got, readErr := c.Shards().Head(t.Context(), shard)
			if readErr == nil {
				head.Revision = got.Revision
			}
			_, headErr := c.Shards().SetHead(t.Context(), shard, head)
			_, putErr := c.Shards().Put(t.Context(), shard, head.Revision, []store.Change{{ID: fmt.Sprint(i % 7), Value: []byte("v")}, {ID: "x"}})
			trace += fmt.Sprintln(p, err, got.Revision, readErr, headErr, putErr)
		}
		return trace
	}
	first := run(1)
	if first != run(1) {
		t.Error("two runs of one seed differ")
	}
	if first == run(2) {
		t.Error("runs of two seeds are the same")
	}
}

// TestGivenUpOnTheWay: a write that its caller gives up while it is on its way has an uncertain
// outcome. Its late arrival does no harm.
func TestGivenUpOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		c := server.Client()
		c.Fault(func(memory.Op) memory.Fault { return memory.Fault{Answer: time.Minute} })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Shards().Append(ctx, shard, store.Start, nil); !errors.Is(err, store.ErrUncertain) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, store.ErrUncertain)
		}
		c.Fault(nil)
		if _, err := c.Shards().Append(t.Context(), shard, store.Start, nil); !errors.Is(err, store.ErrConflict) {
			t.Errorf("the same write again: got %v, want %v", err, store.ErrConflict)
		}
	})
}
