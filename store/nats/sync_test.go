package natsstore_test

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// TestKilledWithSyncAlways: a server with "sync_interval: always" is killed again and again while a
// home appends. All acknowledged appends are there, once and in order.
func TestKilledWithSyncAlways(t *testing.T) {
	config := filepath.Join(t.TempDir(), "server.conf")
	text := "jetstream {\n  store_dir: " + t.TempDir() + "\n  sync_interval: always\n}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server := natsproc.Start(t, "-c", config)
	c := open(t, server.URL(), natsstore.Config{Partitions: 1, Timeout: time.Second})
	// The first append creates the streams, which may take longer than the server lives below.
	last, err := c.Shards().Append(t.Context(), shard, store.Start, binary.BigEndian.AppendUint64(nil, 1))
	if err != nil {
		t.Fatal(err)
	}
	count := uint64(1)
	for range 3 {
		killed := make(chan error, 1)
		time.AfterFunc(50*time.Millisecond, func() { killed <- server.Kill() })
		for {
			p, err := c.Shards().Append(t.Context(), shard, last, binary.BigEndian.AppendUint64(nil, count+1))
			if err != nil {
				break // the server is gone
			}
			last, count = p, count+1
		}
		if err := <-killed; err != nil {
			t.Fatal(err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		found, err := settle(t, func(ctx context.Context) (store.Position, error) { return c.Last(ctx, shard) })
		if err != nil {
			t.Fatal(err)
		}
		log, err := c.Shards().Read(t.Context(), shard, store.Start, found)
		if err != nil {
			t.Fatal(err)
		}
		n := uint64(len(log))
		if n != count && n != count+1 { // the last append may be there without an acknowledgement
			t.Fatalf("%d appends are there, want %d, which were acknowledged, or one more", n, count)
		}
		for i, a := range log {
			if got := binary.BigEndian.Uint64(a.Data); got != uint64(i)+1 {
				t.Fatalf("append %d is number %d", i+1, got)
			}
		}
		last, count = found, n
	}
	if count < 10 {
		t.Errorf("only %d appends were acknowledged", count)
	}
}
