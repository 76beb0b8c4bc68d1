package load

import (
	"fmt"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type source struct {
	*report
	pkg      *packages.Package
	model    *model.Package
	loader   *loader
	syntax   *syntax
	entities map[*types.TypeName]bool   // the types that are entities
	oneofs   map[*types.TypeName]*oneof // interfaces with the directive
	expected map[string]bool            // exported names that will be generated in this package
	reported map[refusedAt]bool         // refusals of fields that were reported
	packages map[string]string          // names of packages by path
}

// A refusedAt identifies a field's refusal, which is reported once for all messages.
type refusedAt struct {
	pos token.Pos
	why string
}

func newSource(r *report, p *packages.Package, l *loader) *source {
	s := &source{
		report: r, pkg: p, loader: l,
		model:    &model.Package{Path: p.PkgPath, Name: p.Name},
		entities: make(map[*types.TypeName]bool),
		oneofs:   make(map[*types.TypeName]*oneof),
		expected: make(map[string]bool),
		reported: make(map[refusedAt]bool),
		packages: make(map[string]string),
		syntax:   newSyntax(p),
	}
	if len(p.GoFiles) > 0 {
		s.model.Dir = filepath.Dir(p.GoFiles[0])
	}
	return s
}

// syntaxErrors lists syntax errors. If it returns true, do not read the package: it may lack
// methods.
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

const unknownType = "unknown type"

// missingImports reports each unreadable import once, instead of all types that are unknown because
// of it.
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
		path, ok := missingImport(e.Msg)
		if !ok {
			continue
		}
		if file := protoFile(s.pkg, path); file != "" {
			s.add(e.Pos, CodeUnknownType, generateRemedy(file), "import %s: not generated yet, and types of it are used here", path)
		} else {
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

func missingImport(message string) (path string, ok bool) {
	rest, ok := strings.CutPrefix(message, "could not import ")
	path, _, _ = strings.Cut(rest, " ")
	return path, ok
}

// refuse reports each refused field once, at its position. A field of another package gets the
// position of at, the parameter or field that leads to it.
func (s *source) refuse(at *types.Var, subject string, r *refusal) {
	for _, r := range r.all() {
		s.refuseOne(at, subject, r)
	}
}

func (s *source) refuseOne(at *types.Var, subject string, r *refusal) {
	pos := at.Pos()
	if r.reported {
		return
	}
	if r.pos.IsValid() {
		pos = r.pos
		at := refusedAt{pos, r.why}
		if s.reported[at] {
			return
		}
		s.reported[at] = true
	}
	why := r.why
	if r.code == CodeUnknownType && !r.pos.IsValid() {
		why = s.syntax.unknown(at, why)
	}
	remedy := r.remedy
	if r.code == CodeUnknownType && remedy == "" {
		remedy = s.notGenerated(why)
	}
	s.add(pos, r.code, remedy, "%s%s: %s", subject, r.path, why)
}

// emptyStruct is the element type of a map used as a set.
const emptyStruct = "struct{}"

// plainName returns a type's name inside a generated function's name, such as StringSlice.
func (s *source) plainName(x *model.Expr) string {
	switch x.Op {
	case model.SliceOf:
		return s.plainName(x.Elem) + "Slice"
	case model.ArrayOf:
		return fmt.Sprintf("%sArray%d", s.plainName(x.Elem), x.Len)
	case model.MapOf:
		return s.plainName(x.Key) + s.plainName(x.Elem) + "Map"
	case model.PointerTo:
		return s.plainName(x.Elem) + "Pointer"
	}
	if x.Name == emptyStruct {
		return "Empty"
	}
	name := model.Upper(x.Name)
	if x.Path != "" && x.Path != s.pkg.PkgPath {
		name = model.Upper(s.packages[x.Path]) + name
	}
	for _, a := range x.Args {
		name += s.plainName(a)
	}
	return name
}

// short prints a type with names of packages instead of paths.
func (s *source) short(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		if p == s.pkg.Types {
			return ""
		}
		return p.Name()
	})
}
