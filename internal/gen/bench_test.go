package gen

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// largeModule writes a module with the given number of packages, each with ten entities of ten
// methods.
func largeModule(tb testing.TB, path string, packages int) (dir string) {
	files := make(map[string]string)
	for p := range packages {
		var b strings.Builder
		fmt.Fprintf(&b, "package p%d\n\nimport (\n\t\"context\"\n\t\"time\"\n)\n\ntype Line struct {\n\tSKU   string\n\tCount int\n\tAt    time.Time\n}\n", p)
		for e := range 10 {
			fmt.Fprintf(&b, "\n// E%d is one of many.\n//\n//shard:entity name=P%dE%d\ntype E%d struct {\n\tID    string `shard:\"id\"`\n\tTotal int64  `shard:\"state\"`\n\tLines []Line `shard:\"state\"`\n}\n", e, p, e, e)
			for m := range 10 {
				b.WriteString(method(fmt.Sprintf("E%d", e), fmt.Sprintf("M%d", m)))
			}
		}
		files[fmt.Sprintf("p%d/p.go", p)] = b.String()
	}
	return module(tb, path, files)
}

func method(entity, name string) string {
	return fmt.Sprintf("\n// %[2]s does something.\nfunc (e *%[1]s) %[2]s(ctx context.Context, a string, b int64, line Line) (total int64, lines []Line, err error) {\n\treturn 0, nil, nil\n}\n", entity, name)
}

// TestOneMethodRewritesOneFile checks that adding a method changes only its package's generated
// file and contract, however many packages there are.
func TestOneMethodRewritesOneFile(t *testing.T) {
	dir := largeModule(t, "example.com/large", 3)
	clean(t, options(dir, "./..."))
	write(t, dir, "p1/more.go", "package p1\n\nimport \"context\"\n"+method("E3", "More"))
	out := clean(t, options(dir, "./..."))
	want := []string{filepath.Join("p1", "shard_gen.go"), filepath.Join("p1", "shard.lock")}
	if !slices.Equal(out.Written, want) || out.UpToDate != 2 {
		t.Errorf("wrote %v with %d up to date, want %v and 2", out.Written, out.UpToDate, want)
	}
}

// BenchmarkGenerate measures a run over 200 entities of ten methods, and go list -deps -export on
// the same packages after the same change. It reports medians of b.N pairs, so run it with
// -benchtime 5x.
//
//	first  no package was generated or compiled before; bare is go list on the same
//	       packages before they were generated
//	method a method was added to one entity
//	same   nothing was changed
func BenchmarkGenerate(b *testing.B) {
	Tune() // as the command does
	list := func(dir string) time.Duration {
		cmd := exec.CommandContext(b.Context(), "go", "list", "-deps", "-export", "./...")
		cmd.Dir, cmd.Env = dir, environment()
		begin := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		return time.Since(begin)
	}
	generate := func(dir string) time.Duration {
		begin := time.Now()
		clean(b, options(dir, "./..."))
		return time.Since(begin)
	}
	report := func(b *testing.B, generates, lists []time.Duration) {
		slices.Sort(generates)
		slices.Sort(lists)
		g, l := generates[len(generates)/2].Seconds(), lists[len(lists)/2].Seconds()
		b.ReportMetric(g, "generate-s")
		b.ReportMetric(l, "list-s")
		b.ReportMetric(g/l, "generate/list")
	}
	b.Run("first", func(b *testing.B) {
		var generates, lists, bare []time.Duration
		fresh := func(i int) string { // what the go command knows nothing of
			return largeModule(b, fmt.Sprintf("example.com/large%d/t%d", i, time.Now().UnixNano()), 20)
		}
		for i := 0; b.Loop(); i++ {
			bare = append(bare, list(fresh(i)))
			dir := fresh(i)
			generates = append(generates, generate(dir))
			lists = append(lists, list(dir))
		}
		report(b, generates, lists)
		slices.Sort(bare)
		b.ReportMetric(bare[len(bare)/2].Seconds(), "bare-s")
		b.ReportMetric(generates[len(generates)/2].Seconds()/bare[len(bare)/2].Seconds(), "generate/bare")
	})
	dir := largeModule(b, "example.com/large", 20)
	generate(dir)
	list(dir)
	b.Run("method", func(b *testing.B) {
		var generates, lists []time.Duration
		for i := 0; b.Loop(); i++ {
			write(b, dir, fmt.Sprintf("p7/more%d.go", i), "package p7\n\nimport \"context\"\n"+method("E3", fmt.Sprintf("N%d", time.Now().UnixNano())))
			generates = append(generates, generate(dir))
			lists = append(lists, list(dir))
		}
		report(b, generates, lists)
	})
	b.Run("same", func(b *testing.B) {
		var generates, lists []time.Duration
		for b.Loop() {
			generates = append(generates, generate(dir))
			lists = append(lists, list(dir))
		}
		report(b, generates, lists)
	})
}

// BenchmarkCompile measures how long the go command takes to compile 200 generated entities of ten
// methods for the first time. The packages that they import are compiled already. It reports the
// median of b.N runs, so run it with -benchtime 5x.
func BenchmarkCompile(b *testing.B) {
	build := func(i int) time.Duration {
		dir := largeModule(b, fmt.Sprintf("example.com/compiled%d/t%d", i, time.Now().UnixNano()), 20)
		clean(b, options(dir, "./..."))
		cmd := exec.CommandContext(b.Context(), "go", "build", "./...")
		cmd.Dir, cmd.Env = dir, environment()
		begin := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		b.ReportMetric((cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), "cpu-s")
		return time.Since(begin)
	}
	build(-1)
	var builds []time.Duration
	for i := 0; b.Loop(); i++ {
		builds = append(builds, build(i))
	}
	slices.Sort(builds)
	b.ReportMetric(builds[len(builds)/2].Seconds(), "build-s")
}
