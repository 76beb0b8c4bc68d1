package main

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/fixture/vault"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// hostSteward starts a node that hosts a durable singleton.
func hostSteward(t *testing.T, url string) (steward vault.StewardRef, stop func()) {
	t.Helper()
	n := shard.New(shard.Config{
		Cluster: "bank", Name: "w1", Transport: natstransport.New(url), Store: openStore(t, url),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	t.Cleanup(func() { _ = n.Close() })
	if err := vault.HostSteward(n, func() *vault.Steward { return &vault.Steward{} }); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return vault.NewStewardClient(n).Ref(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := n.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStoreSingleton: operators handle a durable singleton like an entity, and it opens above the
// epochs that they write under.
func TestStoreSingleton(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	env := map[string]string{"NATS_URL": url}
	file := filepath.Join(t.TempDir(), "steward.json")
	ctl := func(args string, code int, stdout, stderr string) {
		t.Helper()
		shardctl(t, env, args).check(t, args, code, stdout, stderr)
	}
	add := func(steward vault.StewardRef, n, want int64) {
		t.Helper()
		if total, _, err := steward.Add(t.Context(), n); err != nil || total != want {
			t.Fatalf("%d, %v, want %d", total, err, want)
		}
	}
	steward, stop := hostSteward(t, url)
	add(steward, 5, 5)
	ctl("store list", exitOK, "Steward  bank     1       1 ", "")
	ctl("store verify", exitOK, "1 types, 1 shards, 1 entities can be read", "")
	ctl("store show Steward singleton", exitOK, "Steward/singleton in shard ", "")
	ctl("store export -o "+file, exitOK, "", "")
	ctl("store import -replace -from "+file, exitFailed, "", "type Steward is hosted by w1")
	for _, c := range []string{"entity", "state"} {
		ctl(c+" -cluster bank Steward any", exitFailed, "", "Steward is a singleton, and has no id (shardctl where Steward says where it runs; shardctl store show Steward singleton prints")
	}
	add(steward, 1, 6)
	stop()
	steward, stop = hostSteward(t, url)
	add(steward, 1, 7)
	stop()
	ctl("store import -states -replace -from "+file, exitOK, "1 entities of 1 types are in the store", "")
	steward, stop = hostSteward(t, url)
	add(steward, 1, 6)
	stop()
	ctl("store delete Steward -force", exitOK, "type Steward is deleted", "")
	steward, stop = hostSteward(t, url)
	add(steward, 1, 1)
	stop()
}
