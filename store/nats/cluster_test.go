package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// settle repeats a write f until the store has applied it or refused it for good.
func settle[T any](t *testing.T, f func(ctx context.Context) (T, error)) (T, error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		v, err := f(t.Context())
		passing := errors.Is(err, store.ErrUncertain) || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrBusy)
		if !passing {
			return v, err
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %v", err)
		}
	}
}

// TestServersKilled: one of three servers is killed again and again while a home appends and writes
// records. All acknowledged writes are there, once.
func TestServersKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("three servers")
	}
	servers := cluster(t)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	cfg := natsstore.Config{Replicas: 3, Partitions: 1, Timeout: time.Second}
	c := open(t, strings.Join(urls, ","), cfg).Shards()
	head, err := settle(t, func(ctx context.Context) (store.Revision, error) {
		return c.SetHead(ctx, shard, store.Head{})
	})
	if err != nil {
		t.Fatal(err)
	}
	last, err := settle(t, func(ctx context.Context) (store.Position, error) {
		return c.Append(ctx, shard, store.Start, []byte("0"))
	})
	if err != nil {
		t.Fatal(err)
	}
	first := last
	count := 1
	for round := range 3 {
		victim := servers[round]
		if err := victim.Kill(); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			data := []byte(strconv.Itoa(count))
			p, err := settle(t, func(ctx context.Context) (store.Position, error) { return c.Append(ctx, shard, last, data) })
			if errors.Is(err, store.ErrConflict) { // an earlier attempt may be in the log, which a claim shows
				var claim store.Position
				if claim, err = settle(t, func(ctx context.Context) (store.Position, error) { return c.Append(ctx, shard, store.Any, nil) }); err != nil {
					t.Fatal(err)
				}
				var got []store.Append
				got, err = settle(t, func(ctx context.Context) ([]store.Append, error) { return c.Read(ctx, shard, last, claim) })
				if len(got) < 3 || string(got[1].Data) != string(data) {
					t.Fatalf("append %d conflicts, and the log goes on with %v (%v)", count, got, err)
				}
				p = claim
			}
			if err != nil {
				t.Fatal(err)
			}
			last = p
			revision, err := settle(t, func(ctx context.Context) (store.Revision, error) {
				return c.Put(ctx, shard, head, []store.Change{{ID: "count", Value: data}, {ID: fmt.Sprint(count), Value: data}})
			})
			if err != nil {
				t.Fatal(err)
			}
			records, err := settle(t, func(ctx context.Context) ([]store.Record, error) {
				_, records, err := c.Get(ctx, shard, []string{"count"}, revision)
				return records, err
			})
			if err != nil || string(records[0].Value) != string(data) {
				t.Fatalf("record is %v (%v), want %s", records, err, data)
			}
			count++
		}
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
	}
	got, err := settle(t, func(ctx context.Context) ([]store.Append, error) { return c.Read(ctx, shard, first, last) })
	if err != nil {
		t.Fatal(err)
	}
	next := 0
	for _, a := range got {
		if len(a.Data) == 0 {
			continue // a claim
		}
		if string(a.Data) != strconv.Itoa(next) {
			t.Fatalf("the log has append %s where %d is wanted", a.Data, next)
		}
		next++
	}
	if next != count {
		t.Errorf("%d appends are there, %d were acknowledged", next, count)
	}
}

// TestTrimBesideManyHeads: Trim works if a stream has more heads than fit into one answer.
func TestTrimBesideManyHeads(t *testing.T) {
	s := natsproc.Start(t, "-js", "-sd", t.TempDir())
	c := open(t, s.URL(), natsstore.Config{Partitions: 1}).Shards()
	last, err := c.Append(t.Context(), store.Shard{Type: "Account", Number: 1150}, store.Start, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1200 {
		h := store.Head{Since: last}
		if _, err := c.SetHead(t.Context(), store.Shard{Type: "Account", Number: i}, h); err != nil {
			t.Fatal(err)
		}
	}
	first, err := c.Append(t.Context(), shard, store.Start, nil)
	if err != nil {
		t.Fatal(err)
	}
	end, err := c.Append(t.Context(), shard, first, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Head(t.Context(), shard)
	if err != nil {
		t.Fatal(err)
	}
	h.Since = end
	if h.Revision, err = c.SetHead(t.Context(), shard, h); err != nil {
		t.Fatal(err)
	}
	if err := c.Trim(t.Context(), shard, h); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(t.Context(), shard, first, end); err != nil {
		t.Errorf("read above another shard's since: %v", err)
	}
	if _, err := c.Read(t.Context(), store.Shard{Type: "Account", Number: 1150}, last, last); err != nil {
		t.Errorf("read of the other shard's log from its since: %v", err)
	}
	for i := range 1200 { // all heads move their since
		sh := store.Shard{Type: "Account", Number: i}
		other, err := c.Head(t.Context(), sh)
		if err != nil {
			t.Fatal(err)
		}
		other.Since = end
		if _, err := c.SetHead(t.Context(), sh, other); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Trim(t.Context(), shard, h); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(t.Context(), shard, first, end); !errors.Is(err, store.ErrGone) {
		t.Errorf("read of appends that no head needs: %v, want %v", err, store.ErrGone)
	}
}
