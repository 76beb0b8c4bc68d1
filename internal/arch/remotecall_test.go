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

// The calls are counted in rounds, so short that what runs for another reason falls into a few of
// them. A coordinator that looks at a thousand shards runs some functions more often than a
// slow machine makes calls meanwhile.
const (
	countedRounds = 20
	callsOfRound  = 50
)

// countedAttempts is how often the calls are counted before too high a number is believed. A
// process that gets too little of the processor looks at each call whether its turn holds up a lane.
const countedAttempts = 3

// TestRemoteCall counts what a remote call over NATS runs through, by the counters of a
// program that makes many: the functions that run at each call of most rounds, without those of the
// program itself.
func TestRemoteCall(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program with coverage counters")
	}
	program := filepath.Join(t.TempDir(), "onecall")
	run(t, nil, "go", "build", "-cover", "-covermode=atomic", "-coverpkg=./runtime/...,./internal/...,./transport/...", "-o", program, "./internal/e2e/onecall")
	tree := loadTree(t)
	for attempt := 1; ; attempt++ {
		p := countPath(t, tree, program)
		if p.functions == 0 {
			t.Fatal("no function ran at each call")
		}
		t.Logf("a remote call runs through %d functions in %d files of %d packages", p.functions, len(p.files), len(p.packages))
		for _, file := range slices.Sorted(maps.Keys(p.files)) {
			t.Logf("%s: %v", file, p.files[file])
		}
		if p.functions <= maxCallFunctions && len(p.files) <= maxCallFiles && len(p.packages) <= maxCallPackages {
			return
		}
		if attempt == countedAttempts {
			t.Fatalf("at most %d functions, %d files and %d packages may be", maxCallFunctions, maxCallFiles, maxCallPackages)
		}
	}
}

// A callPath is what a remote call runs through.
type callPath struct {
	functions int
	files     map[string][]string // the names of the functions
	packages  map[string]bool
}

// countPath runs the program once.
func countPath(t *testing.T, tree []*sourceFile, program string) callPath {
	t.Helper()
	dir := t.TempDir()
	run(t, []string{"GOCOVERDIR=" + dir}, program, fmt.Sprint(countedRounds), fmt.Sprint(callsOfRound))
	rounds := map[string]map[block]int{}
	for round := range countedRounds {
		counts := filepath.Join(dir, fmt.Sprint(round))
		profile := counts + ".txt"
		run(t, nil, "go", "tool", "covdata", "textfmt", "-i", counts, "-o", profile)
		addBlocks(t, profile, rounds)
	}
	p := callPath{files: map[string][]string{}, packages: map[string]bool{}}
	for _, f := range tree {
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || callers(f.dir) {
				continue
			}
			from, to := f.line(fn), f.fset.Position(fn.End()).Line
			for b, n := range rounds[f.path] {
				if from <= b.line && b.line <= to && n > countedRounds/2 {
					p.functions++
					p.files[f.path] = append(p.files[f.path], fn.Name.Name)
					p.packages[f.dir] = true
					break
				}
			}
		}
	}
	return p
}

// callers reports whether a folder has the program and its entity.
func callers(dir string) bool {
	return dir == "internal/fixture" || strings.HasPrefix(dir, "internal/e2e")
}

// A block is where a stretch of code begins.
type block struct{ line, column int }

// addBlocks adds one to the rounds of each block that ran at each call of the profile's round. They
// are by the path of the block's file from the root.
func addBlocks(t *testing.T, profile string, rounds map[string]map[block]int) {
	t.Helper()
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, rest, ok := strings.Cut(lines.Text(), ".go:")
		var b block
		var endLine, endColumn, statements, count int
		if !ok {
			continue // the first line is the mode
		}
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.line, &b.column, &endLine, &endColumn, &statements, &count); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		if count < callsOfRound*9/10 {
			continue
		}
		file := strings.TrimPrefix(path.Clean(name)+".go", module+"/")
		if rounds[file] == nil {
			rounds[file] = map[block]int{}
		}
		rounds[file][b]++
	}
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
