package load

import (
	"slices"
	"strconv"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type namer struct {
	*directives
	types []*model.Type
	taken map[string]bool
}

// fixed are the packages that any generated file may import.
var fixed = map[string]string{
	"context":                              "context",
	"errors":                               "errors",
	"github.com/shardgen/shardgen/runtime": "shard",
	codegenPath:                            "codegen",
}

// sortedImports puts fixed packages first, so that they keep their names.
func sortedImports(used map[string]string) []string {
	var first, rest []string
	for path := range used {
		if _, ok := fixed[path]; ok {
			first = append(first, path)
		} else {
			rest = append(rest, path)
		}
	}
	slices.Sort(first)
	slices.Sort(rest)
	return append(first, rest...)
}

// nameAll gives types and imports unique names. It reports the user's declarations that take a name
// of generated code.
func (s *namer) nameAll() {
	taken := s.taken
	for _, name := range s.pkg.Types.Scope().Names() {
		taken[name] = true
	}
	for _, name := range s.pkg.Types.Scope().Names() {
		if o := s.pkg.Types.Scope().Lookup(name); model.IsPredeclared(name) {
			s.add(o.Pos(), CodeTaken, "rename it, or move the entity to a package of its own",
				"%s: generated code in this package needs Go's own %s", name, name)
		}
	}
	for _, a := range s.model.Aliases {
		taken[a.Alias] = true
	}
	for i, n := range s.model.Entities {
		if n.Client == "" || s.model.Owner != "" {
			n.Distinguish(taken)
		}
		names := n.Declares()
		if s.model.Owner != "" {
			names = n.DeclaredByClient()
		}
		s.checkDeclares(n, s.marked[i], names)
	}
	if o := s.pkg.Types.Scope().Lookup(model.ErrorsFunc); o != nil {
		s.add(o.Pos(), CodeTaken, "rename it", "%s: generated code for the clients declares this name", model.ErrorsFunc)
	}
	taken[model.ErrorsFunc] = true
	if o := s.pkg.Types.Scope().Lookup(model.OneofsFunc); o != nil {
		s.add(o.Pos(), CodeTaken, "rename it", "%s: generated code for the clients declares this name", model.OneofsFunc)
	}
	taken[model.OneofsFunc] = true
	for _, t := range s.types {
		t.Name = s.typeName(t.Expr)
		for _, f := range model.TypeFuncs(t.Name) {
			taken[f] = true
		}
	}
	s.model.Types = s.types
	s.model.Imports = s.imports()
}

// checkDeclares reserves the names that the generated code of n declares. It reports each name that
// the package or the generated code of another entity already declares.
func (s *namer) checkDeclares(n *model.Entity, m *marked, names []string) {
	taken := s.taken
	for _, name := range names {
		if !taken[name] {
			taken[name] = true
			continue
		}
		if o := s.pkg.Types.Scope().Lookup(name); o != nil {
			s.add(o.Pos(), CodeTaken, "rename it", "%s: generated code for %s declares this name", name, n.Name)
		} else {
			s.add(m.spec.Pos(), CodeTaken, "rename one of them", "%s: generated code for it and for another entity both declare %s", n.Name, name)
		}
	}
}

func (s *namer) typeName(x *model.Expr) string {
	base := s.plainName(x)
	for i := 1; ; i++ {
		name := base
		if i > 1 {
			name += strconv.Itoa(i)
		}
		if !slices.ContainsFunc(model.TypeFuncs(name), func(f string) bool { return s.taken[f] }) {
			return name
		}
	}
}

// imports returns the packages that generated code may import, under free names.
func (s *namer) imports() []model.Import {
	used := make(map[string]string)
	for path, name := range fixed {
		used[path] = name
	}
	use := func(x *model.Expr) { s.usePackages(x, used) }
	for _, n := range s.model.Entities {
		use(n.ID.Type)
		if s.model.Owner == "" {
			for _, f := range n.State {
				use(f.Type.Expr)
			}
			for _, f := range n.Own {
				use(f.Lock)
			}
			if n.Journal != nil {
				use(n.Journal.Event.Type.Expr)
				used["iter"], used["time"] = "iter", "time"
			}
		}
		if s.model.Owner == "" && n.Client != "" {
			used[n.Client] = s.packages[n.Client]
			continue
		}
		for _, m := range n.Methods {
			for _, p := range slices.Concat(m.Params, m.Results) {
				use(p.Type.Expr)
			}
		}
	}
	for _, path := range s.model.ErrorImports {
		used[path] = s.packages[path]
	}
	for _, e := range s.model.Errors {
		use(e.Var)
	}
	for _, t := range s.types {
		use(t.Expr)
		for _, f := range t.Skipped {
			use(f.Expr)
		}
	}
	delete(used, s.pkg.PkgPath)
	var imports []model.Import
	names := make(map[string]bool)
	for _, path := range sortedImports(used) {
		i := model.Import{Path: path, Name: used[path]}
		for n := 2; s.taken[i.Name] || names[i.Name]; n++ {
			i.Name = used[path] + strconv.Itoa(n)
		}
		// The folder of the shard package has another name, so its import gets an
		// explicit one.
		i.Alias = i.Name != used[path] || i.Name == "shard" && path == "github.com/shardgen/shardgen/runtime"
		names[i.Name] = true
		imports = append(imports, i)
	}
	return imports
}

func (s *namer) usePackages(x *model.Expr, used map[string]string) {
	if x == nil {
		return
	}
	if x.Op == model.Named && x.Path != "" {
		if name, ok := s.packages[x.Path]; ok {
			used[x.Path] = name
		}
	}
	for _, a := range x.Args {
		s.usePackages(a, used)
	}
	s.usePackages(x.Key, used)
	s.usePackages(x.Elem, used)
}
