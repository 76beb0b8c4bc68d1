package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/shardgen/shardgen/store"
)

func setHead(t *testing.T, c Client, sh store.Shard, h store.Head) store.Head {
	t.Helper()
	for {
		r, err := c.Shards().SetHead(t.Context(), sh, h)
		if errors.Is(err, store.ErrBusy) {
			continue
		}
		h.Revision = must[store.Revision](t)(r, err)
		return h
	}
}

func wantHead(t *testing.T, c Client, sh store.Shard, want store.Head) {
	t.Helper()
	got := must[store.Head](t)(c.Shards().Head(t.Context(), sh))
	if got.Revision != want.Revision || got.Since != want.Since || string(got.Value) != string(want.Value) {
		t.Errorf("head is %+v, want %+v", got, want)
	}
}

func wantSetHead(t *testing.T, c Client, h store.Head, want error) {
	t.Helper()
	for {
		_, err := c.Shards().SetHead(t.Context(), shard, h)
		if errors.Is(err, store.ErrBusy) {
			continue
		}
		wantError(t, fmt.Sprintf("set head at %d", h.Revision), err, want)
		return
	}
}

func testHead(t *testing.T, h Harness) {
	a, b := h.Client(t), h.Client(t)
	wantHead(t, a, shard, store.Head{})
	wantSetHead(t, a, store.Head{Revision: 1}, store.ErrConflict)
	first := setHead(t, a, shard, store.Head{Value: []byte("epoch 1")})
	wantHead(t, b, shard, first)
	wantSetHead(t, b, store.Head{}, store.ErrConflict)
	at := fill(t, a, shard, 2)
	second := setHead(t, b, shard, store.Head{Revision: first.Revision, Since: at[1], Value: []byte("epoch 2\x00\xff")})
	if second.Revision <= first.Revision {
		t.Errorf("revision %d after %d", second.Revision, first.Revision)
	}
	for _, expect := range []store.Revision{store.None, first.Revision, second.Revision + 1} {
		wantSetHead(t, a, store.Head{Revision: expect, Value: []byte("zombie")}, store.ErrConflict)
	}
	wantHead(t, a, shard, second)
	third := setHead(t, a, shard, store.Head{Revision: second.Revision, Since: at[1]}) // without a value
	wantHead(t, b, shard, third)
	other := shard
	other.Number++
	wantHead(t, a, other, store.Head{})
}

func testHeadLate(t *testing.T, h Harness) {
	if h.Held == nil {
		t.Skip("the store's requests cannot be held up")
	}
	zombie, hold, release := h.Held(t)
	first := setHead(t, zombie, shard, store.Head{Value: []byte("zombie")})
	held(t, hold, "set head", func(ctx context.Context) error {
		_, err := zombie.Shards().SetHead(ctx, shard, store.Head{Revision: first.Revision, Value: []byte("late")})
		return err
	})
	home := h.Client(t)
	mine := setHead(t, home, shard, store.Head{Revision: first.Revision, Value: []byte("home")})
	release()
	wantSetHead(t, zombie, first, store.ErrConflict) // after the late write
	wantHead(t, home, shard, mine)
}

// testHeadContended lets many clients replace the head: each new head must replace the last one.
func testHeadContended(t *testing.T, h Harness) {
	const claimers, each = 4, 5
	var mu sync.Mutex
	var wg sync.WaitGroup
	won := map[store.Revision]bool{} // the revisions that were replaced
	for i := range claimers {
		c := h.Client(t)
		wg.Go(func() {
			for n := 0; n < each; {
				head, err := c.Shards().Head(t.Context(), shard)
				if err != nil {
					t.Error(err)
					return
				}
				_, err = c.Shards().SetHead(t.Context(), shard, store.Head{Revision: head.Revision, Value: fmt.Append(nil, i, n)})
				switch {
				case err == nil:
					n++
					mu.Lock()
					if won[head.Revision] {
						t.Errorf("two writes replaced the head of revision %d", head.Revision)
					}
					won[head.Revision] = true
					mu.Unlock()
				case !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrBusy):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if len(won) != claimers*each {
		t.Errorf("%d heads were replaced, want %d", len(won), claimers*each)
	}
}
