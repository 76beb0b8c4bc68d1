package durablehost

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// alone is a process with a shard that no coordinator places.
type alone struct {
	*Shard
	p    *process
	may  atomic.Bool
	lost chan error
}

func newAlone(t *testing.T, server *memory.Server, node int) *alone {
	a := &alone{lost: make(chan error, 10)}
	a.may.Store(true)
	s, p := newShard(t, server.Client().Shards(), node, durable.Limits{})
	s.cfg.Alone = &Alone{May: a.may.Load, Lost: func(err error) { a.lost <- err }}
	a.Shard, a.p = s, p
	return a
}

// TestAloneOverFullRestarts: a full restart begins the epochs of placements at 1 again, but a new
// claim still gets an epoch above all in the store.
func TestAloneOverFullRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		before, last := "", uint64(0)
		for node, state := range []string{"a", "b", "c"} {
			s := newAlone(t, server, node+1)
			s.Open(1)
			tenure := tenureOf(t, s.Shard)
			if got := get(t, tenure, "singleton"); got != before {
				t.Errorf("process %d finds %q, want %q", node, got, before)
			}
			if got := tenure.Epoch(); got <= last {
				t.Errorf("process %d claimed under %d, after %d", node, got, last)
			}
			set(t, tenure, "singleton", state)
			before, last = state, tenure.Epoch()
			if len(s.p.above) > 0 {
				t.Errorf("process %d asked a coordinator for terms above %v", node, s.p.above)
			}
			s.p.end()
		}
	})
}

// TestAloneGoesAboveOperators: shardctl writes under an epoch with one of the coordinator's terms.
// A later claim takes a higher epoch.
func TestAloneGoesAboveOperators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		s := newAlone(t, server, 1)
		s.Open(1)
		set(t, tenureOf(t, s.Shard), "singleton", "broken")
		s.p.end()
		operator, _ := newShard(t, server.Client().Shards(), 2, durable.Limits{})
		operator.Open(anEpoch + 1)
		set(t, tenureOf(t, operator), "singleton", "repaired")
		if err := operator.Leave(within(t, time.Minute), anEpoch+1); err != nil {
			t.Fatal(err)
		}
		next := newAlone(t, server, 3)
		next.Open(1)
		if got := get(t, tenureOf(t, next.Shard), "singleton"); got != "repaired" {
			t.Errorf("the new home finds %q, want what the operator wrote", got)
		}
	})
}

// TestAloneGoesAboveTheLog: the store was restored to an older state while a process ran. That
// process claimed again in the log, and appended what it had in memory, so the log has a claim far
// above the head's epoch. A new process opens the shard with what the log has, and ends the former
// process's tenure.
func TestAloneGoesAboveTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		shards := server.Client().Shards()
		s := newAlone(t, server, 1)
		s.Open(1)
		set(t, tenureOf(t, s.Shard), "singleton", "1")
		s.p.end()
		older, err := shards.Head(t.Context(), account)
		if err != nil {
			t.Fatal(err)
		}
		former, _ := newShard(t, shards, 2, durable.Limits{})
		former.Open(anEpoch + 1)
		old := tenureOf(t, former)
		set(t, old, "singleton", "2")
		now, err := shards.Head(t.Context(), account)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := shards.SetHead(t.Context(), account, store.Head{Revision: now.Revision, Since: older.Since, Value: older.Value}); err != nil {
			t.Fatal(err)
		}
		next := newAlone(t, server, 3)
		next.Open(1)
		synctest.Wait()
		time.Sleep(staleAfter)
		synctest.Wait()
		tenure := next.Current()
		if tenure == nil {
			t.Fatalf("the shard is not open %v after its claim met a higher epoch in the log", staleAfter)
		}
		if got := get(t, tenure, "singleton"); got != "2" {
			t.Errorf("it finds %q, want 2", got)
		}
		if tenure.Epoch() <= old.Epoch() {
			t.Errorf("it claimed under %d, want above %d", tenure.Epoch(), old.Epoch())
		}
		ticket, err := old.Commit(&durable.Turn{Entity: "singleton", State: []byte("late")})
		if err != nil {
			t.Fatal(err)
		}
		if err := old.Wait(within(t, time.Minute), ticket); !errors.Is(err, ErrInDoubt) {
			t.Errorf("the former home's commit ended with %v, want ErrInDoubt", err)
		}
		set(t, tenure, "singleton", "3")
	})
}

// TestAloneIsTakenAndComesBack: a home learns that another home has claimed its shard. It claims
// again later, but only if Alone.May allows that.
func TestAloneIsTakenAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		a, b := newAlone(t, server, 1), newAlone(t, server, 2)
		a.Open(1)
		set(t, tenureOf(t, a.Shard), "singleton", "1")
		b.Open(1)
		set(t, tenureOf(t, b.Shard), "singleton", "2")
		if _, err := a.Current().Commit(&durable.Turn{Entity: "singleton", State: []byte("late")}); err != nil {
			t.Fatal(err)
		}
		if err := <-a.lost; err == nil {
			t.Error("no reason")
		}
		if a.Current() != nil {
			t.Error("the former home still has the shard")
		}
		a.may.Store(false)
		b.Close()
		b.p.end()
		time.Sleep(3 * staleAfter)
		if a.Current() != nil {
			t.Error("a process that may not have the shard has claimed it")
		}
		a.may.Store(true)
		time.Sleep(2 * staleAfter)
		if got := get(t, tenureOf(t, a.Shard), "singleton"); got != "2" {
			t.Errorf("it finds %q, want 2", got)
		}
		a.Close()
		select {
		case err := <-a.lost:
			t.Errorf("a shard that was given up is reported as lost: %v", err)
		default:
		}
	})
}

// TestAloneClaimsNothingAfterTheEnd: a process that has ended does not claim the shard again.
func TestAloneClaimsNothingAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		a, b := newAlone(t, server, 1), newAlone(t, server, 2)
		a.Open(1)
		set(t, tenureOf(t, a.Shard), "singleton", "1")
		b.Open(1)
		set(t, tenureOf(t, b.Shard), "singleton", "2")
		if _, err := a.Current().Commit(&durable.Turn{Entity: "singleton", State: []byte("late")}); err != nil {
			t.Fatal(err)
		}
		<-a.lost
		asked := false
		a.mu.Lock()
		a.cfg.Alone.May = func() bool { asked = true; return true }
		a.mu.Unlock()
		a.p.end()
		time.Sleep(3 * staleAfter)
		a.mu.Lock()
		defer a.mu.Unlock()
		if asked || a.here || a.tenure != nil {
			t.Error("it was about to claim the shard")
		}
	})
}

// TestAloneStartsAboveItsFormerTenure: the process's former tenure was dropped before it learned
// that its head was written. A lagging replica then shows the next tenure no head.
func TestAloneStartsAboveItsFormerTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		server.Lag(10)
		client := server.Client()
		client.Fault(func(op memory.Op) memory.Fault {
			if op.Name == "set head" {
				return memory.Fault{Loss: memory.LoseAnswer}
			}
			return memory.Fault{}
		})
		s, _ := newShard(t, client.Shards(), 1, durable.Limits{})
		s.cfg.Alone = &Alone{May: func() bool { return true }, Lost: func(error) {}}
		s.Open(1)
		synctest.Wait()
		head, err := server.Client().Shards().Head(context.Background(), account)
		if err != nil || head.Revision == 0 {
			t.Fatalf("head %+v, %v: want that it is written", head, err)
		}
		stale := true // the next reading of the head
		client.Fault(func(op memory.Op) memory.Fault {
			defer func() { stale = stale && op.Name != "head" }()
			return memory.Fault{Follower: stale && op.Name == "head"}
		})
		s.Open(2)
		if got := tenureOf(t, s).Epoch(); got != 2 {
			t.Errorf("claimed under %d, want 2", got)
		}
	})
}

// TestTellsOfALaterLife: when the type of a singleton is deleted and used again, its epochs begin
// with 1, but the numbers of its tells are above all that receivers have seen.
func TestTellsOfALaterLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := uint64(0)
		for life := range 3 {
			s := newAlone(t, memory.New(), 1)
			told := make(chan durable.Tell, 10)
			s.p.mu.Lock()
			s.p.tells = func(tell durable.Tell) bool {
				told <- tell
				return true
			}
			s.p.mu.Unlock()
			s.Open(1)
			tenure := tenureOf(t, s.Shard)
			if _, err := tenure.Load(within(t, time.Minute), "singleton"); err != nil {
				t.Fatal(err)
			}
			for range 3 - life {
				tell := durable.Tell{Target: durable.Target{Log: "Stock", Shard: 65}, Entity: "tea"}
				if _, err := tenure.Commit(&durable.Turn{Entity: "singleton", State: []byte("tells"), Tells: []durable.Tell{tell}}); err != nil {
					t.Fatal(err)
				}
				if tell = <-told; tell.Number <= last {
					t.Fatalf("life %d: a tell has number %d after %d", life, tell.Number, last)
				}
				last = tell.Number
			}
			s.p.end()
			time.Sleep(time.Millisecond)
		}
	})
}
