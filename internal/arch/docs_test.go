package arch

import (
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/singleton"
)

// pages returns the paths of all Markdown files, relative to the repository's root. In decision
// records only links are tested: names in them need not exist in today's code.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			found = append(found, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil || len(found) < 20 {
		t.Fatalf("%d pages: %v", len(found), err)
	}
	return found
}

// isDecision reports whether a page is a decision record.
func isDecision(page string) bool {
	return strings.HasPrefix(page, "docs/adr/") && !strings.HasSuffix(page, "README.md")
}

var (
	links    = regexp.MustCompile(`\]\(([^)#\s]+)\)`)
	names    = regexp.MustCompile(`\bshard\.([A-Z]\w*)`)
	members  = regexp.MustCompile(`\b((?:singleton\.)?[A-Z]\w*)((?:\.[A-Z]\w*)+)`)
	called   = regexp.MustCompile("`node\\.([A-Z]\\w*)") // of a variable that is a node
	commands = regexp.MustCompile("go (?:run|build|test)[^\n`]*? (\\./[^\\s`]+)")
	inBench  = regexp.MustCompile(`go (?:run|test) -C (bench(?:/peers)?) `)
)

// membersOf has the types of package shard whose fields and methods pages name without the package,
// as in Config.Membership.Downing or Node.Locate.
var membersOf = map[string]reflect.Type{
	"Config":            reflect.TypeFor[shard.Config](),
	"Membership":        reflect.TypeFor[membership.Options](),
	"RememberOptions":   reflect.TypeFor[shard.RememberOptions](),
	"singleton.Options": reflect.TypeFor[singleton.Options](),
	"LeastShards":       reflect.TypeFor[shard.LeastShards](),
	"ShardState":        reflect.TypeFor[shard.ShardState](),
	"Shards":            reflect.TypeFor[shard.Shards](),
	"Location":          reflect.TypeFor[shard.Location](),
	"EntityError":       reflect.TypeFor[shard.EntityError](),
	"CallError":         reflect.TypeFor[shard.CallError](),
	"Node":              reflect.TypeFor[*shard.Node](),
	"Conn":              reflect.TypeFor[*shard.Conn](),
}

// missingMember returns the first part of path, such as Membership.Downing, that type t does not
// have; "" if t has all of them.
func missingMember(t reflect.Type, path string) string {
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		method := t
		if t.Kind() == reflect.Struct {
			method = reflect.PointerTo(t)
		}
		if _, ok := method.MethodByName(part); ok {
			return ""
		}
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return part
		}
		field, ok := t.FieldByName(part)
		if !ok || !field.IsExported() {
			return part
		}
		t = field.Type
	}
	return ""
}

// TestMissingMember checks that missingMember finds missing names, also in a nested struct.
func TestMissingMember(t *testing.T) {
	for name, want := range map[string]string{
		"Config.Lanes": "", "Config.Lane": "Lane", "Config.Membership.Downing": "", "Config.Membership.Drowning": "Drowning",
		"Config.Lanes.More": "More", "Config.SmallCluster": "SmallCluster", "Node.Locate": "", "Node.Find": "Find",
		"Shards.Silent": "", "Shards.Loud": "Loud",
	} {
		root, path, _ := strings.Cut(name, ".")
		if got := missingMember(membersOf[root], path); got != want {
			t.Errorf("%s: %q is missing, want %q", name, got, want)
		}
	}
}

// TestPagesPointAtWhatIsThere checks that what pages refer to exists: linked pages, packages in
// commands, names of package shard, and fields and methods of its types.
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
				t.Errorf("%s: %s does not exist (correct the page)", page, what)
			}
		}
		for _, m := range links.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(m[1], "://") && filepath.Base(page) != "template.md" {
				there("the link "+m[1], filepath.Join(root, filepath.Dir(page), m[1]))
			}
		}
		if isDecision(page) {
			continue
		}
		for _, m := range commands.FindAllStringSubmatch(text, -1) {
			below := root
			if in := inBench.FindStringSubmatch(m[0]); in != nil {
				below = filepath.Join(root, in[1])
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
		for _, m := range called.FindAllStringSubmatch(text, -1) {
			seen++
			if missing := missingMember(membersOf["Node"], m[1]); missing != "" {
				t.Errorf("%s: %s`: a node has no %s (correct the page)", page, m[0], missing)
			}
		}
		for _, m := range members.FindAllStringSubmatch(text, -1) {
			of, ok := membersOf[m[1]]
			if !ok || m[2] == ".X" {
				continue
			}
			seen++
			if missing := missingMember(of, m[2]); missing != "" {
				t.Errorf("%s: %s: there is no %s (correct the page)", page, m[0], missing)
			}
		}
	}
	if seen < 50 {
		t.Errorf("%d references were looked at, want 50 and more: the test tests nothing", seen)
	}
}

// TestGuidesNameTheQueries checks that the guide to operating names all queries of a node.
func TestGuidesNameTheQueries(t *testing.T) {
	const page = "docs/guide/operating.md"
	b, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"LocalShards", "Shards", "TypeNames", "Locate"} {
		if !strings.Contains(string(b), "node."+query+"(") {
			t.Errorf("%s: node.%s is missing", page, query)
		}
		if missing := missingMember(membersOf["Node"], query); missing != "" {
			t.Errorf("Node has no %s", missing)
		}
	}
}

// exported returns the exported package-level names of the package in dir.
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

var decisionName = regexp.MustCompile(`^(\d{4}|\d{4}-\d\d-\d\d)-[a-z0-9-]+\.md$`)

// TestDecisionsAreListed checks that each decision record has a number, or a date until it gets
// one, and that the index lists the numbered ones with their titles.
func TestDecisionsAreListed(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(root, "docs", "adr", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]string{}
	for _, page := range pages(t) {
		name := filepath.Base(page)
		if !isDecision(page) || name == "template.md" {
			continue
		}
		m := decisionName.FindStringSubmatch(name)
		if m == nil {
			t.Errorf("%s: want NNNN-title.md, or YYYY-MM-DD-title.md until it is listed in README.md", page)
			continue
		}
		if len(m[1]) > 4 {
			continue
		}
		if other := numbers[m[1]]; other != "" {
			t.Errorf("%s and %s have one number", page, other)
		}
		numbers[m[1]] = page
		b, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(string(b), "# "), "\n")
		if row := "| [" + m[1] + "](" + name + ") | " + title + " |\n"; !strings.Contains(string(index), row) {
			t.Errorf("docs/adr/README.md has no row %s", row)
		}
	}
	if len(numbers) < 10 {
		t.Errorf("%d numbered decisions: the test tests nothing", len(numbers))
	}
}
