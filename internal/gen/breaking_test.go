package gen

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/internal/gen/contract"
	"github.com/shardgen/shardgen/internal/gen/model"
)

const anyThing = `package x

import "context"

//shard:entity name=NAME
type Thing struct{}

func (t *Thing) Do(ctx context.Context, n int64) error { return nil }
`

// TestBreakingOfAModule compares all contracts of a module with those in the same places of another
// folder and of a git revision.
func TestBreakingOfAModule(t *testing.T) {
	named := func(name string) string { return strings.ReplaceAll(anyThing, "NAME", name) }
	dir := module(t, "example.com/many", map[string]string{
		"a/x.go": named("a"), "b/deep/x.go": named("b"), "gone/x.go": named("gone"), "same/x.go": named("same"),
	})
	clean(t, options(dir, "./..."))
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "first")
	git("tag", "v1.0.0")
	before := t.TempDir()
	for _, folder := range []string{"a", "b/deep", "gone", "same"} {
		write(t, before, folder+"/"+contract.FileName, read(t, dir, folder+"/"+contract.FileName))
	}

	remove := func(path string) error {
		return Edit(filepath.Join(dir, path), func(c *contract.Contract) error { return contract.Retire(c, c.Kinds[0].Name+".Do.n") })
	}
	for _, path := range []string{"a", "b/deep"} {
		if err := remove(path); err != nil {
			t.Fatal(err)
		}
	}
	git("rm", "-q", "-r", "gone")

	want := "a: argument a.Do.n: gone: programs of the old version find its zero value\n" +
		"b/deep: argument b.Do.n: gone: programs of the old version find its zero value\n" +
		"gone: kind gone: gone: callers of the old version wait for a host until their deadline\n"
	for _, against := range []string{before, "v1.0.0", "HEAD"} {
		if got := breaches(t, against, dir, true); got != want {
			t.Errorf("against %s:\n%s\nwant\n%s", against, got, want)
		}
	}
	if got, want := breaches(t, "v1.0.0", filepath.Join(dir, "b"), true), "deep: argument b.Do.n: gone: programs of the old version find its zero value\n"; got != want {
		t.Errorf("below b: got %q, want %q", got, want)
	}
	if got, want := breaches(t, "v1.0.0", filepath.Join(dir, "a"), false), ".: argument a.Do.n: gone: programs of the old version find its zero value\n"; got != want {
		t.Errorf("of a alone: got %q, want %q", got, want)
	}
	for against, want := range map[string]string{
		"v9.9.9":   "v9.9.9 is neither a file here nor a revision known to git",
		"--output": "--output is neither a file here",
		filepath.Join(before, "a", contract.FileName): "is one contract, and /... means several",
		t.TempDir(): "no shard.lock below",
	} {
		if _, err := Breaking(against, dir, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("against %s: %v, want %q", against, err, want)
		}
	}
}

func breaches(t *testing.T, against, dir string, all bool) string {
	t.Helper()
	list, err := Breaking(against, dir, all)
	if err != nil {
		t.Fatalf("against %s: %v", against, err)
	}
	var b strings.Builder
	for _, breach := range list {
		b.WriteString(breach.Folder + ": " + breach.String() + "\n")
	}
	return b.String()
}

// TestWindowsLines checks that generated files and contracts with Windows line ends, as a check-out
// makes them, are up to date and can be read.
func TestWindowsLines(t *testing.T) {
	dir := module(t, "example.com/crlf", map[string]string{"x/x.go": strings.ReplaceAll(anyThing, "NAME", "x")})
	clean(t, options(dir, "./x"))
	for _, name := range []string{"x/x.go", "x/" + contract.FileName, "x/" + model.OutputName} {
		write(t, dir, name, strings.ReplaceAll(read(t, dir, name), "\n", "\r\n"))
	}
	o := options(dir, "./x")
	o.Check = true
	if out := clean(t, o); len(out.Stale) > 0 {
		t.Errorf("not up to date: %v", out.Stale)
	}
	if err := Edit(filepath.Join(dir, "x"), func(c *contract.Contract) error { return contract.Move(c, "x.Do.n", "count") }); err != nil {
		t.Error(err)
	}
}
