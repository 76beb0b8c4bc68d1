package arch

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages are the documents for users, below the repository's root.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{"README.md", "CHANGELOG.md"}
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(docs) == 0 {
		t.Fatalf("no pages in docs: %v", err)
	}
	for _, path := range docs {
		found = append(found, filepath.Join("docs", filepath.Base(path)))
	}
	return found
}

var (
	links    = regexp.MustCompile(`\]\(([^)#\s]+)\)`)
	names    = regexp.MustCompile(`\bshard\.([A-Z]\w*)`)
	commands = regexp.MustCompile("go (?:run|build|test)[^\n`]*? (\\./[^\\s`]+)")
	inBench  = regexp.MustCompile(`go (?:run|test) -C bench `)
)

// TestPagesPointAtWhatIsThere: links between pages, packages that commands name,
// and names of package shard.
func TestPagesPointAtWhatIsThere(t *testing.T) {
	declared := exported(t, "runtime")
	seen := 0
	for _, page := range pages(t) {
		b, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		there := func(what, path string) {
			seen++
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %s points at nothing (mend the page)", page, what)
			}
		}
		for _, m := range links.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(m[1], "://") {
				there("the link "+m[1], filepath.Join(root, filepath.Dir(page), m[1]))
			}
		}
		for _, m := range commands.FindAllStringSubmatch(text, -1) {
			below := root
			if inBench.MatchString(m[0]) {
				below = filepath.Join(root, "bench")
			}
			if path := strings.TrimSuffix(m[1], "..."); path != "./" {
				there("the command "+m[0], filepath.Join(below, path))
			}
		}
		for _, m := range names.FindAllStringSubmatch(text, -1) {
			seen++
			if !declared[m[1]] && m[1] != "X" {
				t.Errorf("%s: package shard has no %s (renamed?)", page, m[1])
			}
		}
	}
	if seen < 50 {
		t.Errorf("%d references were looked at, want 50 and more: the test tests nothing", seen)
	}
}

// exported are the package-level names of the package in a folder.
func exported(t *testing.T, dir string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, f := range loadTree(t) {
		if f.dir != dir || f.test {
			continue
		}
		for _, d := range f.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					found[d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						found[s.Name.Name] = true
					case *ast.ValueSpec:
						for _, n := range s.Names {
							found[n.Name] = true
						}
					}
				}
			}
		}
	}
	return found
}
