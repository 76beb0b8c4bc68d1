package load

import (
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/packages"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// A unit is one package for which code is generated: code for entities, or for clients alone. One
// goroutine loads all packages, one after another. So the units share the report and the map of
// clients' packages without locks.
type unit struct {
	directives
	crossing  *crossing
	addresses *addresses
	clients   *clientUnits
}

func newUnit(r *report, p *packages.Package, l *loader, claimed map[string]string) *unit {
	s := newSource(r, p, l)
	c := newCrossing(s)
	u := &unit{
		directives: directives{source: s, methods: make(map[token.Pos]*methodDirective)},
		crossing:   c,
		addresses:  &addresses{source: s, crossing: c, byField: make(map[*types.Var]*address)},
	}
	u.clients = &clientUnits{of: u, claimed: claimed, units: make(map[string]*unit)}
	return u
}

func loadPackage(r *report, p *packages.Package, l *loader, claimed map[string]string) *unit {
	s := newUnit(r, p, l, claimed)
	if s.syntaxErrors() || s.severalPackages() {
		return s
	}
	testDirectives(s.report, s.model.Dir)
	s.findDirectives()
	for _, m := range s.marked {
		s.entities[m.object] = true
		n := &model.Entity{Name: m.object.Name(), Singleton: m.singleton(), Pool: m.pool()}
		for _, name := range append(n.Exported(), n.Message()) {
			s.expected[name] = true
		}
	}
	if len(s.marked) == 0 {
		s.unusedMethodDirectives()
		s.model.Owner = ownerOf(p)
		return s
	}
	for _, m := range s.marked {
		s.model.Entities = append(s.model.Entities, s.entity(m))
	}
	s.unusedMethodDirectives()
	s.declaredErrors()
	if slices.ContainsFunc(s.model.Entities, func(n *model.Entity) bool { return n.Client == "" }) {
		importsOfErrors(s.source)
	}
	checkKinds(&s.directives)
	s.clients.finishClients()
	s.addresses.unusedAddresses()
	s.crossing.checkOneofs()
	constrain(&s.directives)
	setTraits(s.crossing.list)
	s.nameAll()
	s.missingImports()
	return s
}

func (s *unit) entity(m *marked) *model.Entity {
	n := &model.Entity{Name: m.object.Name(), Kind: m.object.Name(), Shards: defaultShards}
	if m.singleton() {
		n.Singleton, n.Shards = true, 1
	}
	n.Pool = m.pool()
	h := s.clients.unit(n, m)
	id := (&fieldReader{s, n, h}).fields(m)
	(&optionReader{s, n, m, h, id}).readOptions()
	(&methodReader{s, n, h}).readMethods(m)
	h.addresses.addressed(n, m, s.pkg.Types, id)
	n.Own = entityFields(&s.crossing.typeWriter, m.object.Type().Underlying().(*types.Struct))
	n.MethodCount = exportedMethods(m.object.Type().(*types.Named))
	return n
}

func (s *unit) declaredErrors() { (&errorReader{&s.directives, s.crossing}).declaredErrors() }

func (s *unit) nameAll() {
	(&namer{&s.directives, s.crossing.list, make(map[string]bool)}).nameAll()
}
