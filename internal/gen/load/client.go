package load

import (
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// An entity's client may be generated into a package of its own, which the option client= of the
// directive names. Then packages whose entities call each other import each other's clients without
// an import cycle, and callers do not link the entity's dependencies. The client uses the types of
// ids, arguments and results, and the declared errors. So these must be declared outside the
// entity's package. The client's package is a [unit] of its own.

// ownerOf returns the path of the entities' package if p's generated file holds only clients of
// these entities, and "" otherwise.
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

// clientUnits holds the units of the packages that clients are generated into.
type clientUnits struct {
	of      *unit
	claimed map[string]string // path of the entities' package, by path of the client's package; shared by all units
	units   map[string]*unit  // by path
}

// unit returns where n's client is generated: the package in client=, or the entity's own.
func (s *clientUnits) unit(n *model.Entity, m *marked) *unit {
	path := clientOf(m.directive)
	if path == "" {
		return s.of
	}
	h := s.units[path]
	if h == nil {
		var ok bool
		if h, ok = s.newClientUnit(path, m); !ok {
			return s.of
		}
		s.units[path] = h
	}
	n.Client = path
	s.of.packages[path] = h.model.Name
	h.model.Entities = append(h.model.Entities, n)
	h.marked = append(h.marked, m)
	return h
}

// newClientUnit makes the unit of the client's package at path, or adds a diagnostic and returns
// false.
func (s *clientUnits) newClientUnit(path string, m *marked) (*unit, bool) {
	fail := func(remedy, format string, args ...any) (*unit, bool) {
		s.of.add(m.directive.Slash, CodeClient, remedy, "client="+path+": "+format, args...)
		return nil, false
	}
	p := s.of.loader.clients[path]
	module := s.of.pkg.Module
	switch {
	case p == nil:
		return fail("write a path like client="+s.of.pkg.PkgPath+"api", "not an import path")
	case path == s.of.pkg.PkgPath:
		return fail("leave client= out", "it is the entity's own package")
	case s.claimed[path] != "":
		return fail("name another package", "it already holds the clients of %s", s.claimed[path])
	case module == nil || path != module.Path && !strings.HasPrefix(path, module.Path+"/"):
		return fail("name one of the entity's module: client="+s.of.pkg.PkgPath+"api", "not in the entity's module")
	}
	h := newUnit(s.of.report, p, s.of.loader, s.claimed)
	h.entities, h.model.Owner = s.of.entities, s.of.pkg.PkgPath
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
		return fail("name another package", "it has entities of its own")
	case !token.IsIdentifier(p.Name) || p.Name == "main":
		return fail("name another package", "%s cannot be imported", p.Name)
	case importsPackage(h.pkg, h.model.Owner):
		return fail("move the declarations that it needs from there into it", "it imports %s, which must import it", s.of.pkg.PkgPath)
	}
	s.claimed[path] = s.of.pkg.PkgPath
	return h, true
}

// finishClients completes the models of clients' packages. All entities must have been read before.
func (s *clientUnits) finishClients() {
	u := s.of
	foreign := slices.DeleteFunc(slices.Clone(u.model.Errors), func(e *model.Error) bool { return !e.Foreign() })
	paths := make([]string, 0, len(s.units))
	for path := range s.units {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		h := s.units[path]
		h.unusedMethodDirectives()
		h.declaredErrors()
		importsOfErrors(h.source)
		passedOn(u.source, h.source)
		for _, e := range foreign {
			h.packages[e.Var.Path] = u.packages[e.Var.Path]
			addForeign(h.model, e)
		}
		h.addresses.unusedAddresses()
		h.crossing.checkOneofs()
		setTraits(h.crossing.list)
		h.nameAll()
		u.model.Clients = append(u.model.Clients, h.model)
	}
	if len(s.units) == 0 || slices.ContainsFunc(u.model.Entities, func(n *model.Entity) bool { return n.Client == "" }) {
		return
	}
	for _, m := range u.errors {
		if !declaresForeign(m) {
			u.add(m.directive.Slash, CodeError, "declare it in "+paths[0], "//shard:error: clients of this package's entities do not import this package")
		}
	}
}

// called returns how a diagnostic in package s refers to package about.
func called(s, about *unit) string {
	if s == about {
		return "this package"
	}
	return s.pkg.PkgPath
}

func importsPackage(p *packages.Package, path string) bool {
	for _, file := range p.Syntax {
		for _, spec := range file.Imports {
			if spec.Path.Value == `"`+path+`"` {
				return true
			}
		}
	}
	return false
}
