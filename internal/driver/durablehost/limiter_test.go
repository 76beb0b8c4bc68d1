package durablehost

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// TestPaceFollowsTheStore: the limit falls if appends wait for each other, and rises if each takes
// as long as a single one.
func TestPaceFollowsTheStore(t *testing.T) {
	var p appendLimiter
	now := time.Now()
	for _, step := range []struct {
		took   time.Duration
		rounds int
		want   int
	}{
		{time.Millisecond, 1, leastUnder},
		{time.Millisecond, 2, 4 * leastUnder},
		{3 * time.Millisecond, 9, mostUnder},
		{5 * time.Millisecond, 3, mostUnder}, // neither
		{9 * time.Millisecond, 1, mostUnder / 2},
		{9 * time.Millisecond, 9, leastUnder},
	} {
		for range step.rounds * roundAnswers {
			p.answered(now, step.took)
		}
		if p.limit != step.want {
			t.Errorf("limit %d after %d rounds of %v, want %d", p.limit, step.rounds, step.took, step.want)
		}
	}
	// The store is farther away from now on.
	for range 3 {
		now = now.Add(fastestPeriod)
		for range roundAnswers {
			p.answered(now, 9*time.Millisecond)
		}
	}
	if p.limit <= leastUnder {
		t.Errorf("limit %d long after the store has become slower, want more", p.limit)
	}
}

// TestPaceRoom: appends beyond the limit are sent together.
func TestPaceRoom(t *testing.T) {
	for _, c := range []struct{ limit, under, wait, want int }{
		{0, 100, 100, 100},
		{24, 3, 0, 0},
		{24, 3, 21, 21},
		{24, 23, 1, 1},
		{24, 23, 2, 0},
		{24, 9, 16, 0},
		{24, 8, 17, 16},
		{24, 0, 60, 24},
	} {
		p := appendLimiter{limit: c.limit}
		if got := p.room(c.under, c.wait); got != c.want {
			t.Errorf("%d under way, %d waiting, at most %d: %d leave, want %d", c.under, c.wait, c.limit, got, c.want)
		}
	}
}

// A heldStore answers appends only when a test calls answer.
type heldStore struct {
	store.Shards
	mu    sync.Mutex
	sent  int
	queue []func()
}

func (h *heldStore) BeginAppend(s store.Shard, expect store.Position, data []byte, done func(store.Position, Rest)) bool {
	if expect == store.Any { // a claim
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent++
	h.queue = append(h.queue, func() {
		p, err := h.Append(context.Background(), s, expect, data)
		if err != nil {
			done(0, func(context.Context) (store.Position, error) { return 0, err })
			return
		}
		done(p, nil)
	})
	return true
}

// answer answers the n oldest appends.
func (h *heldStore) answer(n int) {
	h.mu.Lock()
	due := h.queue[:n]
	h.queue = h.queue[n:]
	h.mu.Unlock()
	for _, f := range due {
		f()
	}
	synctest.Wait()
}

func (h *heldStore) wantSent(t *testing.T, want int) {
	t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sent != want {
		t.Fatalf("%d appends have left, want %d", h.sent, want)
	}
}

// tenuresOf opens the given number of shards at one process. Each has an active entity named a.
func tenuresOf(t *testing.T, s store.Shards, appends *Appends, shards int) (tenures []*Tenure) {
	p := newProcess(t)
	for i := range shards {
		sh := New(Config{Shard: store.Shard{Type: "Account", Number: i}, Store: s, Node: "n", Incarnation: 1, Host: p, Appends: appends})
		sh.Open(anEpoch)
		tenures = append(tenures, tenureOf(t, sh))
		if _, err := tenures[i].Load(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	return tenures
}

// TestAppendsLeaveTogether: while as many appends run as the limit allows, further ones wait until
// there is room for several. They do not wait long if the store does not answer.
func TestAppendsLeaveTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 60
		held, appends := &heldStore{Shards: memory.New().Client().Shards()}, &Appends{}
		tenures := tenuresOf(t, held, appends, shards)
		appends.limiter.limit = leastUnder
		commit := func(from, to int, state string) {
			for _, tenure := range tenures[from:to] {
				if _, err := tenure.Commit(&durable.Turn{Entity: "a", State: []byte(state)}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
		}
		commit(0, shards, "1")
		held.wantSent(t, leastUnder)
		commit(0, shards, "2") // into the appends that wait
		held.answer(leastUnder - leastUnder/3 - 1)
		held.wantSent(t, leastUnder)
		held.answer(1)
		held.wantSent(t, 2*leastUnder-leastUnder/3)
		time.Sleep(longestHold)
		held.wantSent(t, 3*leastUnder-leastUnder/3)
		for len(held.queue) > 0 {
			held.answer(1)
		}
		time.Sleep(longestHold)
		for len(held.queue) > 0 {
			held.answer(1)
		}
		// A shard that had to wait sent both commits with one append.
		held.wantSent(t, shards+leastUnder)
		for i, tenure := range tenures {
			if !tenure.Reached(tenure.Seen("a")) {
				t.Errorf("a commit of shard %d is not in the log", i)
			}
		}
	})
}

// TestAppendsAreNotHeld: while the store does not answer, appends up to the limit are sent each
// time longestHold has passed. Later answers to these make no room for more.
func TestAppendsAreNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 3*leastUnder + 4
		held, appends := &heldStore{Shards: memory.New().Client().Shards()}, &Appends{}
		tenures := tenuresOf(t, held, appends, shards)
		commit := func() {
			for _, tenure := range tenures {
				if _, err := tenure.Commit(&durable.Turn{Entity: "a", State: []byte("state")}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
		}
		commit()
		held.answer(shards)
		time.Sleep(2 * longestHold) // no append waits for a while
		appends.limiter.limit = leastUnder
		commit()
		held.wantSent(t, shards+leastUnder)
		time.Sleep(longestHold)
		held.wantSent(t, shards+2*leastUnder)
		held.answer(leastUnder)
		held.wantSent(t, shards+2*leastUnder)
		time.Sleep(longestHold)
		held.wantSent(t, shards+3*leastUnder)
		time.Sleep(longestHold)
		held.wantSent(t, 2*shards)
		held.answer(len(held.queue))
	})
}

// A timedStore serves appends one after another. Each answer also takes a network round trip.
type timedStore struct {
	store.Shards
	serve, way time.Duration
	mu         sync.Mutex
	free       time.Time // when it has served all appends
	last       store.Position
	appends    int
}

func (s *timedStore) BeginAppend(_ store.Shard, expect store.Position, _ []byte, done func(store.Position, Rest)) bool {
	if expect == store.Any { // a claim
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appends++
	if now := time.Now(); s.free.Before(now) {
		s.free = now
	}
	s.free = s.free.Add(s.serve)
	time.AfterFunc(time.Until(s.free)+s.way, func() {
		s.mu.Lock()
		s.last++
		p := s.last + 1<<20 // above those of the claims
		s.mu.Unlock()
		done(p, nil)
	})
	return true
}

// TestPaceOfStores: with 256 callers at 64 shards, an append to a busy store has up to twice as
// many commits as if each were sent at once, and an append to a distant store does not wait.
func TestPaceOfStores(t *testing.T) {
	for _, c := range []struct {
		name                string
		serve, way          time.Duration
		leastEach, mostEach float64 // commits in an append; 2.6 to 2.9 if each append were sent at once
	}{
		{"busy", 20 * time.Microsecond, 50 * time.Microsecond, 4.5, 8},
		{"far", 0, 2 * time.Millisecond, 2, 3.7},
		{"far, and not idle", 10 * time.Microsecond, 2 * time.Millisecond, 2, 3.7},
		{"far and busy", 200 * time.Microsecond, time.Millisecond, 3.4, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &timedStore{Shards: memory.New().Client().Shards(), serve: c.serve, way: c.way}
				tenures := tenuresOf(t, s, &Appends{}, 64)
				var commits atomic.Int64
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				var callers sync.WaitGroup
				for w := range uint64(256) {
					callers.Go(func() {
						random := rand.New(rand.NewPCG(1, w))
						for ctx.Err() == nil {
							tenure := tenures[random.IntN(len(tenures))]
							ticket, err := tenure.Commit(&durable.Turn{Entity: "a", State: []byte("state")})
							if err == nil {
								err = tenure.Wait(t.Context(), ticket)
							}
							if err != nil {
								t.Error(err)
								return
							}
							commits.Add(1)
						}
					})
				}
				callers.Wait()
				each := float64(commits.Load()) / float64(s.appends)
				t.Logf("%d commits, %.1f in an append", commits.Load(), each)
				if each < c.leastEach || each > c.mostEach {
					t.Errorf("%.1f commits in an append, want %.1f to %.1f", each, c.leastEach, c.mostEach)
				}
			})
		})
	}
}
