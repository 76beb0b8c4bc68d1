package durablehost

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// wantAhead checks how far a clock is ahead of this process.
func wantAhead(t *testing.T, what string, c *Clock, want time.Duration, known bool) {
	t.Helper()
	now, ok := c.Now()
	if got := time.Until(now).Round(time.Millisecond); got != want || ok != known {
		t.Errorf("%s: ahead by %v, known %v; want %v, %v", what, got, ok, want, known)
	}
}

func ask(t *testing.T, c *Clock) time.Duration {
	t.Helper()
	set, err := c.Ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		server.SetAhead(-time.Hour)
		client := server.Client()
		c := NewClock(client)
		client.Cut(true)
		if _, err := c.Ask(t.Context()); err == nil {
			t.Error("the store was asked without a connection: got no error")
		}
		wantAhead(t, "before the first answer", c, 0, false)
		client.Cut(false)
		ask(t, c)
		wantAhead(t, "after it", c, -time.Hour, true)
		time.Sleep(time.Minute)
		wantAhead(t, "a minute later", c, -time.Hour, true)

		client.Fault(func(memory.Op) memory.Fault { return memory.Fault{Answer: 300 * time.Millisecond} })
		ask(t, c)
		wantAhead(t, "after a slow answer", c, -time.Hour, true)
		client.Fault(nil)

		server.SetAhead(time.Hour)
		for _, want := range []time.Duration{0, 0, 2 * time.Hour, 0} {
			if set := ask(t, c).Round(time.Millisecond); set != want {
				t.Errorf("set by %v, want %v", set, want)
			}
		}
		wantAhead(t, "after the store's clock was set", c, time.Hour, true)
	})
}

// TestAheadIsCertain: an answer that took long is no reason to say that a clock is wrong.
func TestAheadIsCertain(t *testing.T) {
	for _, wrong := range []time.Duration{0, time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			server := memory.New()
			server.SetAhead(-wrong)
			client := server.Client()
			client.Fault(func(memory.Op) memory.Fault { return memory.Fault{Answer: 2 * time.Second} })
			c := NewClock(client)
			if got := c.Ahead(time.Now()); got != 0 {
				t.Errorf("before the first answer: got %v, want 0", got)
			}
			ask(t, c)
			if got := c.Ahead(time.Now()); (got-wrong).Abs() > 2*time.Second || wrong == 0 && got != 0 {
				t.Errorf("wrong by %v: got %v", wrong, got)
			}
		})
	}
}

// TestTenuresTimeIsCheap: reading a tenure's time allocates nothing: each call does it.
func TestTenuresTimeIsCheap(t *testing.T) {
	c, l := NewClock(memory.New().Client()), lineClock{}
	ask(t, c)
	l.now(c)
	if n := testing.AllocsPerRun(100, func() { l.now(c) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// TestClockOfAStoreWithout: if the store has no clock, a Clock returns the process's time, as
// known.
func TestClockOfAStoreWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(struct{ store.Backend }{memory.New().Client()})
		ask(t, c)
		time.Sleep(time.Hour)
		wantAhead(t, "after an hour", c, 0, true)
		c.Run(t.Context(), slog.New(slog.DiscardHandler)) // returns at once
	})
}

// TestClockRuns: the store is asked every second until it answers, and then every 30 s.
func TestClockRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New().Client()
		var asked atomic.Int32
		client.Fault(func(memory.Op) memory.Fault {
			asked.Add(1)
			return memory.Fault{}
		})
		want := func(what string, after time.Duration, n int32) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := asked.Swap(0); got != n {
				t.Errorf("%s: asked %d times, want %d", what, got, n)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		c := NewClock(client)
		ended := make(chan struct{})
		client.Cut(true)
		go func() {
			defer close(ended)
			c.Run(ctx, slog.New(slog.DiscardHandler))
		}()
		want("without a connection", 9500*time.Millisecond, 10)
		client.Cut(false)
		want("with one", time.Second, 1)
		want("after the first answer", 5*time.Minute, 10)
		client.Cut(true)
		want("without a connection again", 5*time.Minute, 10)
		cancel()
		<-ended
	})
}

// timed returns a tenure that uses the clock of a store.
func timed(t *testing.T, client *memory.Client, node string) *Tenure {
	t.Helper()
	c := NewClock(client)
	ask(t, c)
	p := newProcess(t)
	sh := New(Config{Shard: account, Store: client.Shards(), Node: node, Incarnation: uint64(len(node)), Patience: time.Second, Host: p, Clock: c})
	t.Cleanup(sh.Close)
	sh.Open(uint64(len(node)))
	return tenureOf(t, sh)
}

// TestExpiryByTheStoresClock: an entity expires by the store's clock, at homes whose own clocks are
// ahead of it or behind.
func TestExpiryByTheStoresClock(t *testing.T) {
	for _, ahead := range []time.Duration{-48 * time.Hour, 48 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			server := memory.New()
			server.SetAhead(ahead)
			tenure := timed(t, server.Client(), "a")
			if _, err := tenure.Load(t.Context(), "e"); err != nil {
				t.Fatal(err)
			}
			ticket, err := tenure.Commit(&durable.Turn{Entity: "e", State: []byte("1"), Expires: tenure.Expiry(time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			if err := tenure.Wait(t.Context(), ticket); err != nil {
				t.Fatal(err)
			}
			tenure.Passivated("e")
			time.Sleep(59 * time.Minute)
			if got := get(t, tenure, "e"); got != "1" {
				t.Errorf("store ahead by %v: before the time: got %q, want %q", ahead, got, "1")
			}
			tenure.Passivated("e")
			next := timed(t, server.Client(), "bb")
			if got := get(t, next, "e"); got != "1" {
				t.Errorf("store ahead by %v: at the next home: got %q, want %q", ahead, got, "1")
			}
			next.Passivated("e")
			time.Sleep(2 * time.Minute)
			if got := get(t, next, "e"); got != "" {
				t.Errorf("store ahead by %v: after the time: got %q, want nothing", ahead, got)
			}
		})
	}
}

// TestStoresClockIsSet: when the store's clock is set, a tenure goes on, and its time does not
// jump. Nothing expires too early by either clock.
func TestStoresClockIsSet(t *testing.T) {
	t.Run("back", func(t *testing.T) { testClockIsSet(t, -time.Hour, 10*time.Minute, 20*time.Minute) })
	t.Run("forward", func(t *testing.T) { testClockIsSet(t, time.Hour, -55*time.Minute, -45*time.Minute) })
}

// testClockIsSet sets the store's clock forward or back. After 90 minutes, it expects the tenure's
// time to be ahead of the store's by least to most.
func testClockIsSet(t *testing.T, by, least, most time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		client := server.Client()
		tenure := timed(t, client, "a")
		var last, was time.Time
		for i := range 100 {
			if i == 10 {
				server.SetAhead(by)
			}
			ask(t, tenure.shard.cfg.Clock)
			if i%7 == 0 { // the next append is tried again, by the tenure's timer
				lost := 0
				client.Fault(func(op memory.Op) memory.Fault {
					if op.Name != "append" || lost > 2 {
						return memory.Fault{}
					}
					lost++
					return memory.Fault{Loss: memory.LoseRequest}
				})
			}
			began := time.Now()
			set(t, tenure, "e", "1")
			if took := time.Since(began); took > 3*time.Second {
				t.Fatalf("commit %d took %v", i, took)
			}
			tenure.look(func(now time.Time) {
				if passed := now.Sub(last); !last.IsZero() && (passed < 0 || passed > time.Since(was)*11/10) {
					t.Errorf("%v passed in %v", passed, time.Since(was))
				}
				last, was = now, time.Now()
			})
			clock, _ := tenure.shard.cfg.Clock.Now()
			if at := tenure.Expiry(time.Minute); tenure.Expired(at) || at < clock.Add(time.Minute).UnixMilli() {
				t.Errorf("a commit expires too early, at %d", at)
			}
			time.Sleep(time.Minute)
		}
		clock, _ := tenure.shard.cfg.Clock.Now()
		if off := last.Add(time.Since(was)).Sub(clock); off < least || off > most {
			t.Errorf("the tenure is ahead by %v after 90 min, want %v to %v", off, least, most)
		}
	})
}
