package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// snippets matches the Go blocks of a page.
var snippets = regexp.MustCompile("(?s)```go\n(.*?)```")

// codeLines returns the non-empty lines of Go text without indentation, with a newline before and
// after each.
func codeLines(text string) string {
	var b strings.Builder
	b.WriteByte('\n')
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// TestSnippetsAreCompiled checks that each Go block of a page is an excerpt of a file in examples
// or of a testable example, so that it compiles and is tested.
func TestSnippetsAreCompiled(t *testing.T) {
	var sources []string
	for _, f := range loadTree(t) {
		if f.generated || !under(f.dir, "examples") && !strings.HasSuffix(f.path, "example_test.go") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(root, f.path))
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, codeLines(string(b)))
	}
	seen := 0
	for _, page := range pages(t) {
		if isDecision(page) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range snippets.FindAllStringSubmatch(string(b), -1) {
			seen++
			if want := codeLines(m[1]); !anyContains(sources, want) {
				t.Errorf("%s: no file in examples has this (put it there, or copy it from there):%s", page, want)
			}
		}
	}
	if seen < 10 {
		t.Errorf("%d snippets, want 10 and more: the test tests nothing", seen)
	}
}

func anyContains(texts []string, part string) bool {
	for _, text := range texts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}
