package load

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type errorReader struct {
	*directives
	crossing *crossing
}

var errorInterface = types.Universe.Lookup("error").Type().Underlying().(*types.Interface)

func isInvalid(t types.Type) bool {
	b, ok := t.(*types.Basic)
	return ok && b.Kind() == types.Invalid
}

func (s *errorReader) declaredErrors() {
	for _, m := range s.errors {
		switch spec := m.spec.(type) {
		case *ast.TypeSpec:
			s.errorType(spec)
		case *ast.ValueSpec:
			for i, name := range spec.Names {
				s.sentinel(name, spec, i)
			}
		}
	}
	slices.SortFunc(s.model.Errors, func(a, b *model.Error) int { return strings.Compare(a.Name, b.Name) })
}

// addError adds e, and reports a duplicate name.
func (s *errorReader) addError(pos token.Pos, e *model.Error) {
	for _, other := range s.model.Errors {
		if other.Name == e.Name {
			s.add(pos, CodeError, "keep one", "%s: declared twice", e.Name)
			return
		}
	}
	s.model.Errors = append(s.model.Errors, e)
}

// sentinel reads the i-th variable of spec. A variable named _ declares another package's variable,
// to which it is set.
func (s *errorReader) sentinel(name *ast.Ident, spec *ast.ValueSpec, i int) {
	if name.Name == "_" {
		s.foreignSentinel(name, spec, i)
		return
	}
	v, _ := s.pkg.TypesInfo.Defs[name].(*types.Var)
	switch {
	case v == nil:
		s.add(name.Pos(), CodeMisplaced, "declare it as a variable", "%s: not a variable", name.Name)
	case !v.Exported():
		s.add(name.Pos(), CodeError, "start its name with a capital: callers name it", "%s: not exported", name.Name)
	case s.isSentinel(name, v):
		s.addError(name.Pos(), &model.Error{Name: name.Name, Wire: name.Name, Var: &model.Expr{Path: s.pkg.PkgPath, Name: name.Name}})
	}
}

func (s *errorReader) isSentinel(at *ast.Ident, v *types.Var) bool {
	switch t := v.Type(); {
	case isInvalid(t):
		s.add(at.Pos(), CodeUnknownType, "", "%s: its type is unknown", at.Name)
	case !types.Implements(t, errorInterface):
		s.add(at.Pos(), CodeError, "set it to an error: errors.New(…)", "%s: not an error, but %s", at.Name, s.crossing.short(t))
	default:
		return true
	}
	return false
}

func (s *errorReader) foreignSentinel(at *ast.Ident, spec *ast.ValueSpec, i int) {
	if i < len(spec.Values) && len(spec.Values) == len(spec.Names) {
		if sel, ok := spec.Values[i].(*ast.SelectorExpr); ok {
			v, isVar := s.pkg.TypesInfo.Uses[sel.Sel].(*types.Var)
			if isVar && v.Pkg() != nil && v.Parent() == v.Pkg().Scope() {
				if s.isSentinel(sel.Sel, v) {
					s.packages[v.Pkg().Path()] = v.Pkg().Name()
					s.addError(at.Pos(), &model.Error{
						Name: v.Pkg().Path() + "." + v.Name(), Wire: v.Pkg().Path() + "." + v.Name(), Var: &model.Expr{Path: v.Pkg().Path(), Name: v.Name()},
					})
				}
				return
			}
		}
	}
	s.add(at.Pos(), CodeError, "write var _ = sql.ErrNoRows to declare an error of another package, or give the variable a name", "_: not set to another package's variable")
}

func (s *errorReader) errorType(spec *ast.TypeSpec) {
	name, pos := spec.Name.Name, spec.Name.Pos()
	object, _ := s.pkg.TypesInfo.Defs[spec.Name].(*types.TypeName)
	switch {
	case object == nil || isInvalid(object.Type()):
		s.add(pos, CodeUnknownType, "", "%s: its declaration does not type-check", name)
		return
	case !object.Exported():
		s.add(pos, CodeError, "start its name with a capital: callers name it", "%s: not exported", name)
		return
	case spec.TypeParams != nil || types.IsInterface(object.Type()):
		s.add(pos, CodeError, "declare a struct for it", "%s: only a type with values of its own can be declared", name)
		return
	}
	t := object.Type()
	value, pointer := types.Implements(t, errorInterface), types.Implements(types.NewPointer(t), errorInterface)
	if !value && !pointer {
		s.add(pos, CodeError, "give it a method Error() string", "%s: not an error", name)
		return
	}
	m, r := s.crossing.of(t)
	if r != nil {
		for _, r := range r.all() {
			if r.reported {
				continue
			}
			at := pos
			if r.pos.IsValid() {
				at = r.pos
			}
			s.add(at, r.code, r.remedy, "%s%s: %s", name, r.path, r.why)
		}
		return
	}
	s.addError(pos, &model.Error{Name: name, Wire: name, Type: m, Pointer: !value})
}

func addForeign(p *model.Package, e *model.Error) {
	here := func(o *model.Error) bool { return o.Var != nil && o.Var.Path == e.Var.Path && o.Var.Name == e.Var.Name }
	if slices.ContainsFunc(p.Errors, here) {
		return
	}
	p.Errors = append(p.Errors, e)
}
