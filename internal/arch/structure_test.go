package arch

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// A structure is what one package's files have to do with each other. Tests and
// generated files are left out.
type structure struct {
	dir      string // from the repository's root
	files    []string
	uses     map[string]map[string]bool // file to the files that declare what it uses
	methods  int
	away     []string // methods outside the file of their type, as Type.Method
	exported int      // names: of package level, and of fields and methods of exported types
}

// structureOf measures a package with types resolved.
func structureOf(p *packages.Package, dir string) *structure {
	s := &structure{dir: dir, uses: map[string]map[string]bool{}}
	generated := map[string]bool{}
	for _, f := range p.Syntax {
		name := filepath.Base(p.Fset.Position(f.FileStart).Filename)
		if generated[name] = ast.IsGenerated(f); !generated[name] {
			s.files = append(s.files, name)
			s.uses[name] = map[string]bool{}
		}
	}
	fileOf := func(pos token.Pos) string { return filepath.Base(p.Fset.Position(pos).Filename) }
	for id, o := range p.TypesInfo.Uses {
		if o.Pkg() != p.Types || !o.Pos().IsValid() {
			continue
		}
		from, to := fileOf(id.Pos()), fileOf(o.Pos())
		if from != to && !generated[from] && !generated[to] {
			s.uses[from][to] = true
		}
	}
	for _, f := range p.Syntax {
		if generated[fileOf(f.FileStart)] {
			continue
		}
		for _, d := range f.Decls {
			d, ok := d.(*ast.FuncDecl)
			if !ok || d.Recv == nil {
				continue
			}
			s.methods++
			fn := p.TypesInfo.Defs[d.Name].(*types.Func)
			if named := receiver(fn); named != nil && fileOf(named.Obj().Pos()) != fileOf(d.Pos()) {
				s.away = append(s.away, named.Obj().Name()+"."+fn.Name())
			}
		}
	}
	s.exported = exportedNames(p.Types, func(o types.Object) bool { return !generated[fileOf(o.Pos())] })
	slices.Sort(s.files)
	slices.Sort(s.away)
	return s
}

// receiver is the named type that fn is a method of.
func receiver(fn *types.Func) *types.Named {
	t := fn.Signature().Recv().Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	named, _ := t.(*types.Named)
	return named
}

// exportedNames counts what a package offers.
func exportedNames(p *types.Package, counts func(types.Object) bool) (n int) {
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() || !counts(o) {
			continue
		}
		n++
		named, ok := o.Type().(*types.Named)
		if _, isType := o.(*types.TypeName); !isType || !ok || named.Obj().Pkg() != p {
			continue
		}
		for m := range named.Methods() {
			if m.Exported() {
				n++
			}
		}
		if st, ok := named.Underlying().(*types.Struct); ok {
			for f := range st.Fields() {
				if f.Exported() {
					n++
				}
			}
		}
	}
	return n
}

// largestCycle is the largest set of files that all depend on each other.
func (s *structure) largestCycle() (largest []string) {
	// Tarjan, SIAM J. Comput. 1 (1972): strongly connected components.
	index, low, onStack := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(v string)
	visit = func(v string) {
		index[v] = len(index) + 1
		low[v] = index[v]
		stack = append(stack, v)
		onStack[v] = true
		for _, w := range slices.Sorted(maps.Keys(s.uses[v])) {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if onStack[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		at := slices.Index(stack, v)
		component := slices.Clone(stack[at:])
		for _, w := range component {
			onStack[w] = false
		}
		stack = stack[:at]
		if len(component) > len(largest) {
			largest = component
		}
	}
	for _, f := range s.files {
		if index[f] == 0 {
			visit(f)
		}
	}
	slices.Sort(largest)
	return largest
}

// How far files of a package may depend on each other, and methods may stand outside
// the file of their type.
const (
	maxCycle = 15 // files
	maxAway  = 5  // percent of the methods, and never less than minAway
	minAway  = 1  // of a package of few methods
)

// awayAllowed are the packages with more methods outside the file of their type. It only shrinks.
var awayAllowed = map[string]int{
	"internal/sim/scenario": 3,
	"store/memory":          3,
}

// maxExported bounds the exported names of the public packages from runtime down. It is
// only ever lowered, but for a feature of its own: package shard had 298 before it had the caller's
// identity, headers and interceptors, and health, and 332 before it was measured and had direct lanes.
// Package codegen had 233 before members reported hashes of contracts, and 234 before turns of methods
// without a named context, and references that are made for each call, took no memory.
var maxExported = map[string]int{
	"runtime":            343,
	"runtime/codegen":    237,
	"runtime/membership": 87,
	"runtime/placement":  72,
}

// maxPublic bounds the exported names of all public packages outside package shard together,
// of which there were 1,442 once. It is only ever lowered, but for a feature of its own: see
// maxExported for package codegen. Packages for features that came
// later are not among them; maxLater bounds each.
const maxPublic = 595

// maxLater bounds the exported names of public packages that came later. Package natsstore had 19
// before members reported how their store lies.
var maxLater = map[string]int{
	"runtime/health":    2,
	"runtime/measure":   36,
	"store":             86,
	"store/conformance": 12,
	"store/memory":      60,
	"store/nats":        20,
	"shardtest":         70,
}

// public reports whether users may import the package, and it is not package shard.
func public(dir string) bool {
	return dir != "runtime" && !slices.ContainsFunc([]string{"internal", "examples", "cmd", "bench"}, func(folder string) bool { return under(dir, folder) })
}

// TestStructure fails when a package gets worse than it is.
func TestStructure(t *testing.T) {
	var dirs []string
	for _, f := range loadTree(t) {
		if !f.nested && !f.test && !slices.Contains(dirs, "./"+f.dir) {
			dirs = append(dirs, "./"+f.dir)
		}
	}
	exported, methods, away, cycle := 0, 0, 0, 0
	for _, p := range loadTyped(t, dirs...) {
		dir := strings.TrimPrefix(strings.TrimPrefix(p.PkgPath, module), "/")
		s := structureOf(p, dir)
		s.check(t)
		methods, away, cycle = methods+s.methods, away+len(s.away), max(cycle, len(s.largestCycle()))
		if limit, later := maxLater[dir]; later {
			if s.exported > limit {
				t.Errorf("%s exports %d names, at most %d may be", dir, s.exported, limit)
			}
		} else if public(dir) {
			exported += s.exported
		}
	}
	if exported > maxPublic {
		t.Errorf("public packages export %d names outside package shard, at most %d may be", exported, maxPublic)
	}
	t.Logf("public packages export %d names outside package shard; %d of %d methods stand outside the file of their type; at most %d files of a package depend on each other",
		exported, away, methods, cycle)
}

// check holds a package to its bounds.
func (s *structure) check(t *testing.T) {
	if cycle := s.largestCycle(); len(cycle) > maxCycle {
		t.Errorf("%s: %d files depend on each other, at most %d may: %v", s.dir, len(cycle), maxCycle, cycle)
	}
	limit := max(minAway, s.methods*maxAway/100)
	if allowed, ok := awayAllowed[s.dir]; ok {
		if limit = max(limit, allowed); len(s.away) < allowed {
			t.Errorf("%s: %d methods stand outside the file of their type: lower its number in awayAllowed from %d", s.dir, len(s.away), allowed)
		}
	}
	if len(s.away) > limit {
		t.Errorf("%s: %d of %d methods stand outside the file of their type, at most %d may: %v",
			s.dir, len(s.away), s.methods, limit, s.away)
	}
	if limit, ok := maxExported[s.dir]; ok && s.exported > limit {
		t.Errorf("%s exports %d names, at most %d may be", s.dir, s.exported, limit)
	}
}
