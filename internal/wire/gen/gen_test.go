package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const header = `syntax = "proto3";
package shardgen.wire;
option go_package = "github.com/shardgen/shardgen/internal/wire";
`

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGenerateThenCheck(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"a.proto":        header + "import \"shardgen/wire/b.proto\";\n// A is first.\nmessage A { B b = 1; }\n",
		"b.proto":        header + "message B { bytes x = 1; }\n",
		"gone.pb.go":     "package wire\n",
		"handwritten.go": "package wire\n",
	})
	if err := run(dir, true); err == nil || !strings.Contains(err.Error(), "[a.pb.go b.pb.go gone.pb.go]") {
		t.Fatalf("check before generating: got %v, want the three files named", err)
	}
	if err := run(dir, false); err != nil {
		t.Fatal(err)
	}
	if err := run(dir, true); err != nil {
		t.Fatalf("check after generating: %v", err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "a.pb.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"// source: shardgen/wire/a.proto\n", "\npackage wire\n", "// A is first.\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("a.pb.go: missing %q", want)
		}
	}
	if strings.Contains(string(got), dir) {
		t.Errorf("a.pb.go names the directory %s", dir)
	}
	if _, err := os.Stat(filepath.Join(dir, "gone.pb.go")); !os.IsNotExist(err) {
		t.Errorf("left-over gone.pb.go: got %v, want it removed", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "handwritten.go")); err != nil {
		t.Errorf("a hand-written file was touched: %v", err)
	}
}

func TestErrors(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"empty directory", nil, "no .proto files"},
		{"syntax", map[string]string{"a.proto": header + "message A { B }\n"}, "shardgen/wire/a.proto:4:"},
		{"plain import", map[string]string{"a.proto": header + "import \"b.proto\";\n"}, `imported as "shardgen/wire/b.proto"`},
		{"other package", map[string]string{"a.proto": "syntax = \"proto3\";\noption go_package = \"example.com/x\";\n"}, "example.com/x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, tt.files)
			if err := run(dir, false); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}
