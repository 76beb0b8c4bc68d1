package gen

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// TestWatch checks that Watch runs once after a change, does not run after its own writes, and
// returns when its context ends.
func TestWatch(t *testing.T) {
	dir := module(t, "example.com/watched", map[string]string{"p.go": shapedPackage("(ctx context.Context) error", "return nil", 1)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	outcomes, ended := make(chan *Outcome), make(chan error, 1)
	go func() {
		ended <- Watch(ctx, options(dir, "./..."), 5*time.Millisecond, func(o *Outcome, err error, _ time.Duration) {
			if err != nil {
				t.Error(err)
			}
			select {
			case outcomes <- o:
			case <-ctx.Done():
			}
		})
	}()
	if first := <-outcomes; len(first.Written) != 2 {
		t.Fatalf("the first run wrote %v, want code and contract", first.Written)
	}
	write(t, dir, "p.go", strings.Replace(shapedPackage("(ctx context.Context) error", "return nil", 1), "type Stock", "type Broken int\n\ntype Stock", 1))
	if next := <-outcomes; len(next.Diagnostics) != 1 {
		t.Fatalf("a directive above no struct: %v, want one diagnostic", next.Diagnostics)
	}
	write(t, dir, "p.go", shapedPackage("(ctx context.Context) error", "return nil", 2))
	if next := <-outcomes; len(next.Written) != 2 {
		t.Fatalf("a method more wrote %v, want code and contract", next.Written)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("watch: %v", err)
	}
}

// TestRenamedFileChangesNothing checks that the output of entities and methods in several files
// does not depend on the files' names.
func TestRenamedFileChangesNothing(t *testing.T) {
	entity := func(name, methods string) string {
		return "package p\n\nimport \"context\"\n\n//shard:entity\ntype " + name + " struct{}\n\n" + methods
	}
	dir := module(t, "example.com/renamed", map[string]string{
		"a.go": entity("Zebra", "func (z *Zebra) Run(ctx context.Context, n int) error { return nil }\n"),
		"b.go": entity("Ape", "func (a *Ape) Jump(ctx context.Context, n int) error { return nil }\n\nfunc (z *Zebra) Eat(ctx context.Context, s string) (string, error) { return s, nil }\n"),
	})
	clean(t, options(dir))
	code, lock := read(t, dir, model.OutputName), read(t, dir, "shard.lock")
	for _, name := range []string{model.OutputName, "shard.lock"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(filepath.Join(dir, "a.go"), filepath.Join(dir, "z.go")); err != nil {
		t.Fatal(err)
	}
	clean(t, options(dir))
	if read(t, dir, model.OutputName) != code || read(t, dir, "shard.lock") != lock {
		t.Error("a renamed file changed the output")
	}
}
