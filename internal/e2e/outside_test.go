package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/process"
	"github.com/shardgen/shardgen/internal/test/natsproc"
)

// repository is the root of this module, from this package.
const repository = "../.."

// TestOutsideModule makes a module of its own from testdata/shop, as a user would. The new module
// requires this one and generates with go tool shardgen. Three of its processes then serve calls of
// a fourth to both of its entities.
func TestOutsideModule(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	dir := writeModule(t)
	for _, args := range [][]string{
		{"generate", "./..."},
		{"vet", "./..."},
		{"test", "./..."},
		{"build", "-o", "shop.exe", "."},
		{"tool", "shardgen", "-check", "./shop"},
	} {
		goTool(ctx, t, dir, args...)
	}
	program := filepath.Join(dir, "shop.exe")
	server := natsproc.Start(t)
	var workers []*process.Process
	for i := range 3 {
		w, err := process.Start(fmt.Sprint("worker-", i), os.Stderr, program, "worker", server.URL(), fmt.Sprint("worker-", i))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := w.Kill(); err != nil {
				t.Error(err)
			}
		})
		workers = append(workers, w)
	}
	for _, w := range workers {
		if err := w.Await(ctx, "up"); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(ctx, program, "buy", server.URL()).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "all is well") {
		t.Errorf("shop buy: %v\n%s", err, out)
	}
	for _, w := range workers {
		if err := w.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	for _, w := range workers {
		if err := w.AwaitEnd(ctx); err != nil {
			t.Error(err)
		}
	}
}

// writeModule copies testdata/shop into a fresh directory. Its go.mod requires what this module
// requires, so the module cache has everything.
func writeModule(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "shop"))); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, requirements, ok := strings.Cut(string(mod), "\nrequire ")
	if !ok {
		t.Fatal("go.mod requires nothing")
	}
	// The tools of this module, which follow the requirements, are not copied.
	if end := strings.LastIndex(requirements, "\n)\n"); end >= 0 {
		requirements = requirements[:end+len("\n)\n")]
	}
	mod = fmt.Appendf(nil, `module example.com/shop

go 1.26.0

tool github.com/shardgen/shardgen/cmd/shardgen

require github.com/shardgen/shardgen v0.0.0

replace github.com/shardgen/shardgen => %s

require %s`, root, requirements)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o644); err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// goTool runs the go command in a module outside this one.
func goTool(ctx context.Context, t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// GOWORK and GOFLAGS of the caller are for another module.
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -buildvcs=false", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
