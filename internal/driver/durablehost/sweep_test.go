package durablehost

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// records returns the number of entities' records in a shard.
func records(t *testing.T, s store.Shards) (n int) {
	t.Helper()
	for after := store.None; ; {
		page, err := s.List(within(t, 20*time.Second), account, after)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return n
		}
		for _, r := range page {
			after = r.Revision
			if strings.HasPrefix(r.Key, "e") {
				n++
			}
		}
	}
}

// fill commits n entities and writes their records. Every third entity never expires.
func fill(t *testing.T, s *Shard, n int, ttl time.Duration) {
	t.Helper()
	tenure, ctx := tenureOf(t, s), within(t, 5*time.Minute)
	for i := range n {
		turn := durable.Turn{Entity: fmt.Sprint("a", i), State: []byte("1")}
		if i%3 != 0 {
			turn.Expires = time.Now().Add(ttl).UnixMilli()
		}
		if _, err := tenure.Load(ctx, turn.Entity); err != nil {
			t.Fatal(err)
		}
		ticket, err := tenure.Commit(&turn)
		if err == nil && (i%64 == 0 || i == n-1) {
			err = tenure.Wait(ctx, ticket)
		}
		if err != nil {
			t.Fatal(err)
		}
		tenure.Passivated(turn.Entity)
	}
	if err := s.Leave(ctx, anEpoch+1); err != nil {
		t.Fatal(err)
	}
}

func newSweeping(t *testing.T, s store.Shards, node int, w Sweep) *Shard {
	w.On = true
	sh := New(Config{
		Shard: account, Store: s, Node: fmt.Sprintf("n%d", node), Incarnation: uint64(node),
		Patience: 5 * time.Second, Host: newProcess(t), Sweep: w,
	})
	t.Cleanup(sh.Close)
	return sh
}

// TestSweep: records of expired entities are deleted although no calls come, and other records
// stay. Each sweep begins Rest after the last one.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		s := server.Client().Shards()
		first, _ := newShard(t, s, 1, durable.Limits{})
		first.Open(anEpoch + 1)
		const n = 999 // more than one page of deletions
		fill(t, first, n, 10*time.Minute)
		second := newSweeping(t, s, 2, Sweep{})
		second.Open(anEpoch + 2)
		tenure := tenureOf(t, second)
		time.Sleep(30 * time.Minute)
		if got := records(t, s); got != n {
			t.Errorf("%d records before the second walk, want %d", got, n)
		}
		set(t, tenure, "a1", "2") // is activated again, and does not expire
		time.Sleep(time.Hour)
		if got := records(t, s); got != n/3+1 {
			t.Errorf("%d records are left, want %d", got, n/3+1)
		}
		for id, want := range map[string]string{"a0": "1", "a1": "2", "a2": ""} {
			if got := get(t, tenure, id); got != want {
				t.Errorf("%s has %q, want %q", id, got, want)
			}
		}
	})
}

// TestSweepReadsAPageAtATime: in each Pause, only one of all shards of a process reads a page.
func TestSweepReadsAPageAtATime(t *testing.T) {
	var s sweeps
	now := time.Now()
	if !s.begin(now) || s.begin(now) {
		t.Error("two pages are read at once, or none")
	}
	s.end(time.Hour)
	if s.begin(now.Add(59*time.Minute)) || !s.begin(time.Now().Add(time.Hour)) {
		t.Error("the pause is not kept")
	}
}

// TestSweepJetStream is TestSweep on a real server.
func TestSweepJetStream(t *testing.T) {
	s := jetStream(t)
	first, _ := newShard(t, s, 1, durable.Limits{})
	first.Open(anEpoch + 1)
	const n = 600
	fill(t, first, n, time.Second)
	if got := records(t, s); got != n {
		t.Fatalf("%d records, want %d", got, n)
	}
	second := newSweeping(t, s, 2, Sweep{First: time.Millisecond, Pause: time.Millisecond, Rest: time.Millisecond})
	second.Open(anEpoch + 2)
	tenure := tenureOf(t, second)
	for ctx := within(t, time.Minute); records(t, s) != n/3; {
		select {
		case <-ctx.Done():
			t.Fatalf("%d records are left, want %d", records(t, s), n/3)
		case <-time.After(50 * time.Millisecond):
		}
	}
	third, _ := newShard(t, s, 3, durable.Limits{})
	third.Open(anEpoch + 3)
	if got := get(t, tenureOf(t, third), "a3"); got != "1" {
		t.Errorf("a3 has %q, want 1", got)
	}
	if got := get(t, tenureOf(t, third), "a1"); got != "" {
		t.Errorf("a1 has %q, want nothing", got)
	}
	_ = tenure
}

// TestSweepOfForgotten: an ended entity leaves a record with the idempotency keys of its commands.
// The record is deleted when these keys are a day old, even if the type has no ttl.
func TestSweepOfForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New().Client().Shards()
		first, _ := newShard(t, s, 1, durable.Limits{})
		first.Open(anEpoch + 1)
		tenure := tenureOf(t, first)
		for i, id := range []string{"forgotten", "lives"} {
			if _, err := tenure.Load(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			c := commandOf(ID{Key: "k"}, 7, id, "Leave", nil)
			if _, err := tenure.Commit(&durable.Turn{Entity: id, State: []byte("1"), Ended: i == 0, Command: &c}); err != nil {
				t.Fatal(err)
			}
		}
		if err := first.Leave(t.Context(), anEpoch+1); err != nil {
			t.Fatal(err)
		}
		second := newSweeping(t, s, 2, Sweep{First: time.Hour, Rest: 24 * time.Hour})
		second.Open(anEpoch + 2)
		tenureOf(t, second)
		time.Sleep(23 * time.Hour)
		if got := records(t, s); got != 2 {
			t.Fatalf("%d records while the keys are kept, want 2", got)
		}
		time.Sleep(4 * time.Hour)
		if got := records(t, s); got != 1 {
			t.Errorf("%d records, want only that of the entity that has not ended", got)
		}
	})
}
