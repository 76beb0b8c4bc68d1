package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func group(t *testing.T) *Group {
	t.Helper()
	g, err := New()
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// TestLimit: a process that spins in a limited group is stopped again and again. When the group is
// closed, the process goes on outside of it.
func TestLimit(t *testing.T) {
	g := group(t)
	if err := g.Limit(5); err != nil {
		t.Fatal(err)
	}
	spin := exec.Command("sh", "-c", "while :; do :; done")
	if err := spin.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = spin.Process.Kill()
		_ = spin.Wait() // an error, because it was killed
	}()
	if err := g.Add(spin.Process.Pid); err != nil {
		t.Fatal(err)
	}
	look := time.Tick(10 * time.Millisecond)
	for deadline := time.Now().Add(20 * time.Second); ; <-look {
		throttled, of, err := g.Throttled()
		if err != nil || throttled > of || time.Now().After(deadline) {
			t.Fatalf("it was throttled in %d of %d periods: %v", throttled, of, err)
		}
		if throttled >= 3 {
			break
		}
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	where, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", spin.Process.Pid))
	if err != nil || strings.Contains(string(where), prefix) {
		t.Errorf("it is in %q (%v), want outside", where, err)
	}
}

// TestSweep: groups that a dead process left behind are removed. Groups of living processes are
// kept.
func TestSweep(t *testing.T) {
	g := group(t)
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(g.root.dir, prefix+strconv.Itoa(dead.Process.Pid)+"-1")
	if err := os.Mkdir(left, 0o755); err != nil {
		t.Fatal(err)
	}
	group(t)
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		_ = os.Remove(left)
		t.Errorf("what a dead process left behind is still there: %v", err)
	}
	if _, err := os.Stat(g.dir); err != nil {
		t.Errorf("what a living process made is gone: %v", err)
	}
}
