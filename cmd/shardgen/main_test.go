package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/internal/gen"
)

// TestRun calls the command as a user does. What the generator does with good and
// bad packages is tested in internal/gen.
func TestRun(t *testing.T) {
	const good = "package x\n\nimport \"context\"\n\n//shard:entity\ntype Thing struct{}\n\nfunc (t *Thing) Do(ctx context.Context) error { return nil }\n"
	const bad = "package x\n\n//shard:entity\ntype Thing struct{}\n"
	steps := []struct {
		name, source string
		args         []string
		code         int
		stdout       string // part of it
		stderr       string // part of it; "" is nothing
	}{
		{"mistakes", bad, nil, exitWrong, "", "x.go:4:6: SG203: Thing: has no messages"},
		{"mistakes for editors", bad, []string{"-json"}, exitWrong, `{"file":"x.go","line":4,"column":6,"severity":"error","code":"SG203","message":"Thing: has no messages","mend":"give it`, ""},
		{"stale for editors", good, []string{"-json", "-check"}, exitWrong, `{"file":"shard_gen.go","line":1,"column":1,"severity":"error","code":"stale","message":"not up to date","mend":"run go generate"}`, ""},
		{"no package for editors", good, []string{"-json", "./nowhere"}, exitWrong, `"severity":"error"`, ""},
		{"stale", good, []string{"-check"}, exitWrong, "", "shard_gen.go: not up to date (run go generate)"},
		{"written", good, []string{"./..."}, exitOK, "", ""},
		{"up to date", good, []string{"-check", "."}, exitOK, "", ""},
		{"at length", good, []string{"-v", "."}, exitOK, "", "package example.com/x\n1 packages, 0 files written, 1 up to date, 0 mistakes, "},
		{"proto", good, []string{"contract", "proto"}, exitOK, "rpc Do(ThingDoArgs) returns (ThingDoReply);", ""},
		{"no break", good, []string{"breaking", "-against", "."}, exitOK, "", ""},
		{"bad edit", good, []string{"contract", "mv", "Thing.Did", "Done"}, exitWrong, "", "move Thing.Did: not in the contract"},
		{"renamed", good, []string{"contract", "mv", "Thing.Do", "Done"}, exitOK, "", ""},
		{"asked", good, nil, exitWrong, "", "SG612: Thing.Done: is in the contract, but no longer in the source (run go tool shardgen contract mv Thing.Done Do"},
		{"no comparison of another contract", good, []string{"breaking", "-against", "."}, exitWrong, "", "SG612: Thing.Done: is in the contract, but no longer in the source"},
		{"back", good, []string{"contract", "mv", "Thing.Done", "Do"}, exitOK, "", ""},
		{"new in the source", good + "\nfunc (t *Thing) Again(ctx context.Context) error { return nil }\n", []string{"breaking", "-against", "."}, exitWrong, "", "shard.lock:1:1: SG605: not the contract of the source (run go generate)"},
		{"mended", good, []string{"contract", "mend"}, exitOK, "", ""},
		{"no command", good, []string{"contract", "what"}, exitUsage, "", "usage: shardgen contract"},
		{"no path", good, []string{"contract", "rm"}, exitUsage, "", "usage: shardgen contract"},
		{"against nothing", good, []string{"breaking"}, exitUsage, "", "usage: shardgen breaking"},
		{"no contract", good, []string{"breaking", "-against", "nowhere"}, exitWrong, "", "nowhere"},
		{"explain", good, []string{"explain", "sg404"}, exitOK, "SG404: a field that would be lost", ""},
		{"explain all", good, []string{"explain"}, exitOK, "SG613  a number", ""},
		{"explain what", good, []string{"explain", "SG999"}, exitUsage, "", "no such code"},
		{"gone", "package x\n", []string{"./..."}, exitWrong, "", "SG612: kind Thing"},
		{"gone for good", "package x\n", []string{"contract", "rm", "Thing"}, exitOK, "", ""},
		{"no entity", "package x\n", []string{"./..."}, exitOK, "", ""}, // the output goes
		{"still none", "package x\n", nil, exitWrong, "", "no //shard:entity, //shard:singleton or //shard:pool found"},
		{"left out", "//go:build special\n\n" + good, nil, exitWrong, "", "the one at x.go:7:1 is built when special: pass -tags"},
		{"tagged out", "//go:build special\n\n" + good, []string{"-tags", "special"}, exitOK, "", ""},
		{"built with its tags alone", "//go:build special\n\n" + good, []string{"-tags", "special", "-check"}, exitOK, "", ""},
		{"init", good, []string{"init"}, exitOK, "go get -tool", ""},
		{"init twice", good, []string{"init"}, exitWrong, "", "has Go files already"},
		{"first entity", good, []string{"./counter"}, exitOK, "", ""},
		{"its proto", good, []string{"contract", "-dir", "counter", "proto"}, exitOK, "package counter;", ""},
		{"by another name", good, []string{"contract", "-dir", "counter", "proto", "-package", "demo.v1"}, exitOK, "package demo.v1;", ""},
		{"unknown flag", good, []string{"-nonsense"}, exitUsage, "", "usage: shardgen"},
		{"help", good, []string{"-h"}, exitOK, "", "usage: shardgen"},
		{"version", good, []string{"-version"}, exitOK, "shardgen ", ""},
	}
	_, write := module(t)
	for _, s := range steps {
		write("x.go", s.source)
		var stdout, stderr strings.Builder
		code := run(t.Context(), s.args, &stdout, &stderr)
		if code != s.code || !strings.Contains(stdout.String(), s.stdout) ||
			!strings.Contains(stderr.String(), s.stderr) || s.stderr == "" && stderr.String() != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q; want exit %d, stdout with %q, stderr with %q",
				s.name, code, stdout.String(), stderr.String(), s.code, s.stdout, s.stderr)
		}
	}
}

// TestOtherVersion: -check says that only the version of the generator differs.
func TestOtherVersion(t *testing.T) {
	dir, write := module(t)
	write("x.go", "package x\n\nimport \"context\"\n\n//shard:entity\ntype Thing struct{}\n\nfunc (t *Thing) Do(ctx context.Context) error { return nil }\n")
	if code := run(t.Context(), nil, io.Discard, t.Output()); code != exitOK {
		t.Fatal("exit", code)
	}
	text, err := os.ReadFile(filepath.Join(dir, "shard_gen.go"))
	if err != nil {
		t.Fatal(err)
	}
	write("shard_gen.go", strings.Replace(string(text), gen.Version(), "v0.0.1", 1))
	var stderr strings.Builder
	code := run(t.Context(), []string{"-check"}, io.Discard, &stderr)
	want := "shard_gen.go: not up to date: only the version of its generator differs, v0.0.1 here and now " + gen.Version() + " (run go generate)\n"
	if code != exitWrong || stderr.String() != want {
		t.Errorf("exit %d, %q; want %q", code, stderr.String(), want)
	}
}

// module makes a new module the working directory. It returns the directory, and a function that
// writes files there.
func module(t *testing.T) (dir string, write func(name, content string)) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if dir, err = os.Getwd(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOWORK", "off")
	write = func(name, content string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/x\n\ngo 1.26.0\n\nrequire github.com/shardgen/shardgen v0.0.0\n\nreplace github.com/shardgen/shardgen => "+root+"\n")
	write("go.sum", string(sum))
	return dir, write
}

// TestUnderGoGenerate: go generate ./... in a module's root runs the tool in the folder of each package. The
// commands that its diagnostics name work in the root, too.
func TestUnderGoGenerate(t *testing.T) {
	dir, write := module(t)
	const source = "package thing\n\nimport \"context\"\n\n//shard:entity\ntype Thing struct{}\n\nfunc (t *Thing) Do(ctx context.Context) error { return nil }\n"
	write("thing/thing.go", source)
	t.Setenv("GOFILE", "thing.go") // as go generate does
	try := func(folder string, args ...string) (code int, text string) {
		t.Chdir(filepath.Join(dir, folder))
		var out strings.Builder
		code = run(t.Context(), args, &out, &out)
		return code, out.String()
	}
	if code, text := try("thing"); code != exitOK {
		t.Fatal(text)
	}
	write("thing/thing.go", strings.ReplaceAll(source, "Do(", "Done("))
	code, text := try("thing")
	command := "contract -dir " + filepath.Join(dir, "thing") + " mv Thing.Do Done"
	if code != exitWrong || !strings.HasPrefix(text, filepath.Join(dir, "thing", "shard.lock")+":") || !strings.Contains(text, "run go tool shardgen "+command) {
		t.Fatalf("exit %d, %q; want the file and the command %q with their folder", code, text, command)
	}
	if code, text := try(".", strings.Fields(command)...); code != exitOK {
		t.Fatal(text)
	}
	if code, text := try("thing"); code != exitOK {
		t.Fatal(text)
	}
}
