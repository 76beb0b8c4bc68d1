package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// pure lists the packages of the cores, and packages or files that simulations run together with
// cores. Their input is values, and their output is values that say what is to be done, so that a
// simulated run can be replayed.
var pure = []string{
	"internal/driver/control",
	"internal/driver/calls",
	"internal/driver/direct/agree",
	"internal/driver/routing",
	"internal/driver/peers/stream.go",
	"internal/driver/shardhost",
	"internal/core/stream",
	"internal/core/region",
	"internal/core/durable",
	"internal/core/feed",
	"internal/core/schedule",
	"internal/core/reminders",
	"internal/core/clock",
	"runtime/coordinator",
	"internal/core/remember",
	"runtime/singleton",
	"internal/driver/singlehost",
	"runtime/membership",
	"internal/core/membership",
	"runtime/placement",
	"internal/ops/verdict",
}

// impureFiles are files of the pure packages that only a real process uses.
var impureFiles = []string{"internal/driver/calls/wait.go"}

// impureImports are packages that pure code may not import, nor the packages below them, because
// they reach outside the process.
var impureImports = []string{"os", "net", "log", "syscall", "runtime", "crypto/rand", "expvar", "plugin", "testing"}

// impureTime are the functions of package time that read the clock or wait.
var impureTime = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// pureRand are the names in the math/rand packages that do not use the global source.
var pureRand = []string{"New", "NewSource", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "Source64", "PCG", "ChaCha8", "Zipf"}

// orderTakers are the functions to which a map's iterator may be passed: their results do not
// depend on its order.
var orderTakers = []string{"slices.Sorted", "slices.SortedFunc", "slices.SortedStableFunc", "maps.Collect", "maps.Insert"}

const orderFree = "//arch:order-free"

// A finding is one violation of purity.
type finding struct {
	pos  token.Pos
	what string
}

// A purity collects the findings in one file.
type purity struct {
	fset     *token.FileSet
	file     *ast.File
	info     *types.Info
	excused  map[int]bool // lines that an order-free comment answers for
	found    []finding
	takers   map[*ast.CallExpr]bool // arguments of orderTakers
	packages map[string]string      // import path by local name
}

func findImpure(fset *token.FileSet, file *ast.File, info *types.Info) []finding {
	p := &purity{
		fset: fset, file: file, info: info,
		excused:  make(map[int]bool),
		takers:   make(map[*ast.CallExpr]bool),
		packages: make(map[string]string),
	}
	p.readComments()
	p.readImports()
	ast.Inspect(file, p.visit)
	return p.found
}

func (p *purity) report(n ast.Node, format string, args ...any) {
	p.found = append(p.found, finding{n.Pos(), fmt.Sprintf(format, args...)})
}

// readComments records the lines that an order-free comment excuses: the comment's own line and the
// next one.
func (p *purity) readComments() {
	for _, group := range p.file.Comments {
		for _, c := range group.List {
			reason, ok := strings.CutPrefix(c.Text, orderFree)
			if !ok {
				continue
			}
			if strings.TrimSpace(reason) == "" {
				p.report(c, "%s without a reason", orderFree)
			}
			line := p.fset.Position(c.Pos()).Line
			p.excused[line], p.excused[line+1] = true, true
		}
	}
}

func (p *purity) readImports() {
	for _, spec := range p.file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err) // the parser accepted it
		}
		if imported != "log/slog" && slices.ContainsFunc(impureImports, func(bad string) bool { return under(imported, bad) }) {
			p.report(spec, "imports %s", imported)
		}
		name := packageName(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		p.packages[name] = imported
	}
}

func (p *purity) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		p.report(n, "go statement")
	case *ast.SelectStmt:
		p.report(n, "select statement")
	case *ast.ChanType:
		p.report(n, "channel")
	case *ast.SelectorExpr:
		p.selector(n)
	case *ast.CallExpr:
		p.call(n)
	case *ast.RangeStmt:
		p.ranges(n)
	}
	return true
}

func (p *purity) selector(s *ast.SelectorExpr) {
	switch imported := p.packageOf(s); imported {
	case "time":
		if slices.Contains(impureTime, s.Sel.Name) {
			p.report(s, "time.%s", s.Sel.Name)
		}
	case "log/slog": // an environment writes the lines
		if !strings.HasPrefix(s.Sel.Name, "Level") {
			p.report(s, "slog.%s", s.Sel.Name)
		}
	case "math/rand", "math/rand/v2":
		if !slices.Contains(pureRand, s.Sel.Name) {
			p.report(s, "rand.%s uses the global source", s.Sel.Name)
		}
	}
}

// packageOf returns the import path of the package whose member s names, or "".
func (p *purity) packageOf(s *ast.SelectorExpr) string {
	id, ok := s.X.(*ast.Ident)
	if !ok {
		return ""
	}
	if _, ok := p.info.Uses[id].(*types.PkgName); !ok {
		return ""
	}
	return p.packages[id.Name]
}

// call reports a call that passes a map's iterator to a function outside orderTakers.
func (p *purity) call(c *ast.CallExpr) {
	name := p.function(c)
	if slices.Contains(orderTakers, name) {
		for _, arg := range c.Args {
			if inner, ok := arg.(*ast.CallExpr); ok {
				p.takers[inner] = true
			}
		}
	}
	if slices.Contains([]string{"maps.Keys", "maps.Values", "maps.All"}, name) && !p.takers[c] && !p.excuse(c) {
		p.report(c, "%s in the map's order", name)
	}
}

// function returns the name of the package-level function that c calls, or "".
func (p *purity) function(c *ast.CallExpr) string {
	s, ok := ast.Unparen(c.Fun).(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	imported := p.packageOf(s)
	if imported == "" {
		return ""
	}
	return imported + "." + s.Sel.Name
}

func (p *purity) ranges(r *ast.RangeStmt) {
	if r.Key == nil && r.Value == nil || p.excuse(r) {
		return
	}
	t := p.info.TypeOf(r.X)
	if t == nil {
		p.report(r, "range over something of unknown type")
		return
	}
	if _, ok := t.Underlying().(*types.Map); ok {
		p.report(r, "range over a map")
	}
}

func (p *purity) excuse(n ast.Node) bool { return p.excused[p.fset.Position(n.Pos()).Line] }

// packageName guesses a package's name from its import path, ignoring a major version at its end.
func packageName(imported string) string {
	name := path.Base(imported)
	if majorVersion.MatchString(name) {
		name = path.Base(path.Dir(imported))
	}
	return name
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// loadTyped loads packages with their types. Patterns are relative to the repository's root.
func loadTyped(t *testing.T, patterns ...string) []*packages.Package {
	t.Helper()
	return loadTypedTests(t, false, patterns...)
}

// loadTypedTests loads packages like loadTyped, with their tests if tests is true.
func loadTypedTests(t *testing.T, tests bool, patterns ...string) []*packages.Package {
	t.Helper()
	const mode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
		packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo
	loaded, err := packages.Load(&packages.Config{Mode: mode, Dir: root, Tests: tests}, patterns...)
	if err != nil {
		t.Fatalf("load %v: %v", patterns, err)
	}
	for _, pkg := range loaded {
		if len(pkg.Errors) > 0 {
			t.Errorf("load %s: %d errors, the first: %v", pkg.PkgPath, len(pkg.Errors), pkg.Errors[0])
		}
	}
	return loaded
}

func TestCoresArePure(t *testing.T) {
	var patterns, files []string
	for _, f := range loadTree(t) {
		if f.test || !underAny(f.path, pure) || slices.Contains(impureFiles, f.path) {
			continue
		}
		files = append(files, f.path)
		if pattern := "./" + f.dir; !slices.Contains(patterns, pattern) {
			patterns = append(patterns, pattern)
		}
	}
	if len(patterns) == 0 {
		t.Fatal("found none of the pure packages")
	}
	for _, pkg := range loadTyped(t, patterns...) {
		for _, file := range pkg.Syntax {
			name := filepath.ToSlash(pkg.Fset.Position(file.Pos()).Filename)
			if !slices.ContainsFunc(files, func(f string) bool { return strings.HasSuffix(name, "/"+f) }) {
				continue
			}
			for _, f := range findImpure(pkg.Fset, file, pkg.TypesInfo) {
				t.Errorf("%s: %s in a pure package", pkg.Fset.Position(f.pos), f.what)
			}
		}
	}
}

// TestFindImpure runs the check over testdata. Each line there that violates a rule has a comment
// want "part of the finding". A comment with the word above is about the next line.
func TestFindImpure(t *testing.T) {
	want := regexp.MustCompile(`// want (above )?"([^"]*)"`)
	for _, pkg := range loadTyped(t, "./internal/arch/testdata/pure", "./internal/arch/testdata/impure") {
		for _, file := range pkg.Syntax {
			wanted := make(map[int]string)
			for _, group := range file.Comments {
				for _, c := range group.List {
					if m := want.FindStringSubmatch(c.Text); m != nil {
						line := pkg.Fset.Position(c.Pos()).Line
						if m[1] != "" {
							line--
						}
						wanted[line] = m[2]
					}
				}
			}
			for _, f := range findImpure(pkg.Fset, file, pkg.TypesInfo) {
				at := pkg.Fset.Position(f.pos)
				if w, ok := wanted[at.Line]; !ok || !strings.Contains(f.what, w) {
					t.Errorf("%s: got %q, want %q", at, f.what, w)
				}
				delete(wanted, at.Line)
			}
			for line, w := range wanted {
				t.Errorf("%s:%d: got nothing, want %q", pkg.Fset.Position(file.Pos()).Filename, line, w)
			}
		}
	}
}
