package e2e

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestBadStoreDiskFull is TestBadStore for a disk that is full.
func TestBadStoreDiskFull(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it waits for real time-outs")
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=40m"); err != nil {
		t.Skipf("mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	c := startWallets(t, disk, "")
	c.serves()
	ballast := filepath.Join(disk, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4<<10)
	for err = nil; err == nil; {
		_, err = f.Write(block)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	c.wantRefusal("full", "make room")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	// JetStream disables itself when it cannot write.
	c.restart(func() {})
	c.serves()
	c.check()
}
