package arch

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Bounds of how much of this module one remote call runs through, at both ends together.
// They are only ever lowered. docs/architecture.md says why there are not fewer files.
const (
	maxCallFunctions = 205
	maxCallFiles     = 30
	maxCallPackages  = 14
)

// countedCalls is how many calls are counted. What runs for another reason, such as a
// heartbeat, runs far less often.
const countedCalls = 5000

// TestRemoteCall counts what a remote call over NATS runs through, by the counters of a
// program that makes many: the functions that run at each call, without those of the program itself.
func TestRemoteCall(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program with coverage counters")
	}
	dir := t.TempDir()
	program, counts, profile := filepath.Join(dir, "onecall"), filepath.Join(dir, "counts"), filepath.Join(dir, "profile")
	if err := os.Mkdir(counts, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, nil, "go", "build", "-cover", "-covermode=atomic", "-coverpkg=./runtime/...,./internal/...,./transport/...", "-o", program, "./internal/e2e/onecall")
	run(t, []string{"GOCOVERDIR=" + counts}, program, fmt.Sprint(countedCalls))
	run(t, nil, "go", "tool", "covdata", "textfmt", "-i", counts, "-o", profile)
	blocks := readBlocks(t, profile)
	functions, files, packages := 0, map[string][]string{}, map[string]bool{}
	for _, f := range loadTree(t) {
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || callers(f.dir) {
				continue
			}
			from, to := f.line(fn), f.fset.Position(fn.End()).Line
			if slices.ContainsFunc(blocks[f.path], func(b block) bool { return from <= b.line && b.line <= to }) {
				functions++
				files[f.path] = append(files[f.path], fn.Name.Name)
				packages[f.dir] = true
			}
		}
	}
	if functions == 0 {
		t.Fatal("no function ran at each call")
	}
	t.Logf("a remote call runs through %d functions in %d files of %d packages", functions, len(files), len(packages))
	for _, file := range slices.Sorted(maps.Keys(files)) {
		t.Logf("%s: %v", file, files[file])
	}
	if functions > maxCallFunctions || len(files) > maxCallFiles || len(packages) > maxCallPackages {
		t.Errorf("at most %d functions, %d files and %d packages may be", maxCallFunctions, maxCallFiles, maxCallPackages)
	}
}

// callers reports whether a folder has the program and its entity.
func callers(dir string) bool {
	return dir == "internal/fixture" || strings.HasPrefix(dir, "internal/e2e")
}

// A block is where a stretch of code begins that ran at each call.
type block struct{ line int }

// readBlocks are the blocks of a profile by their file's path from the root.
func readBlocks(t *testing.T, profile string) map[string][]block {
	t.Helper()
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string][]block{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, rest, ok := strings.Cut(lines.Text(), ".go:")
		var b block
		var column, endLine, endColumn, statements, count int
		if !ok {
			continue // the first line is the mode
		}
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.line, &column, &endLine, &endColumn, &statements, &count); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		if count >= countedCalls*9/10 {
			file := strings.TrimPrefix(path.Clean(name)+".go", module+"/")
			blocks[file] = append(blocks[file], b)
		}
	}
	return blocks
}

// run runs a command at the root.
func run(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
