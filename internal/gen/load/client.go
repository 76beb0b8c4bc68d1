package load

import (
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// An entity's client may be in a package of its own. Packages that call each other then
// import each other's clients, without a cycle of imports, and callers do not link the
// entity's dependencies. The types of the client, which are those of ids, arguments and
// results and the declared errors, cannot then be declared beside the entity. The
// directive names the package of the client; the source of that package is called a
// home here.

// clientOption is the option that names the package.
const clientOption = "client"

// clientPaths are the packages that readable directives name.
func clientPaths(list []*packages.Package) []string {
	var paths []string
	for _, p := range list {
		for _, file := range p.Syntax {
			for _, group := range file.Comments {
				for _, c := range group.List {
					if path := clientPath(c); isImportPath(path) {
						paths = append(paths, path)
					}
				}
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// clientPath is the package that a comment names, or "".
func clientPath(c *ast.Comment) string {
	d, ok := ast.ParseDirective(c.Slash, c.Text)
	if !ok || d.Tool != "shard" || !slices.Contains(entityDirectives, d.Name) {
		return ""
	}
	return clientOf(d)
}

// clientOf is the package that a directive names for the client, or "".
func clientOf(d ast.Directive) string {
	args, err := d.ParseArgs()
	if err != nil {
		return ""
	}
	for _, a := range args {
		if key, value, _ := strings.Cut(a.Arg, "="); key == clientOption {
			return value
		}
	}
	return ""
}

// importPath matches import paths of packages of a module. It keeps patterns and flags
// from reaching the go command.
var importPath = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.~-]*(/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)*$`)

func isImportPath(s string) bool { return importPath.MatchString(s) && !strings.Contains(s, "...") }

// home returns the source that an entity's client is printed into: the entity's
// own package, unless its directive names another.
func (s *source) home(n *model.Entity, m *marked) *source {
	path := clientOf(m.directive)
	if path == "" {
		return s
	}
	h := s.homes[path]
	if h == nil {
		var ok bool
		if h, ok = s.newHome(path, m); !ok {
			return s
		}
		s.homes[path] = h
	}
	n.Client = path
	h.model.Entities = append(h.model.Entities, n)
	h.marked = append(h.marked, m)
	return h
}

// newHome makes the source of a client's package, with a diagnostic at the
// directive if it cannot be one.
func (s *source) newHome(path string, m *marked) (*source, bool) {
	fail := func(remedy, format string, args ...any) (*source, bool) {
		s.add(m.directive.Slash, CodeClient, remedy, "client="+path+": "+format, args...)
		return nil, false
	}
	p := s.loader.clients[path]
	module := s.pkg.Module
	switch {
	case p == nil:
		return fail("write a path like client="+s.pkg.PkgPath+"api", "not an import path")
	case path == s.pkg.PkgPath:
		return fail("leave it out", "it is the entity's own package")
	case s.claimed[path] != "":
		return fail("name another", "it holds the clients of %s", s.claimed[path])
	case module == nil || path != module.Path && !strings.HasPrefix(path, module.Path+"/"):
		return fail("name one of the entity's module: client="+s.pkg.PkgPath+"api", "not in the entity's module")
	}
	h := newSource(s.report, p, s.loader, s.claimed)
	h.entities, h.model.Owner = s.entities, s.pkg.PkgPath
	if len(p.GoFiles) == 0 {
		h.model.Dir = filepath.Join(module.Dir, filepath.FromSlash(strings.TrimPrefix(path, module.Path)))
		p.Name = packageName(path)
		p.Types = types.NewPackage(path, p.Name)
	} else if h.syntaxErrors() {
		return nil, false
	}
	h.model.Name = p.Name
	h.findDirectives()
	switch {
	case len(h.marked) > 0:
		return fail("name another", "it has entities of its own")
	case !token.IsIdentifier(p.Name) || p.Name == "main":
		return fail("name another", "%s cannot be imported", p.Name)
	case h.importsOwner():
		return fail("move the declarations that it needs from there into it", "it imports %s", s.pkg.PkgPath)
	}
	s.claimed[path] = s.pkg.PkgPath
	return h, true
}

// called returns the name of this package in a diagnostic about another.
func (s *source) called(about *source) string {
	if s == about {
		return "this package"
	}
	return s.pkg.PkgPath
}

// packageName guesses a package's name from its path.
func packageName(p string) string {
	name := path.Base(p)
	if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
		name = path.Base(path.Dir(p))
	}
	return name
}

// importsOwner reports whether the files of a client's package import the
// entity's.
func (s *source) importsOwner() bool {
	for _, file := range s.pkg.Syntax {
		for _, spec := range file.Imports {
			if spec.Path.Value == `"`+s.model.Owner+`"` {
				return true
			}
		}
	}
	return false
}

// finishHomes completes the models of the clients' packages.
func (s *source) finishHomes() {
	foreign := slices.DeleteFunc(slices.Clone(s.model.Errors), func(e *model.Error) bool { return !e.Foreign() })
	paths := make([]string, 0, len(s.homes))
	for path := range s.homes {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		h := s.homes[path]
		h.unusedMethodDirectives()
		h.declaredErrors()
		h.importsOfErrors()
		s.passedOn(h)
		for _, e := range foreign {
			h.packages[e.Var.Path] = s.packages[e.Var.Path]
			h.addForeign(e)
		}
		h.unusedAddresses()
		h.checkOneofs()
		setTraits(h.crossing.list)
		h.nameAll()
		s.model.Clients = append(s.model.Clients, h.model)
	}
	if len(s.homes) == 0 || slices.ContainsFunc(s.model.Entities, func(n *model.Entity) bool { return n.Client == "" }) {
		return
	}
	for _, m := range s.errors {
		if !s.declaresForeign(m) {
			s.add(m.directive.Slash, CodeError, "declare it in "+paths[0], "//shard:error: clients of this package's entities do not import it")
		}
	}
}

// ownerOf is the package of the entities whose clients are in p, according to its
// generated file; "" if there is none.
func ownerOf(p *packages.Package) string {
	for _, name := range p.GoFiles {
		if filepath.Base(name) != model.OutputName {
			continue
		}
		if src, err := os.ReadFile(name); err == nil {
			return model.OwnerIn(string(src))
		}
	}
	return ""
}
