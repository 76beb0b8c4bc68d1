package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/shardgen/shardgen/store"
)

func testPutAndGet(t *testing.T, h Harness) {
	a, b := h.Client(t), h.Client(t)
	_, err := a.Get(t.Context(), "dir/key")
	wantError(t, "get what is not there", err, store.ErrNotFound)
	revision := store.None
	for _, value := range []string{"one", "", "three", strings.Repeat("\x00\xff", 100)} {
		revision = must[store.Revision](t)(a.Put(t.Context(), "dir/key", []byte(value), revision))
		if revision == store.None {
			t.Fatalf("put %q: revision is None", value)
		}
		for who, c := range map[string]Client{"the writer": a, "another": b} {
			r := must[store.Record](t)(c.Get(t.Context(), "dir/key"))
			if r.Key != "dir/key" || string(r.Value) != value || r.Revision != revision {
				t.Errorf("%s reads %q at %d under %q, want %q at %d", who, r.Value, r.Revision, r.Key, value, revision)
			}
		}
	}
}

func testConflict(t *testing.T, h Harness) {
	a, b := h.Client(t), h.Client(t)
	first := must[store.Revision](t)(a.Put(t.Context(), "k", []byte("first"), store.None))
	second := must[store.Revision](t)(b.Put(t.Context(), "k", []byte("second"), first))
	for _, expect := range []store.Revision{store.None, first, second + 1} {
		_, err := a.Put(t.Context(), "k", []byte("late"), expect)
		wantError(t, fmt.Sprintf("put at %d over %d", expect, second), err, store.ErrConflict)
	}
	wantError(t, "delete at an old revision", a.Delete(t.Context(), "k", first), store.ErrConflict)
	_, err := a.Put(t.Context(), "other", []byte("late"), second)
	wantError(t, "put where nothing is", err, store.ErrConflict)
	if r := must[store.Record](t)(a.Get(t.Context(), "k")); string(r.Value) != "second" {
		t.Errorf("got %q, want second", r.Value)
	}
}

func testDelete(t *testing.T, h Harness) {
	a := h.Client(t)
	revision := must[store.Revision](t)(a.Put(t.Context(), "k", []byte("v"), store.None))
	if err := a.Delete(t.Context(), "k", revision); err != nil {
		t.Fatal(err)
	}
	_, err := a.Get(t.Context(), "k")
	wantError(t, "get what was deleted", err, store.ErrNotFound)
	wantError(t, "delete again", a.Delete(t.Context(), "k", revision), store.ErrConflict)
	wantError(t, "delete what never was", a.Delete(t.Context(), "never", revision), store.ErrConflict)
	wantError(t, "delete at None", a.Delete(t.Context(), "k", store.None), store.ErrBadKey)
	_, err = a.Put(t.Context(), "k", []byte("v"), revision)
	wantError(t, "put at the deleted revision", err, store.ErrConflict)
	if list := must[[]store.Record](t)(a.List(t.Context(), "")); len(list) != 0 {
		t.Errorf("%d records are left, want none", len(list))
	}
	again := must[store.Revision](t)(a.Put(t.Context(), "k", []byte("again"), store.None))
	if again <= revision {
		t.Errorf("revision is %d after %d was deleted, want a higher one", again, revision)
	}
}

func testRevisionsGrow(t *testing.T, h Harness) {
	a := h.Client(t)
	last := map[string]store.Revision{}
	for i := range 20 {
		key := "k" + strconv.Itoa(i%3)
		r := must[store.Revision](t)(a.Put(t.Context(), key, nil, last[key]))
		if r <= last[key] {
			t.Errorf("%s: revision %d after %d", key, r, last[key])
		}
		last[key] = r
	}
}

func testList(t *testing.T, h Harness) {
	a := h.Client(t)
	for _, key := range []string{"b/2", "a", "b/10", "bc/1", "b/x/y", "b"} {
		must[store.Revision](t)(a.Put(t.Context(), key, []byte("at "+key), store.None))
	}
	for prefix, want := range map[string]string{
		"":     "a b b/10 b/2 b/x/y bc/1",
		"b/":   "b/10 b/2 b/x/y",
		"b/x/": "b/x/y",
		"a/":   "",
		"no/":  "",
	} {
		var keys []string
		for _, r := range must[[]store.Record](t)(h.Client(t).List(t.Context(), prefix)) {
			keys = append(keys, r.Key)
			got := must[store.Record](t)(a.Get(t.Context(), r.Key))
			if string(r.Value) != "at "+r.Key || r.Revision != got.Revision {
				t.Errorf("list has %q at %d for %s, get has it at %d", r.Value, r.Revision, r.Key, got.Revision)
			}
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("list %q: got %q, want %q", prefix, got, want)
		}
	}
}

func testOwnership(t *testing.T, h Harness) {
	a := h.Client(t)
	value := []byte("value")
	must[store.Revision](t)(a.Put(t.Context(), "k", value, store.None))
	copy(value, "xxxxx")
	r := must[store.Record](t)(a.Get(t.Context(), "k"))
	copy(r.Value, "yyyyy")
	copy(must[[]store.Record](t)(a.List(t.Context(), ""))[0].Value, "zzzzz")
	if r := must[store.Record](t)(a.Get(t.Context(), "k")); string(r.Value) != "value" {
		t.Errorf("got %q, want the value as it was put", r.Value)
	}
}

func testLimits(t *testing.T, h Harness) {
	a := h.Client(t)
	key, value := strings.Repeat("k", store.MaxKey), bytes.Repeat([]byte("v"), store.MaxValue)
	must[store.Revision](t)(a.Put(t.Context(), key, value, store.None))
	if r := must[store.Record](t)(a.Get(t.Context(), key)); !bytes.Equal(r.Value, value) {
		t.Errorf("the largest value was read with %d bytes", len(r.Value))
	}
	_, err := a.Put(t.Context(), "large", append(value, 'v'), store.None)
	wantError(t, "put a byte too many", err, store.ErrTooLarge)
}

func testBadKeys(t *testing.T, h Harness) {
	a := h.Client(t)
	for _, key := range []string{"", "a.b", "a*", "a>", "a//b", "/a", "a/", "a b", "é", strings.Repeat("k", store.MaxKey+1)} {
		_, err := a.Get(t.Context(), key)
		wantError(t, fmt.Sprintf("get %q", key), err, store.ErrBadKey)
		_, err = a.Put(t.Context(), key, nil, store.None)
		wantError(t, fmt.Sprintf("put %q", key), err, store.ErrBadKey)
		wantError(t, fmt.Sprintf("delete %q", key), a.Delete(t.Context(), key, 1), store.ErrBadKey)
	}
	for _, prefix := range []string{"a", "/", "a//", "a*/"} {
		_, err := a.List(t.Context(), prefix)
		wantError(t, fmt.Sprintf("list %q", prefix), err, store.ErrBadKey)
	}
}

// testContextEnded uses an ended context: nothing is sent, so outcomes are certain.
func testContextEnded(t *testing.T, h Harness) {
	a := h.Client(t)
	revision := must[store.Revision](t)(a.Put(t.Context(), "k", []byte("v"), store.None))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := a.Put(ctx, "k", []byte("w"), revision)
	for _, want := range []error{store.ErrUnavailable, context.Canceled} {
		wantError(t, "put", err, want)
	}
	_, err = a.Get(ctx, "k")
	wantError(t, "get", err, store.ErrUnavailable)
	_, err = a.List(ctx, "")
	wantError(t, "list", err, store.ErrUnavailable)
	wantError(t, "delete", a.Delete(ctx, "k", revision), store.ErrUnavailable)
	if r := must[store.Record](t)(a.Get(t.Context(), "k")); r.Revision != revision {
		t.Errorf("the record is at %d, want %d", r.Revision, revision)
	}
}

func testConcurrentCounter(t *testing.T, h Harness) {
	const clients, each = 4, 10
	var wg sync.WaitGroup
	errs := make(chan error, clients)
	for range clients {
		c := h.Client(t)
		wg.Go(func() {
			for range each {
				if err := raise(t.Context(), c, "counter"); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if r := must[store.Record](t)(h.Client(t).Get(t.Context(), "counter")); string(r.Value) != strconv.Itoa(clients*each) {
		t.Errorf("counted %s, want %d", r.Value, clients*each)
	}
}

func raise(ctx context.Context, s store.Store, key string) error {
	for {
		r, err := s.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		n := 0
		if err == nil {
			if n, err = strconv.Atoi(string(r.Value)); err != nil {
				return err
			}
		}
		_, err = s.Put(ctx, key, []byte(strconv.Itoa(n+1)), r.Revision)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}
