package natsstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// TestDiskFull: on a full disk, all acknowledged appends are in the log. The store serves again
// when there is room.
func TestDiskFull(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=40m"); err != nil {
		t.Skipf("mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s := natsproc.Start(t, "-js", "-sd", disk)
	c := open(t, s.URL(), natsstore.Config{Partitions: 1, Timeout: time.Second}).Shards()
	first, err := c.Append(t.Context(), shard, store.Start, []byte("first"))
	if err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(disk, "ballast")
	if err := fillDisk(ballast); err == nil {
		t.Fatal("the disk is never full")
	}
	last := first
	var acknowledged []store.Position
	data := make([]byte, 256<<10)
	for range 100 {
		p, appendErr := c.Append(t.Context(), shard, last, data)
		if err = appendErr; err != nil {
			break
		}
		acknowledged, last = append(acknowledged, p), p
	}
	if err == nil {
		t.Fatalf("%d appends of %d bytes fit on a full disk", len(acknowledged), len(data))
	}
	t.Logf("after %d appends: %v", len(acknowledged), err)
	if !errors.Is(err, store.ErrUncertain) && !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("append on a full disk: got %v, want %v or %v", err, store.ErrUncertain, store.ErrUnavailable)
	}
	wantWords(t, "append on a full disk", err, err, "full", "Account/3")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	again := func(ctx context.Context) (store.Position, error) {
		return c.Append(ctx, shard, store.Any, []byte("claim"))
	}
	claim, err := again(t.Context())
	if err != nil { // the server may have switched JetStream off: a restart switches it on again
		t.Logf("append when there is room again: %v", err)
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if claim, err = settle(t, again); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.Read(t.Context(), shard, first, claim)
	if err != nil || len(got) < 2+len(acknowledged) {
		t.Errorf("%d appends are there (%v), want the %d that were acknowledged, with a claim", len(got), err, 1+len(acknowledged))
	}
}

// fillDisk writes until nothing fits.
func fillDisk(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for range 10_000 {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return nil
}
