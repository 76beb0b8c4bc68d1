package durablehost

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// flaky is a store that loses its connection from time to time.
type flaky struct {
	store.Shards
	outages, appends atomic.Uint64
	away             atomic.Pointer[error] // the error of appends; nil means that appends reach the server
}

func (f *flaky) Outages() uint64 { return f.outages.Load() }

func (f *flaky) Append(ctx context.Context, sh store.Shard, expect store.Position, data []byte) (store.Position, error) {
	f.appends.Add(1)
	if away := f.away.Load(); away != nil {
		return 0, *away
	}
	return f.Shards.Append(ctx, sh, expect, data)
}

// TestIdleShardIsVerifiedAfterAnOutage: after each outage, an idle shard appends one empty entry,
// because only an append shows whether its log is complete. An outage is a lost connection, or
// failing appends of another shard.
func TestIdleShardIsVerifiedAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		mine, others := &flaky{Shards: server.Client().Shards()}, &flaky{Shards: server.Client().Shards()}
		appends := &Appends{}
		on := func(s store.Shards, number int) *Shard {
			sh := New(Config{
				Shard: store.Shard{Type: "Account", Number: number}, Store: s, Node: "n", Incarnation: 1,
				Patience: time.Second, Host: newProcess(t), Appends: appends,
			})
			t.Cleanup(sh.Close)
			sh.Open(anEpoch)
			set(t, tenureOf(t, sh), "alice", "1")
			return sh
		}
		on(mine, 1)
		other := on(others, 2)
		before := mine.appends.Load()
		after := func(what string, more uint64) {
			t.Helper()
			time.Sleep(5 * time.Second)
			if n := mine.appends.Load() - before; n != more {
				t.Errorf("%s: %d appends, want %d", what, n, more)
			}
			before = mine.appends.Load()
		}
		errAway := fmt.Errorf("no leader: %w", store.ErrUnavailable)
		fail := func(err error) {
			others.away.Store(&err)
			time.AfterFunc(10*time.Millisecond, func() { others.away.Store(nil) })
		}
		after("nothing", 0)
		mine.outages.Add(1)
		after("an outage", 1)
		fail(store.ErrUnavailable)
		set(t, tenureOf(t, other), "bob", "1")
		after("an append of another shard that the store could not take", 1)
		others.away.Store(&errAway)
		for _, state := range []string{"2", "3"} {
			if _, err := tenureOf(t, other).Commit(&durable.Turn{Entity: "bob", State: []byte(state)}); err != nil {
				t.Fatal(err)
			}
			after("a stream of another shard that is away", 0)
		}
		others.away.Store(nil)
		after("a stream of another shard that is back", 1)
		others.away.Store(&errAway)
		if _, err := tenureOf(t, other).Commit(&durable.Turn{Entity: "bob", State: []byte("4")}); err != nil {
			t.Fatal(err)
		}
		after("another stream that is away", 0)
		other.Close()
		after("a stream of which nobody will hear whether it is back", 1)
		others.away.Store(nil)
		other = on(others, 3)
		fail(store.ErrBusy)
		set(t, tenureOf(t, other), "bob", "2")
		after("an append of another shard for which the store was busy", 0)
	})
}

// TestRestoredServerGetsWhatItLost: if a server comes back with an older state, the homes of shards
// append the commits that it has lost, even if no calls come, so that the next homes find them.
func TestRestoredServerGetsWhatItLost(t *testing.T) {
	folder := t.TempDir()
	server := natsproc.Start(t, "-js", "-sd", folder)
	open := func() *natsstore.Store {
		s, err := natsstore.Open(within(t, 30*time.Second), server.URL(), natsstore.Config{Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	shard, p := newShard(t, open().Shards(), 1, durable.Limits{})
	shard.Open(anEpoch + 1)
	set(t, tenureOf(t, shard), "alice", "1")
	older := t.TempDir()
	must(server.Kill())
	must(os.CopyFS(older, os.DirFS(folder)))
	must(server.Start())
	set(t, tenureOf(t, shard), "alice", "2")
	set(t, tenureOf(t, shard), "bob", "1")
	must(server.Kill())
	must(os.RemoveAll(filepath.Join(folder, "jetstream")))
	must(os.CopyFS(folder, os.DirFS(older)))
	must(server.Start())
	for ctx := within(t, 20*time.Second); p.saw(durable.Resent) == 0; {
		select {
		case <-ctx.Done():
			t.Fatal("the home has not noticed that the server has lost commits")
		case <-time.After(10 * time.Millisecond):
		}
	}
	must(tenureOf(t, shard).Wait(within(t, 20*time.Second), tenureOf(t, shard).Observe("alice", false)))
	next, _ := newShard(t, open().Shards(), 2, durable.Limits{})
	next.Open(anEpoch + 2)
	for entity, want := range map[string]string{"alice": "2", "bob": "1"} { //arch:order-free each by itself
		if got := get(t, tenureOf(t, next), entity); got != want {
			t.Errorf("%s is %q, want %q", entity, got, want)
		}
	}
}
