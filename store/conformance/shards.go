package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardgen/shardgen/store"
)

func testShardsApart(t *testing.T, h Harness) {
	a := h.Client(t)
	shards := []store.Shard{
		{Type: "T", Number: 0},
		{Type: "T", Number: 1},
		{Type: "T", Number: 10},
		{Type: "T", Number: store.MaxShards - 1},
		{Type: "t", Number: 0},
		{Type: "T.0", Number: 0},
		{Type: "example.com/bank.Account *>", Number: 0},
		{Type: "\x00\xff", Number: 0},
		{Type: strings.Repeat("n", store.MaxType), Number: 0},
	}
	var wg sync.WaitGroup
	for i, sh := range shards {
		wg.Go(func() {
			name := fmt.Sprint("of ", i)
			head := setHead(t, a, sh, store.Head{Value: []byte(name)})
			put(t, a, sh, head.Revision, "id", name)
			last := store.Start
			for range 3 {
				last = appendTo(t, a, sh, last, name)
			}
			wantLog(t, a, sh, store.Start, last, name, name, name)
		})
	}
	wg.Wait()
	for i, sh := range shards {
		name := fmt.Sprint("of ", i)
		head := must[store.Head](t)(a.Shards().Head(t.Context(), sh))
		wantRecords(t, a, sh, head.Revision, "id", name)
		if got := listed(t, a, sh); string(head.Value) != name || len(got) != 1 {
			t.Errorf("%v has the head %q and records %q", sh, head.Value, got)
		}
	}
}

func wantTooLarge(t *testing.T, what string, err error, size int) {
	t.Helper()
	wantError(t, what, err, store.ErrTooLarge)
	var large *store.TooLargeError
	if !errors.As(err, &large) || large.Size != size || large.Limit >= size {
		t.Errorf("%s: got %v, want a *store.TooLargeError with the sizes", what, err)
	}
}

func testShardLimits(t *testing.T, h Harness) {
	a := h.Client(t)
	sh := store.Shard{Type: strings.Repeat("n", store.MaxType), Number: store.MaxShards - 1}
	head := setHead(t, a, sh, store.Head{Value: bytes.Repeat([]byte("h"), store.MaxHead)})
	large := bytes.Repeat([]byte("a"), store.MaxAppend)
	at := appendTo(t, a, sh, store.Start, string(large))
	var last store.Position = at
	for range 9 { // more than any server sends in one go
		last = appendTo(t, a, sh, last, string(large))
	}
	if got := must[[]store.Append](t)(a.Shards().Read(t.Context(), sh, at, last)); len(got) != 10 || !bytes.Equal(got[9].Data, large) {
		t.Errorf("%d of the 10 largest appends were read", len(got))
	}
	_, err := a.Shards().Append(t.Context(), sh, last, append(large, 'a'))
	wantTooLarge(t, "append a byte too many", err, store.MaxAppend+1)
	_, err = a.Shards().SetHead(t.Context(), sh, store.Head{Revision: head.Revision, Value: make([]byte, store.MaxHead+1)})
	wantTooLarge(t, "a head of a byte too many", err, store.MaxHead+1)
	_, err = a.Shards().Put(t.Context(), sh, head.Revision, []store.Change{{ID: "id", Value: make([]byte, store.MaxValue+1)}})
	wantTooLarge(t, "a record of a byte too many", err, store.MaxValue+1)

	var many []string
	for i := range store.MaxGet {
		many = append(many, fmt.Sprintf("%0*d", store.MaxID, i), strings.Repeat("v", 32<<10))
	}
	many[1] = string(large)
	r := put(t, a, sh, head.Revision, many...)
	wantRecords(t, a, sh, r, many...)
	var more []string
	for i := range 1200 {
		more = append(more, fmt.Sprint("small", i), "v")
	}
	r = put(t, a, sh, head.Revision, more...)
	wantRecords(t, a, sh, r, more[len(more)-2*store.MaxGet:]...)
	if got := listed(t, a, sh); len(got) != store.MaxGet+1200 {
		t.Errorf("%d records are listed, want %d", len(got), store.MaxGet+1200)
	}
}

func testShardMisused(t *testing.T, h Harness) {
	a := h.Client(t).Shards()
	for _, sh := range []store.Shard{{}, {Type: "T", Number: -1}, {Type: "T", Number: store.MaxShards}, {Type: strings.Repeat("n", store.MaxType+1)}} {
		_, err := a.Append(t.Context(), sh, store.Any, nil)
		wantError(t, "append", err, store.ErrBadKey)
		_, err = a.Read(t.Context(), sh, store.Start, 1)
		wantError(t, "read", err, store.ErrBadKey)
		wantError(t, "trim", a.Trim(t.Context(), sh, store.Head{Revision: 1, Since: 1}), store.ErrBadKey)
		_, err = a.Head(t.Context(), sh)
		wantError(t, "head", err, store.ErrBadKey)
		_, err = a.SetHead(t.Context(), sh, store.Head{})
		wantError(t, "set head", err, store.ErrBadKey)
		_, _, err = a.Get(t.Context(), sh, []string{"id"}, store.None)
		wantError(t, "get", err, store.ErrBadKey)
		_, err = a.Put(t.Context(), sh, 1, []store.Change{{ID: "id"}})
		wantError(t, "put", err, store.ErrBadKey)
		_, err = a.List(t.Context(), sh, store.None)
		wantError(t, "list", err, store.ErrBadKey)
	}
	for _, ids := range [][]string{{""}, {strings.Repeat("i", store.MaxID+1)}, {"a", "b", "a"}, make([]string, store.MaxGet+1)} {
		_, _, err := a.Get(t.Context(), shard, ids, store.None)
		wantError(t, "get", err, store.ErrBadKey)
		var changes []store.Change
		for _, id := range ids {
			changes = append(changes, store.Change{ID: id})
		}
		_, err = a.Put(t.Context(), shard, 1, changes)
		wantError(t, "put", err, store.ErrBadKey)
	}
	_, err := a.Put(t.Context(), shard, store.None, []store.Change{{ID: "id"}})
	wantError(t, "put under None", err, store.ErrBadKey)
}

// testShardContextEnded uses an ended context: nothing is sent, so outcomes are certain.
func testShardContextEnded(t *testing.T, h Harness) {
	c := h.Client(t)
	head := setHead(t, c, shard, store.Head{Value: []byte("old")})
	last := fill(t, c, shard, 1)[0]
	put(t, c, shard, head.Revision, "id", "old")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := c.Shards()
	want := func(what string, err error) {
		t.Helper()
		wantError(t, what, err, store.ErrUnavailable)
		wantError(t, what, err, context.Canceled)
	}
	_, err := a.Append(ctx, shard, last, []byte("new"))
	want("append", err)
	_, err = a.Read(ctx, shard, last, last)
	want("read", err)
	want("trim", a.Trim(ctx, shard, head))
	_, err = a.Head(ctx, shard)
	want("head", err)
	_, err = a.SetHead(ctx, shard, store.Head{Revision: head.Revision, Value: []byte("new")})
	want("set head", err)
	_, _, err = a.Get(ctx, shard, []string{"id"}, store.None)
	want("get", err)
	_, err = a.Put(ctx, shard, head.Revision, []store.Change{{ID: "id", Value: []byte("new")}})
	want("put", err)
	_, err = a.List(ctx, shard, store.None)
	want("list", err)
	wantRecords(t, c, shard, head.Revision, "id", "old")
	wantHead(t, c, shard, head)
	appendTo(t, c, shard, last, "next")
}

func testShardOwnership(t *testing.T, h Harness) {
	c := h.Client(t)
	a := c.Shards()
	text := []byte("text")
	spoil := func(b []byte) { copy(b, "xxxx") }
	revision := must[store.Revision](t)(a.SetHead(t.Context(), shard, store.Head{Value: text}))
	spoil(text)
	text = []byte("text")
	at := must[store.Position](t)(a.Append(t.Context(), shard, store.Start, text))
	spoil(text)
	text = []byte("text")
	last := must[store.Revision](t)(a.Put(t.Context(), shard, revision, []store.Change{{ID: "id", Value: text}}))
	spoil(text)
	for range 2 {
		log := must[[]store.Append](t)(a.Read(t.Context(), shard, at, at))
		head, records, err := a.Get(t.Context(), shard, []string{"id"}, last)
		if err != nil {
			t.Fatal(err)
		}
		list := must[[]store.Record](t)(a.List(t.Context(), shard, store.None))
		again := must[store.Head](t)(a.Head(t.Context(), shard))
		for _, b := range [][]byte{log[0].Data, head.Value, records[0].Value, list[0].Value, again.Value} {
			if string(b) != "text" {
				t.Errorf("got %q, want text", b)
			}
			spoil(b)
		}
	}
}

func testShardsRestarted(t *testing.T, h Harness) {
	if h.Restart == nil {
		t.Skip("the store cannot be restarted")
	}
	a := h.Client(t)
	head := setHead(t, a, shard, store.Head{Value: []byte("head")})
	at := fill(t, a, shard, 3)
	r := put(t, a, shard, head.Revision, "x", "one", "gone", "x")
	r = max(r, put(t, a, shard, head.Revision, "gone", ""))
	term := must[store.Revision](t)(a.Put(t.Context(), "terms/coordinator", []byte("7"), store.None))
	lease := must[store.Held](t)(a.Acquire(t.Context(), h.claim("a")))
	h.Restart(t)
	for {
		_, err := a.Shards().Head(t.Context(), shard)
		if err == nil {
			break
		}
		wantError(t, "read of a store that is restarted", err, store.ErrUnavailable)
		h.Wait(10 * time.Millisecond)
	}
	if r := must[store.Record](t)(a.Get(t.Context(), "terms/coordinator")); string(r.Value) != "7" || r.Revision != term {
		t.Errorf("the term is %q at %d, want 7 at %d", r.Value, r.Revision, term)
	}
	if renewed := must[store.Held](t)(a.Renew(t.Context(), lease)); renewed.Token != lease.Token {
		t.Errorf("the lease has token %d, want %d", renewed.Token, lease.Token)
	}
	wantHead(t, a, shard, head)
	wantLog(t, a, shard, store.Start, at[2], "0", "1", "2")
	wantRecords(t, a, shard, r, "x", "one", "gone", "")
	wantAppend(t, a, shard, at[1], store.ErrConflict)
	last := appendTo(t, a, shard, at[2], "3")
	wantLog(t, h.Client(t), shard, at[2], last, "2", "3")
	if next := put(t, a, shard, head.Revision, "y", "two"); next <= r {
		t.Errorf("revision %d after %d", next, r)
	}
	wantSetHead(t, a, store.Head{}, store.ErrConflict)
	setHead(t, a, shard, head)
	wantPut(t, a, shard, head.Revision, store.ErrConflict)
}
