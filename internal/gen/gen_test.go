package gen

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/internal/gen/contract"
	"github.com/shardgen/shardgen/internal/gen/model"
)

// oldContract is the name, in a test case, of the contract file that exists before the run.
const oldContract = "old.lock"

// TestGood generates all good cases in one run, compares the output of those cases that have it,
// and builds and vets all of them at once.
func TestGood(t *testing.T) {
	cases := readCases(t, "good")
	files := make(map[string]string)
	for _, c := range cases {
		for _, f := range c.archive.Files {
			switch {
			case isOutput(f.Name): // the expected output
				if c.name != "stale" {
					continue
				}
			case f.Name == oldContract:
				f.Name = contract.FileName
			}
			files[path.Join(c.name, f.Name)] = string(f.Data)
		}
	}
	dir := module(t, "example.com/good", files)
	out := clean(t, options(dir, "./..."))
	for _, c := range cases {
		for _, name := range []string{model.OutputName, contract.FileName} {
			if name = filepath.Join(c.name, name); !slices.Contains(out.Written, name) {
				t.Errorf("did not write %s", name)
			}
		}
	}
	first := make(map[string]string)
	for _, name := range found(t, dir, model.OutputName) {
		first[name] = read(t, dir, name)
	}
	for _, c := range cases {
		for _, f := range c.archive.Files {
			if isOutput(f.Name) && c.name != "stale" {
				c.golden(t, f.Name, []byte(read(t, dir, path.Join(c.name, f.Name))))
			}
		}
	}

	vet := exec.CommandContext(t.Context(), "go", "vet", "./...")
	vet.Dir, vet.Env = dir, environment()
	if output, err := vet.CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, output)
	}

	// A second run over the output changes nothing.
	if out := clean(t, options(dir, "./...")); len(out.Written) != 0 || out.UpToDate != len(first) {
		t.Errorf("the second run wrote %v and found %d up to date, want none and %d", out.Written, out.UpToDate, len(first))
	}
	for name := range first {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	clean(t, options(dir, "./..."))
	for name, content := range first {
		if read(t, dir, name) != content {
			t.Errorf("%s: two runs gave different bytes", name)
		}
	}
}

// isOutput reports whether a file of a test case is expected output.
func isOutput(name string) bool {
	base := path.Base(name)
	return base == model.OutputName || base == contract.FileName
}

// TestBad compares the exact diagnostics of all bad cases, which one run finds. The run must write
// nothing.
func TestBad(t *testing.T) {
	cases := readCases(t, "bad")
	files := make(map[string]string)
	for _, c := range cases {
		for _, f := range c.archive.Files {
			if f.Name == oldContract {
				f.Name = contract.FileName
			}
			if f.Name != "want" {
				files[path.Join(c.name, f.Name)] = string(f.Data)
			}
		}
	}
	files["fine/fine.go"] = "package fine\n\nimport \"context\"\n\n//shard:entity\ntype Fine struct{}\n\nfunc (f *Fine) Do(ctx context.Context) error { return nil }\n"
	dir := module(t, "example.com/bad", files)
	out := run(t, options(dir, "./..."))

	got := make(map[string]string)
	for _, d := range out.Diagnostics {
		name, rest, _ := strings.Cut(d.String(), string(filepath.Separator))
		got[name] += rest + "\n"
	}
	for _, c := range cases {
		if got[c.name] == "" {
			t.Errorf("%s: no diagnostics", c.name)
		}
		c.golden(t, "want", []byte(got[c.name]))
		delete(got, c.name)
	}
	if len(got) > 0 {
		t.Errorf("diagnostics of no case: %v", got)
	}
	if len(out.Written) != 0 {
		t.Errorf("wrote %v, want nothing beside mistakes", out.Written)
	}
	if names := found(t, dir, model.OutputName); !slices.Equal(names, []string{"foreignfile/shard_gen.go"}) {
		t.Errorf("found %v, want nothing written", names)
	}
}

// found returns the files below dir whose names contain part.
func found(t *testing.T, dir, part string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(d.Name(), part) {
			rel, _ := filepath.Rel(dir, p)
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

const thing = `package thing

import "context"

//shard:entity
type Thing struct{}

func (t *Thing) Do(ctx context.Context, n int) error { return nil }
`

func TestCheck(t *testing.T) {
	dir := module(t, "example.com/thing", map[string]string{"thing.go": thing})
	both := []string{model.OutputName, contract.FileName}
	check := options(dir)
	check.Check = true
	if out := clean(t, check); !slices.Equal(out.Stale, both) || len(found(t, dir, model.OutputName)) != 0 {
		t.Errorf("without output: stale %v, files %v; want the file stale and nothing written", out.Stale, found(t, dir, model.OutputName))
	}
	clean(t, options(dir))
	if out := clean(t, check); len(out.Stale) != 0 || out.UpToDate != 1 {
		t.Errorf("with output: stale %v, want none", out.Stale)
	}
	write(t, dir, "more.go", "package thing\n\nimport \"context\"\n\nfunc (t *Thing) More(ctx context.Context) error { return nil }\n")
	if out := clean(t, check); !slices.Equal(out.Stale, both) {
		t.Errorf("with one more message: stale %v, want both files", out.Stale)
	}
}

func TestOutputGoesWithTheLastEntity(t *testing.T) {
	dir := module(t, "example.com/thing", map[string]string{"thing.go": thing})
	clean(t, options(dir))
	write(t, dir, "thing.go", strings.Replace(thing, "//shard:entity", "// No entity any more.", 1))
	if out := run(t, options(dir)); len(out.Diagnostics) != 1 || len(out.Written) != 0 {
		t.Errorf("got %v and wrote %v, want it asked whether the kind is gone", out.Diagnostics, out.Written)
	}
	if err := Edit(dir, func(c *contract.Contract) error { return contract.Retire(c, "Thing") }); err != nil {
		t.Fatal(err)
	}
	if out := clean(t, options(dir)); !slices.Equal(out.Written, []string{model.OutputName}) || len(found(t, dir, model.OutputName)) != 0 {
		t.Errorf("written %v, files %v; want the output removed", out.Written, found(t, dir, model.OutputName))
	}
}

func TestNothingIsLeftBeside(t *testing.T) {
	dir := module(t, "example.com/thing", map[string]string{"thing.go": thing})
	clean(t, options(dir))
	if names := found(t, dir, "-"); len(names) != 0 {
		t.Errorf("left %v", names)
	}
	if info, err := os.Stat(filepath.Join(dir, model.OutputName)); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, error %v; want 0644", info.Mode(), err)
	}
}

func TestCannotLoad(t *testing.T) {
	dir := module(t, "example.com/thing", map[string]string{
		"plain/plain.go": "package plain\n",
		"empty/x.txt":    "",
	})
	for pattern, want := range map[string]string{
		"./plain":   "no //shard:entity, //shard:singleton or //shard:pool found",
		"./empty":   "no Go files",
		"./missing": "missing",
	} {
		out, err := Run(t.Context(), options(dir, pattern))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v and error %v, want an error with %q", pattern, out, err, want)
		}
	}
}

// TestOtherPackagesWait checks that a package whose code calls another package's missing generated
// code can be generated, alone or together with the other package.
func TestOtherPackagesWait(t *testing.T) {
	caller := `package caller

import (
	"context"

	"example.com/two/thing"
)

//shard:entity
type Caller struct {
	N     int %[1]sshard:"state"%[1]s
	Thing *thing.ThingClient
	API   thing.ThingAPI
}

func (c *Caller) Do(ctx context.Context, id thing.ID) error { return c.Thing.Ref("a").Do(ctx, 1) }
`
	files := map[string]string{
		"thing/thing.go":   thing + "\ntype ID string\n",
		"caller/caller.go": fmt.Sprintf(caller, "`"),
	}
	dir := module(t, "example.com/two", files)
	clean(t, options(dir, "./caller"))
	alone := read(t, dir, "caller/shard_gen.go")
	if out := clean(t, options(dir, "./...")); !slices.Equal(out.Written, []string{filepath.FromSlash("thing/shard_gen.go"), filepath.FromSlash("thing/shard.lock")}) || out.UpToDate != 1 {
		t.Errorf("wrote %v with %d up to date, want the other file alone", out.Written, out.UpToDate)
	}
	if again := clean(t, options(dir, "./caller")); again.UpToDate != 1 || alone != read(t, dir, "caller/shard_gen.go") {
		t.Errorf("the caller's file depends on whether the other's is there")
	}
}
