package durablehost

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// TestPaceFollowsTheStore: fewer appends are under way where they wait for each other, and more where
// they take as long as a single one.
func TestPaceFollowsTheStore(t *testing.T) {
	var p pace
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

// TestPaceRoom: appends that are too many leave together.
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
		p := pace{limit: c.limit}
		if got := p.room(c.under, c.wait); got != c.want {
			t.Errorf("%d under way, %d waiting, at most %d: %d leave, want %d", c.under, c.wait, c.limit, got, c.want)
		}
	}
}

// A heldStore answers appends when it is told to.
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

// TestAppendsLeaveTogether: with as many under way as the store works on, appends wait until there is
// room for several, and not for long if the store does not answer.
func TestAppendsLeaveTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 60
		held := &heldStore{Shards: memory.New().Client().Shards()}
		p, appends := newProcess(t), &Appends{}
		var tenures []*Tenure
		for i := range shards {
			s := New(Config{Shard: store.Shard{Type: "Account", Number: i}, Store: held, Node: "n", Incarnation: 1, Host: p, Appends: appends})
			s.Open(anEpoch)
			tenures = append(tenures, tenureOf(t, s))
			if _, err := tenures[i].Load(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
		appends.pace.limit = leastUnder
		commit := func(from, to int, state string) {
			for _, tenure := range tenures[from:to] {
				if _, err := tenure.Commit(durable.Turn{Entity: "a", State: []byte(state)}); err != nil {
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
		// Of those that had to wait, both commits left with one append.
		held.wantSent(t, shards+leastUnder)
		for i, tenure := range tenures {
			if !tenure.Reached(tenure.Seen("a")) {
				t.Errorf("a commit of shard %d is not in the log", i)
			}
		}
	})
}
