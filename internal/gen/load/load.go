package load

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// Options choose the packages to load.
type Options struct {
	Dir      string   // where patterns start; "" is the working directory
	Patterns []string // as of go list; none means "."
	Tags     string   // build tags, comma-separated
	Env      []string // nil: the environment of the process
}

// A Result has the declarations of the packages.
type Result struct {
	Packages []*model.Package // those with entities, in the order of their paths
	// Bare lists the folders of packages that have no entity.
	Bare []string
	// Excluded are entities in files that these build tags leave out. Their
	// generated files stay as they are.
	Excluded    []Excluded
	Diagnostics []Diagnostic
}

// Load reads packages. An error means that nothing could be read; mistakes in the
// source are diagnostics.
func Load(ctx context.Context, o Options) (*Result, error) {
	patterns := o.Patterns
	if len(patterns) == 0 {
		patterns = []string{"."}
	}
	l, found, err := loadPackages(ctx, o, patterns)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", strings.Join(patterns, " "), err)
	}
	result := &Result{}
	r := &report{fset: l.config.Fset}
	claimed := make(map[string]string) // packages of clients, by the owner's path
	var bare []*source
	for _, p := range found {
		excluded := excludedIn(p)
		result.Excluded = append(result.Excluded, excluded...)
		if len(p.GoFiles) == 0 && len(excluded) > 0 {
			continue
		}
		if len(p.GoFiles) == 0 && len(p.Syntax) == 0 {
			if err := listError(p); err != nil {
				return nil, fmt.Errorf("load %s: %w", p.PkgPath, err)
			}
			continue
		}
		s := loadPackage(r, p, l, claimed)
		if len(s.model.Entities) > 0 {
			result.Packages = append(result.Packages, s.model)
		} else if len(excluded) == 0 {
			bare = append(bare, s)
		}
	}
	for _, s := range bare {
		if claimed[s.pkg.PkgPath] != "" {
			continue
		}
		s.errorsAlone()
		if s.model.Owner == "" || l.roots[s.model.Owner] != nil {
			result.Bare = append(result.Bare, s.model.Dir)
		}
	}
	result.Diagnostics = r.sorted()
	return result, nil
}

// listError is the message of go list about a package that has no files.
func listError(p *packages.Package) error {
	var errs []error
	for _, e := range p.Errors {
		errs = append(errs, errors.New(e.Msg))
	}
	return errors.Join(errs...)
}

// parseFile parses a source file. Of earlier output it keeps only the package clause:
// its declarations are not the user's code, and may be stale.
func parseFile(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
	m := parser.SkipObjectResolution | parser.ParseComments
	if filepath.Base(name) == model.OutputName && Generated(src) {
		m = parser.PackageClauseOnly
	}
	return parser.ParseFile(fset, name, src, m)
}

// Generated reports whether src is output of this generator.
func Generated(src []byte) bool {
	return model.Generated(string(src))
}

// A source is one package of the user while its model is made.
type source struct {
	*report
	pkg              *packages.Package
	model            *model.Package
	marked           []*marked
	entities         map[*types.TypeName]bool       // the types that are entities
	expected         map[string]bool                // exported names that will be generated in this package
	reported         map[token.Pos]bool             // fields at which a refusal was reported
	addresses        map[*types.Var]*address        // fields tagged id of structs that are the only parameter of methods
	packages         map[string]string              // names of packages by path
	methodDirectives map[token.Pos]*methodDirective // by the position of the method's name
	errors           []markedError
	oneofs           map[*types.TypeName]*oneof // interfaces with the directive
	syntax           *syntax
	crossing         *crossing
	loader           *loader
	claimed          map[string]string  // packages of clients, by the owner's path
	homes            map[string]*source // of the clients of entities, by path
}

func newSource(r *report, p *packages.Package, l *loader, claimed map[string]string) *source {
	s := &source{
		report: r, pkg: p, loader: l, claimed: claimed,
		model:            &model.Package{Path: p.PkgPath, Name: p.Name},
		entities:         make(map[*types.TypeName]bool),
		expected:         make(map[string]bool),
		reported:         make(map[token.Pos]bool),
		addresses:        make(map[*types.Var]*address),
		packages:         make(map[string]string),
		methodDirectives: make(map[token.Pos]*methodDirective),
		homes:            make(map[string]*source),
		oneofs:           make(map[*types.TypeName]*oneof),
		syntax:           newSyntax(p.Syntax),
	}
	if len(p.GoFiles) > 0 {
		s.model.Dir = filepath.Dir(p.GoFiles[0])
	}
	s.crossing = newCrossing(s)
	return s
}

// loadPackage makes the model of one package.
func loadPackage(r *report, p *packages.Package, l *loader, claimed map[string]string) *source {
	s := newSource(r, p, l, claimed)
	if s.syntaxErrors() || s.severalPackages() {
		return s
	}
	s.testDirectives(s.model.Dir)
	s.findDirectives()
	for _, m := range s.marked {
		s.entities[m.object] = true
		n := &model.Entity{Name: m.object.Name(), Singleton: m.singleton()}
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
		s.importsOfErrors()
	}
	s.checkKinds()
	s.finishHomes()
	s.unusedAddresses()
	s.checkOneofs()
	s.constrain()
	setTraits(s.crossing.list)
	s.nameAll()
	s.missingImports()
	return s
}

// syntaxErrors reports the files that do not parse: the parser may have skipped a
// message.
func (s *source) syntaxErrors() bool {
	found := false
	for _, e := range s.pkg.Errors {
		if e.Kind == packages.ParseError {
			s.list = append(s.list, Diagnostic{parsePosition(e.Pos), CodeSyntax, e.Msg, ""})
			found = true
		}
	}
	return found
}

// severalPackages reports files whose package clause differs from that of the first
// file.
func (s *source) severalPackages() bool {
	found := false
	for _, file := range s.pkg.Syntax {
		if first := s.pkg.Syntax[0].Name.Name; file.Name.Name != first && first != "documentation" {
			s.add(file.Name.Pos(), CodePackage, "a folder holds one package", "this folder has package %s, too", first)
			found = true
		}
	}
	return found
}

// parsePosition reads file:line:col.
func parsePosition(pos string) token.Position {
	p := token.Position{Filename: pos}
	for _, field := range []*int{&p.Column, &p.Line} {
		i := strings.LastIndexByte(p.Filename, ':')
		if i < 0 {
			return token.Position{Filename: pos}
		}
		n, err := strconv.Atoi(p.Filename[i+1:])
		if err != nil {
			return token.Position{Filename: pos}
		}
		*field, p.Filename = n, p.Filename[:i]
	}
	return p
}

// markOneof records the directive.
func (s *source) markOneof(d ast.Directive, file *ast.File, at ast.Node) {
	spec, _ := at.(*ast.TypeSpec)
	if spec == nil {
		s.add(d.Slash, CodeMisplaced, "put it into the comment right above one interface, without a blank line between",
			"//shard:oneof: belongs to no type")
		return
	}
	object, _ := s.pkg.TypesInfo.Defs[spec.Name].(*types.TypeName)
	switch {
	case object == nil:
		s.add(spec.Pos(), CodeUnknownType, "", "%s: its declaration does not type-check", spec.Name.Name)
	case s.oneofs[object] != nil:
		s.add(d.Slash, CodeMisplaced, "keep one", "%s: has //shard:oneof already", object.Name())
	default:
		s.oneofs[object] = &oneof{spec: spec, file: file, list: d.Args}
	}
}

// checkOneofs reports mistakes in interfaces that no method or state uses.
func (s *source) checkOneofs() {
	for _, name := range s.pkg.Types.Scope().Names() {
		o, _ := s.pkg.Types.Scope().Lookup(name).(*types.TypeName)
		if o != nil && s.oneofs[o] != nil {
			s.crossing.oneofCases(o.Type(), s.oneofs[o])
		}
	}
}

// unknownType is the message for a type about which the type checker reports nothing,
// because it reported the cause elsewhere.
const unknownType = "unknown type"

// missingImports reports imports that cannot be read, instead of each type that is
// unknown because of them: they are one mistake.
func (s *source) missingImports() {
	before := len(s.list)
	s.list = slices.DeleteFunc(s.list, func(d Diagnostic) bool {
		return d.Code == CodeUnknownType && strings.HasSuffix(d.Message, ": "+unknownType) &&
			filepath.Dir(d.Pos.Filename) == s.model.Dir && s.lacksImport()
	})
	if len(s.list) == before {
		return
	}
	for _, e := range s.pkg.TypeErrors {
		if path, ok := missingImport(e.Msg); ok {
			s.add(e.Pos, CodeUnknownType, "correct the path, or run go get "+path, "import %s: cannot be read, and types of it are used here", path)
		}
	}
}

func (s *source) lacksImport() bool {
	for _, e := range s.pkg.TypeErrors {
		if _, ok := missingImport(e.Msg); ok {
			return true
		}
	}
	return false
}

// missingImport returns the path in the type checker's message about an import that it
// could not read.
func missingImport(message string) (path string, ok bool) {
	rest, ok := strings.CutPrefix(message, "could not import ")
	path, _, _ = strings.Cut(rest, " ")
	return path, ok
}
