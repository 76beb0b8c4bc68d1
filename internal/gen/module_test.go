package gen

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/shardgen/shardgen/internal/gen/load"
)

var update = flag.Bool("update", false, "rewrite the golden parts of testdata")

// A testCase is one txtar archive: a user's package, and the expected results.
type testCase struct {
	name    string
	path    string
	archive *txtar.Archive
}

func readCases(t *testing.T, kind string) []*testCase {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", kind, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases in testdata/%s: %v", kind, err)
	}
	var cases []*testCase
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, &testCase{strings.TrimSuffix(filepath.Base(path), ".txtar"), path, archive})
	}
	return cases
}

// file returns the content of a file of the archive; ok is false if there is none.
func (c *testCase) file(name string) (content []byte, ok bool) {
	for _, f := range c.archive.Files {
		if f.Name == name {
			return f.Data, true
		}
	}
	return nil, false
}

// golden compares got with a file of the archive. With -update it stores got in the archive
// instead.
func (c *testCase) golden(t *testing.T, name string, got []byte) {
	t.Helper()
	want, _ := c.file(name)
	if bytes.Equal(got, want) {
		return
	}
	if !*update {
		t.Errorf("%s: %s: %s (go test ./internal/gen -update?)", c.path, name, difference(got, want))
		return
	}
	i := slices.IndexFunc(c.archive.Files, func(f txtar.File) bool { return f.Name == name })
	c.archive.Files[i].Data = got
	if err := os.WriteFile(c.path, txtar.Format(c.archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// difference returns the first line in which got and want differ.
func difference(got, want []byte) string {
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(g), len(w)) {
		line := func(lines []string) string {
			if i < len(lines) {
				return strconv.Quote(lines[i])
			}
			return "the end"
		}
		if line(g) != line(w) {
			return fmt.Sprintf("line %d is %s, want %s", i+1, line(g), line(w))
		}
	}
	return ""
}

// module writes a user's module with the given files, by path, and returns its folder.
func module(t testing.TB, path string, files map[string]string) (dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "go.sum", string(sum))
	write(t, dir, "go.mod", "module "+path+"\n\ngo 1.26.0\n\nrequire github.com/shardgen/shardgen v0.0.0\n\nreplace github.com/shardgen/shardgen => "+root+"\n")
	for name, content := range files {
		write(t, dir, name, content)
	}
	return dir
}

func write(t testing.TB, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// environment returns an environment in which the go command uses only the module cache.
func environment() []string {
	return append(os.Environ(), "GOFLAGS=-mod=mod "+os.Getenv("GOFLAGS"), "GOPROXY=off", "GOWORK=off")
}

func options(dir string, patterns ...string) Options {
	return Options{Options: load.Options{Dir: dir, Patterns: patterns, Env: environment()}}
}

func run(t testing.TB, o Options) *Outcome {
	t.Helper()
	out, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// clean runs the generator, and fails the test if there is an error or a diagnostic.
func clean(t testing.TB, o Options) *Outcome {
	t.Helper()
	out := run(t, o)
	for _, d := range out.Diagnostics {
		t.Error(d)
	}
	if t.Failed() {
		t.FailNow()
	}
	return out
}
