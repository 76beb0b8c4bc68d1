package durablehost

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

const anEpoch = 3 << 32

// TestNextHomeHasWhatWasAcknowledged: the next home has all acknowledged commits, from the log if
// the former home was killed, and from records if the former home has left.
func TestNextHomeHasWhatWasAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		first, killed := newShard(t, server.Client().Shards(), 1, durable.Limits{})
		first.Open(anEpoch + 1)
		set(t, tenureOf(t, first), "alice", "5")
		killed.end() // nothing is written any more

		second, _ := newShard(t, server.Client().Shards(), 2, durable.Limits{})
		second.Open(anEpoch + 2)
		tenure := tenureOf(t, second)
		if got := get(t, tenure, "alice"); got != "5" {
			t.Errorf("after a kill alice has %q, want 5", got)
		}
		set(t, tenure, "bob", "7")
		tenure.Passivated("bob")
		if err := second.Leave(within(t, time.Minute), anEpoch+2); err != nil {
			t.Fatal(err)
		}

		third, _ := newShard(t, server.Client().Shards(), 3, durable.Limits{})
		third.Open(anEpoch + 3)
		tenure = tenureOf(t, third)
		for id, want := range map[string]string{"alice": "5", "bob": "7", "carol": ""} {
			if got := get(t, tenure, id); got != want {
				t.Errorf("after a move %s has %q, want %q", id, got, want)
			}
		}
	})
}

// TestFormerHomeIsInDoubt: if another home claims the shard before a commit is acknowledged, the
// commit is in doubt at its home, and is not applied.
func TestFormerHomeIsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		client := server.Client()
		first, p := newShard(t, client.Shards(), 1, durable.Limits{})
		first.Open(anEpoch + 1)
		old := tenureOf(t, first)
		set(t, old, "alice", "5")

		client.Cut(true)
		ticket, err := old.Commit(&durable.Turn{Entity: "alice", State: []byte("6")})
		if err != nil {
			t.Fatal(err)
		}
		second, _ := newShard(t, server.Client().Shards(), 2, durable.Limits{})
		second.Open(anEpoch + 2)
		if got := get(t, tenureOf(t, second), "alice"); got != "5" {
			t.Errorf("alice has %q, want 5", got)
		}
		client.Cut(false)
		if err := old.Wait(within(t, time.Minute), ticket); !errors.Is(err, ErrInDoubt) {
			t.Errorf("the former home's commit ended with %v, want ErrInDoubt", err)
		}
		if _, err := first.Tenure(within(t, time.Minute)); !errors.Is(err, ErrNotHere) {
			t.Errorf("the former home's tenure: %v, want ErrNotHere", err)
		}
		if p.saw(durable.Ended) != 1 {
			t.Errorf("events: %v", p.events)
		}
	})
}

// TestNothingLeavesBeforeItsAppend: an answer waits until the store acknowledges its commit.
// Commits that wait at the same time are appended together.
func TestNothingLeavesBeforeItsAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		client := server.Client()
		s, _ := newShard(t, client.Shards(), 1, durable.Limits{})
		s.Open(anEpoch + 1)
		tenure := tenureOf(t, s)
		ctx := within(t, time.Hour)
		ids := []string{"a", "b", "c", "d"}
		for _, id := range ids {
			if _, err := tenure.Load(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		var appends, left atomic.Int64
		client.Fault(func(op memory.Op) memory.Fault {
			if op.Name == "append" {
				appends.Add(1)
			}
			return memory.Fault{Delay: 300 * time.Millisecond}
		})
		for _, id := range ids {
			ticket, err := tenure.Commit(&durable.Turn{Entity: id, State: []byte(id)})
			if err != nil {
				t.Fatal(err)
			}
			tenure.Then(ticket, func(err error) {
				if err != nil {
					t.Error(err)
				}
				left.Add(1)
			})
		}
		time.Sleep(299 * time.Millisecond)
		synctest.Wait()
		if left.Load() != 0 {
			t.Errorf("%d answers left before any append was acknowledged", left.Load())
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if left.Load() != 1 {
			t.Errorf("%d answers left after the first append, want 1", left.Load())
		}
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		if left.Load() != int64(len(ids)) || appends.Load() != 2 {
			t.Errorf("%d answers left after %d appends, want %d after 2", left.Load(), appends.Load(), len(ids))
		}
	})
}

// TestBrokenShardIsTriedAgain: if a shard cannot be recovered, its turns fail at once. Their error
// has the cause and the shard's name. The shard opens when the cause is gone.
func TestBrokenShardIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		raw := server.Client().Shards()
		ctx := context.Background()
		at, err := raw.SetHead(ctx, account, store.Head{Value: []byte("garbage")})
		if err != nil {
			t.Fatal(err)
		}
		s, _ := newShard(t, server.Client().Shards(), 1, durable.Limits{})
		s.Open(anEpoch + 1)
		synctest.Wait()
		_, err = s.Tenure(within(t, time.Second))
		if !errors.Is(err, ErrBroken) || !errors.Is(err, durable.ErrCorrupt) || !strings.Contains(err.Error(), "Account/70") {
			t.Errorf("got %v", err)
		}
		// The head that a first claim in a different store writes.
		other, _ := newShard(t, memory.New().Client().Shards(), 2, durable.Limits{})
		other.Open(1)
		tenureOf(t, other)
		head, err := other.cfg.Store.Head(ctx, account)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := raw.SetHead(ctx, account, store.Head{Revision: at, Value: head.Value}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		set(t, tenureOf(t, s), "alice", "5")
	})
}

// TestWaitSaysWhatTheStoreSaid: if the store does not answer a shard's claim, a caller that waits
// for the shard gets an error with the cause.
func TestWaitSaysWhatTheStoreSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New().Client()
		client.Cut(true)
		s, _ := newShard(t, client.Shards(), 1, durable.Limits{})
		s.Open(anEpoch + 1)
		_, err := s.Tenure(within(t, time.Second))
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "store unavailable") {
			t.Errorf("got %v", err)
		}
		client.Cut(false)
		tenureOf(t, s)
	})
}

// TestCommitTooLargeForTheServer: if the server's limit is lower than the configured one, the first
// commit above the server's limit ends the tenure. After that, only turns with larger commits are
// refused.
func TestCommitTooLargeForTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newShard(t, &small{Shards: memory.New().Client().Shards(), limit: 1000}, 1, durable.Limits{})
		s.Open(anEpoch + 1)
		ctx := within(t, time.Minute)
		for try := range 2 {
			tenure := tenureOf(t, s)
			if _, err := tenure.Load(ctx, "alice"); err != nil {
				t.Fatal(err)
			}
			ticket, err := tenure.Commit(&durable.Turn{Entity: "alice", State: make([]byte, 2000)})
			if try == 0 {
				if err != nil {
					t.Fatal(err)
				}
				if err := tenure.Wait(ctx, ticket); !errors.Is(err, ErrInDoubt) {
					t.Errorf("got %v", err)
				}
				time.Sleep(time.Second)
				continue
			}
			if !errors.Is(err, durable.ErrTooLarge) {
				t.Errorf("got %v", err)
			}
			set(t, tenure, "bob", "7")
		}
		if p.saw(durable.Ended) != 1 || p.saw(durable.Opened) != 2 {
			t.Errorf("events: %v", p.events)
		}
	})
}

// small is a store whose server accepts only small appends.
type small struct {
	store.Shards
	limit int
}

func (s *small) Append(ctx context.Context, sh store.Shard, expect store.Position, data []byte) (store.Position, error) {
	if err := store.CheckSize(len(data), s.limit); err != nil {
		return 0, err
	}
	return s.Shards.Append(ctx, sh, expect, data)
}

// TestIdleShardMovesItsSince: an idle shard does not keep the store from trimming the log for other
// shards.
func TestIdleShardMovesItsSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newShard(t, memory.New().Client().Shards(), 1, durable.Limits{})
		s.Open(anEpoch + 1)
		set(t, tenureOf(t, s), "alice", "5")
		time.Sleep(2 * time.Minute)
		if n := p.saw(durable.Checkpointed); n != 1 {
			t.Errorf("%d checkpoints after two minutes, want 1", n)
		}
		time.Sleep(time.Hour)
		if n := p.saw(durable.Checkpointed); n < 4 || n > 7 {
			t.Errorf("%d checkpoints after an hour, want about 6", n)
		}
	})
}

// TestSlowShardMovesItsSince: a shard with few commits, which is never idle, does not keep the
// store from trimming the log for hours, not even while other shards append a lot.
func TestSlowShardMovesItsSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newShard(t, memory.New().Client().Shards(), 1, durable.Limits{})
		s.Open(anEpoch + 1)
		tenure := tenureOf(t, s)
		slow := func(d time.Duration) {
			for begin := time.Now(); time.Since(begin) < d; time.Sleep(10 * time.Second) {
				set(t, tenure, "alice", "5")
			}
		}
		slow(time.Hour)
		hour := p.saw(durable.Checkpointed)
		if hour < 4 || hour > 7 {
			t.Errorf("%d checkpoints after an hour, want about 6", hour)
		}
		slow(time.Minute)
		before := p.saw(durable.Checkpointed)
		s.cfg.Appends.written.Add(maxHeld) // by other shards
		slow(time.Minute)
		if n := p.saw(durable.Checkpointed) - before; n != 1 {
			t.Errorf("%d checkpoints after other shards appended 64 MiB, want 1", n)
		}
	})
}

// TestBusyShardMovesItsSince: a shard that commits all the time also does its periodic work, so it
// does not keep the store from trimming the log.
func TestBusyShardMovesItsSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newShard(t, memory.New().Client().Shards(), 1, durable.Limits{})
		s.Open(anEpoch + 1)
		tenure := tenureOf(t, s)
		for begin := time.Now(); time.Since(begin) < 2*idlePeriod+time.Minute; time.Sleep(time.Second / 2) {
			set(t, tenure, "alice", "5")
		}
		if n := p.saw(durable.Checkpointed); n != 2 {
			t.Errorf("%d checkpoints after two periods without a pause, want 2", n)
		}
	})
}

// TestAppendsOfOthersMoveASince: bytes that other shards of the process have appended make a shard
// with few commits advance its Since. Bytes count only once they are in the logs.
func TestAppendsOfOthersMoveASince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 64 << 10
		server, appends := memory.New(), &Appends{}
		open := func(number int) (*Tenure, *process, *memory.Client) {
			p, client := newProcess(t), server.Client()
			s := New(Config{
				Shard: store.Shard{Type: "Account", Number: number}, Store: client.Shards(), Node: "n", Incarnation: 1,
				Patience: time.Second, Host: p, Appends: appends,
			})
			t.Cleanup(s.Close)
			s.Open(anEpoch + 1)
			return tenureOf(t, s), p, client
		}
		slow, p, _ := open(1)
		busy, _, client := open(2)
		set(t, slow, "alice", "5")
		appends.written.Store(maxHeld - size)
		if _, err := busy.Load(within(t, time.Minute), "bob"); err != nil {
			t.Fatal(err)
		}
		client.Cut(true)
		ticket, err := busy.Commit(&durable.Turn{Entity: "bob", State: make([]byte, size)})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if n := p.saw(durable.Checkpointed); n != 0 {
			t.Errorf("%d checkpoints for appends that fail, want none", n)
		}
		client.Cut(false)
		if err := busy.Wait(within(t, time.Minute), ticket); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if n := p.saw(durable.Checkpointed); n != 1 {
			t.Errorf("%d checkpoints after other shards appended 64 MiB, want 1", n)
		}
	})
}

// TestTailsOfAProcessAreBounded: if the tails of all logs of a process are too large, a shard's log
// is written to records even if that log is not full. The tail of a shard that has left no longer
// counts.
func TestTailsOfAProcessAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newShard(t, memory.New().Client().Shards(), 1, durable.Limits{})
		all := s.cfg.Appends
		all.tails.Store(maxTails) // of other shards
		all.open.Store(1000)
		s.Open(anEpoch + 1)
		tenure := tenureOf(t, s)
		set(t, tenure, "alice", strings.Repeat("x", maxTails/3000))
		synctest.Wait()
		if n := p.saw(durable.Checkpointed); n != 0 {
			t.Errorf("%d checkpoints of a shard with less than half of its share, want none", n)
		}
		set(t, tenure, "alice", strings.Repeat("x", maxTails/1000))
		synctest.Wait()
		if n := p.saw(durable.Checkpointed); n != 1 {
			t.Errorf("%d checkpoints of a shard with more than its share, want 1", n)
		}
		s.Close()
		synctest.Wait()
		if tails, open := all.tails.Load(), all.open.Load(); tails != maxTails || open != 1000 {
			t.Errorf("%d bytes of %d shards are counted after it has left, want %d of 1000", tails, open, maxTails)
		}
	})
}

func TestStoreEpochs(t *testing.T) {
	last := uint64(0)
	for _, placed := range []uint64{1, 2, 1<<32 | 1, 1<<32 | 2, 2 << 32} {
		for attempt := range uint64(3) {
			e, err := StoreEpoch(placed, attempt)
			if err != nil || e <= last || Term(e) != uint32(placed>>32) {
				t.Errorf("StoreEpoch(%x, %d) = %x, %v after %x", placed, attempt, e, err, last)
			}
			last = e
		}
	}
	if _, err := StoreEpoch(1<<22, 0); err == nil {
		t.Error("a counter that leaves no room is no error")
	}
}

// TestShardNeedsALaterTermAfterItsAttempts: after a thousand attempts under one epoch a home makes
// the coordinator begin again, and opens under the new epoch.
func TestShardNeedsALaterTermAfterItsAttempts(t *testing.T) {
	server := memory.New()
	raw := server.Client().Shards()
	ctx := within(t, 20*time.Second)
	revision, err := raw.SetHead(ctx, account, store.Head{Value: []byte("damaged")})
	if err != nil {
		t.Fatal(err)
	}
	sh, p := newShard(t, server.Client().Shards(), 1, durable.Limits{})
	sh.attempt = maxAttempt - 1
	sh.epoch = 7 << counterBits
	sh.Open(7 << counterBits)
	for {
		p.mu.Lock()
		above := slices.Clone(p.above)
		p.mu.Unlock()
		if len(above) > 0 {
			if above[0] != 8 || !sh.Outgrown() {
				t.Fatalf("asked for terms from %v, outgrown %v: want only term 8", above, sh.Outgrown())
			}
			break
		}
		if ctx.Err() != nil {
			t.Fatal("the shard has not asked for a later term")
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := sh.Tenure(ctx); !errors.Is(err, ErrBroken) {
		t.Errorf("a call meanwhile: %v, want ErrBroken", err)
	}
	if _, err := raw.SetHead(ctx, account, store.Head{Revision: revision, Value: nil}); err != nil {
		t.Log(err)
	}
	sh.Open(9 << counterBits)
	if sh.Outgrown() {
		t.Error("the shard still needs a later term")
	}
}

// TestShardLeftBehindByItsCoordinatorAsksAgain: a shard met a later term, but its coordinator
// already has a still later one and leaves the shard under its old epoch. The shard then makes the
// coordinator begin again under a term above both.
func TestShardLeftBehindByItsCoordinatorAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		other, _ := newShard(t, server.Client().Shards(), 2, durable.Limits{})
		other.Open(2<<counterBits | 1)
		tenureOf(t, other)
		sh, p := newShard(t, server.Client().Shards(), 1, durable.Limits{})
		p.last = 3 // the coordinator's term
		sh.Open(1<<counterBits | 1)
		time.Sleep(unplacedAfter + time.Second)
		p.mu.Lock()
		above := slices.Clone(p.above)
		p.mu.Unlock()
		if !slices.Equal(above, []uint32{2, 4}) || !sh.Outgrown() {
			t.Errorf("asked for terms from %v, outgrown %v: want 2 and then 4", above, sh.Outgrown())
		}
		sh.Open(5<<counterBits | 1)
		tenureOf(t, sh)
		time.Sleep(2 * unplacedAfter)
		if len(p.above) != 2 {
			t.Errorf("asked for terms from %v although the shard has opened", p.above)
		}
	})
}

// TestEpochOfTwoIsClaimedAgain: if two processes have the same epoch for a shard, after a while the
// second claims it again under a higher epoch. The first has then lost it.
func TestEpochOfTwoIsClaimedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		first, _ := newShard(t, server.Client().Shards(), 1, durable.Limits{})
		first.Open(anEpoch + 1)
		former := tenureOf(t, first)
		set(t, former, "alice", "1")
		second, p := newShard(t, server.Client().Shards(), 2, durable.Limits{})
		second.Open(anEpoch + 1)
		time.Sleep(2 * staleAfter)
		tenure := tenureOf(t, second)
		if got := get(t, tenure, "alice"); got != "1" || tenure.Epoch() <= former.Epoch() || len(p.above) > 0 {
			t.Errorf("alice is %q under epoch %d, after %d; asked for terms from %v", got, tenure.Epoch(), former.Epoch(), p.above)
		}
		ticket, err := former.Commit(&durable.Turn{Entity: "alice", State: []byte("2")})
		if err == nil {
			err = former.Wait(within(t, time.Minute), ticket)
		}
		if err == nil {
			t.Error("the former home's commit is acknowledged")
		}
	})
}

// TestLeavingIsNoDoubt: a commit that is in the log while its shard leaves is not in doubt, whether
// the store answers its append or the checkpoint last.
func TestLeavingIsNoDoubt(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			client := memory.New().Client()
			random := rand.New(rand.NewPCG(seed, 1))
			pause := time.Duration(random.Int64N(int64(30 * time.Millisecond)))
			s, _ := newShard(t, client.Shards(), 1, durable.Limits{})
			s.Open(anEpoch + 1)
			tenure := tenureOf(t, s)
			set(t, tenure, "alice", "1")
			if _, err := tenure.Load(t.Context(), "bob"); err != nil {
				t.Fatal(err)
			}
			client.Fault(memory.Trouble{LongestDelay: 10 * time.Millisecond, LongestAnswer: 10 * time.Millisecond}.Faults(random))
			go func() { _ = tenure.leave(t.Context()) }()
			time.Sleep(pause)
			if tenure.Ended() {
				return
			}
			ticket, err := tenure.Commit(&durable.Turn{Entity: "bob", State: []byte("1")})
			if err != nil {
				t.Fatal(err)
			}
			if err := tenure.Wait(t.Context(), ticket); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
}
