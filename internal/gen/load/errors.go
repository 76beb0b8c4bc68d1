package load

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// A markedError is a declaration with a shard:error directive.
type markedError struct {
	directive ast.Directive
	spec      ast.Spec // *ast.TypeSpec or *ast.ValueSpec
}

// markError records a directive that stands at types or variables.
func (s *source) markError(d ast.Directive, at ast.Node) {
	if d.Args != "" {
		s.add(d.ArgsPos, CodeOption, "remove "+d.Args, "//shard:error: takes no options")
	}
	specs := []ast.Spec{}
	switch at := at.(type) {
	case *ast.TypeSpec:
		specs = append(specs, at)
	case *ast.ValueSpec:
		specs = append(specs, at)
	case *ast.GenDecl:
		if at.Tok == token.VAR || at.Tok == token.TYPE {
			specs = at.Specs
		}
	}
	if len(specs) == 0 {
		s.add(d.Slash, CodeMisplaced, "put it into the comment right above a variable or a type", "//shard:error: belongs to no variable and no type")
	}
	for _, spec := range specs {
		s.errors = append(s.errors, markedError{d, spec})
	}
}

// errorsAlone reports errors that are declared in a package that has neither entities
// nor clients of any.
func (s *source) errorsAlone() {
	if len(s.errors) > 0 && s.model.Owner == "" {
		s.add(s.errors[0].directive.Slash, CodeMisplaced, "declare it in the entity's package: var _ = thispackage.ErrName with the directive above it",
			"//shard:error: no entity of this package returns it")
	}
}

// declaredErrors makes the model of the declared errors.
func (s *source) declaredErrors() {
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

// addError adds an error to the model, unless its name is another's.
func (s *source) addError(pos token.Pos, e *model.Error) {
	for _, other := range s.model.Errors {
		if other.Name == e.Name {
			s.add(pos, CodeError, "keep one", "%s: declared twice", e.Name)
			return
		}
	}
	s.model.Errors = append(s.model.Errors, e)
}

// addForeign adds another package's error, unless it is declared in this package too.
func (s *source) addForeign(e *model.Error) {
	here := func(o *model.Error) bool { return o.Var != nil && o.Var.Path == e.Var.Path && o.Var.Name == e.Var.Name }
	if slices.ContainsFunc(s.model.Errors, here) {
		return
	}
	s.model.Errors = append(s.model.Errors, e)
}

// declaresForeign reports whether a directive stands for other packages' variables
// alone.
func (s *source) declaresForeign(m markedError) bool {
	v, ok := m.spec.(*ast.ValueSpec)
	return ok && !slices.ContainsFunc(v.Names, func(n *ast.Ident) bool { return n.Name != "_" })
}

// sentinel reads a variable. A variable named _ stands for the variable of another
// package that it is set to.
func (s *source) sentinel(name *ast.Ident, spec *ast.ValueSpec, i int) {
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

// isSentinel reports whether a variable is an error, and adds a diagnostic if not.
func (s *source) isSentinel(at *ast.Ident, v *types.Var) bool {
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

var errorInterface = types.Universe.Lookup("error").Type().Underlying().(*types.Interface)

func isInvalid(t types.Type) bool {
	b, ok := t.(*types.Basic)
	return ok && b.Kind() == types.Invalid
}

func (s *source) foreignSentinel(at *ast.Ident, spec *ast.ValueSpec, i int) {
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
	s.add(at.Pos(), CodeError, "write var _ = sql.ErrNoRows for one of another package, else give it a name", "_: set to no other package's variable")
}

// errorType reads a type that is an error.
func (s *source) errorType(spec *ast.TypeSpec) {
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
		if r.told {
			return
		}
		at := pos
		if r.pos.IsValid() {
			at = r.pos
		}
		s.add(at, r.code, r.remedy, "%s%s: %s", name, r.path, r.why)
		return
	}
	s.addError(pos, &model.Error{Name: name, Wire: name, Type: m, Pointer: !value})
}
