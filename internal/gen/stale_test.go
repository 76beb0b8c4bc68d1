package gen

import (
	"os/exec"
	"strings"
	"testing"
)

const staled = `package thing

import "context"

type Line struct {
	SKU string
	Pin *int %[1]sshard:"-"%[1]s
}

//shard:entity
type Thing struct {
	Lines []Line %[1]sshard:"state"%[1]s
	notify func(string)
}

func (t *Thing) Do(ctx context.Context, line Line) error { return nil }
`

// TestStaleCodeDoesNotCompile: what is changed without generating anew does not
// build, where the code would be wrong.
func TestStaleCodeDoesNotCompile(t *testing.T) {
	source := strings.ReplaceAll(staled, "%[1]s", "`")
	dir := module(t, "example.com/thing", map[string]string{"thing.go": source})
	clean(t, options(dir))
	for _, tt := range []struct{ name, old, now, want string }{
		{"as it was", "", "", ""},
		{"a field of the state", "\tnotify", "\tSeen int `shard:\"state\"`\n\tnotify", "too few values in struct literal"},
		{"a field without a tag", "\tnotify func(string)", "\tnotify func(string)\n\tdone chan int", "too few values in struct literal"},
		{"a field of a struct", "\tPin", "\tCount int\n\tPin", "too few values in struct literal"},
		{"a field less", "\tPin *int `shard:\"-\"`\n", "", "undefined"},
		{"another type", "SKU string", "SKU int", "int"},
		{"an argument more", "line Line) error", "line Line, n int) error", "wrong type for method Do"},
		{"a message less", "Do(ctx", "Did(ctx", "missing method Do"},
	} {
		write(t, dir, "thing.go", strings.Replace(source, tt.old, tt.now, 1))
		build := exec.CommandContext(t.Context(), "go", "build", "./...")
		build.Dir, build.Env = dir, environment()
		out, err := build.CombinedOutput()
		if (err != nil) != (tt.want != "") || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s: go build: %v\n%swant %q", tt.name, err, out, tt.want)
		}
	}
}

// TestOldOutputCompiles: what older tools wrote compiles with this runtime.
func TestOldOutputCompiles(t *testing.T) {
	files := make(map[string]string)
	for _, c := range readCases(t, "frozen") {
		for _, f := range c.archive.Files {
			files[c.name+"/"+f.Name] = string(f.Data)
		}
	}
	vet := exec.CommandContext(t.Context(), "go", "vet", "./...")
	vet.Dir, vet.Env = module(t, "example.com/frozen", files), environment()
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, out)
	}
}
