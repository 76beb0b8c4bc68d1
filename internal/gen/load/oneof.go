package load

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// oneofDirective marks an interface whose implementations can cross the wire: the types that the
// directive lists. Without a list they are all implementations in the interface's package, and the
// interface must have an unexported method.
const oneofDirective = "oneof"

// A oneof is an interface with the directive //shard:oneof.
type oneof struct {
	spec *ast.TypeSpec
	file *ast.File
	list string // the text after the directive
	// reported is true once a mistake in the interface has been reported.
	reported bool
}

// findOneof returns the named interface, or nil if it has no //shard:oneof directive.
func findOneof(files []*ast.File, name string) *oneof {
	for _, file := range files {
		for _, decl := range file.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, spec := range g.Specs {
				spec, ok := spec.(*ast.TypeSpec)
				if !ok || spec.Name.Name != name {
					continue
				}
				doc := spec.Doc
				if doc == nil && len(g.Specs) == 1 {
					doc = g.Doc
				}
				if d, ok := oneofIn(doc); ok {
					return &oneof{spec: spec, file: file, list: d.Args}
				}
				return nil
			}
		}
	}
	return nil
}

func oneofIn(doc *ast.CommentGroup) (ast.Directive, bool) {
	if doc == nil {
		return ast.Directive{}, false
	}
	for _, comment := range doc.List {
		if d, ok := ast.ParseDirective(comment.Slash, comment.Text); ok && d.Tool == "shard" && d.Name == oneofDirective {
			return d, true
		}
	}
	return ast.Directive{}, false
}

type oneofCase struct {
	name string
	of   types.Type
}

func (k oneofCase) isPointer() bool {
	_, ok := k.of.(*types.Pointer)
	return ok
}

// A caseFinder finds an interface's implementations. If the interface cannot have cases, it sets
// why and remedy.
type caseFinder struct {
	pkg  *types.Package // of the interface
	file *ast.File      // with its declaration
	// foreign is the source of the interface's package, if that is not the user's package.
	foreign     []*ast.File
	short       func(types.Type) string                          // for messages
	importNamed func(name string, file *ast.File) *types.Package // nil: there is none
	why, remedy string
}

func (f *caseFinder) refuse(why, remedy string) []oneofCase {
	f.why, f.remedy = why, remedy
	return nil
}

func (f *caseFinder) cases(t types.Type, decl *oneof) []oneofCase {
	u, ok := t.Underlying().(*types.Interface)
	switch {
	case decl.spec.Assign.IsValid():
		return f.refuse("an alias has no cases of its own", "annotate the interface itself")
	case !ok:
		return f.refuse("not an interface", "annotate the interface")
	case decl.spec.TypeParams != nil:
		return f.refuse("a generic interface cannot have numbered cases", "declare one interface for each type argument")
	case !u.IsMethodSet():
		return f.refuse("a constraint has no values", "declare an interface of methods alone")
	case decl.list != "":
		return f.listed(u, decl.list)
	case !hasUnexported(u):
		return f.refuse("any package may implement it", "add an unexported method, such as is"+decl.spec.Name.Name+"(), or list the types: //shard:oneof Card *Transfer")
	}
	return f.declared(u)
}

func hasUnexported(u *types.Interface) bool {
	for m := range u.Methods() {
		if !m.Exported() {
			return true
		}
	}
	return false
}

func (f *caseFinder) declared(u *types.Interface) []oneofCase {
	var list []oneofCase
	for _, name := range f.pkg.Scope().Names() {
		o, ok := f.pkg.Scope().Lookup(name).(*types.TypeName)
		if !ok || o.IsAlias() || types.IsInterface(o.Type()) || standsForUnknown(o.Type()) {
			continue
		}
		k, ok := implementation(o.Type(), u)
		if !ok {
			continue
		}
		if o.Type().(*types.Named).TypeParams().Len() > 0 {
			return f.refuse(name+" implements it and is generic", "list the cases: //shard:oneof "+name+"[int]")
		}
		list = append(list, oneofCase{name, k})
	}
	if hidden := hiddenCase(f.foreign, u); hidden != "" {
		return f.refuse(hidden+" implements it and is not exported", "export it, or list the cases in the directive")
	}
	if len(list) == 0 {
		return f.refuse("no type of its package implements it", "declare a type that does")
	}
	return list
}

// standsForUnknown reports whether t is the generated type for cases that this program does not
// know.
func standsForUnknown(t types.Type) bool {
	o, _, _ := types.LookupFieldOrMethod(t, true, nil, "ShardUnknownCase")
	return o != nil
}

func implementation(t types.Type, u *types.Interface) (types.Type, bool) {
	switch p := types.NewPointer(t); {
	case types.Implements(t, u):
		return t, true
	case types.Implements(p, u):
		return p, true
	}
	return nil, false
}

// hiddenCase returns the name of an unexported type that has an unexported method of u, or "".
func hiddenCase(files []*ast.File, u *types.Interface) string {
	for _, file := range files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil || len(f.Recv.List) != 1 || f.Name.IsExported() {
				continue
			}
			receiver := f.Recv.List[0].Type
			if star, ok := receiver.(*ast.StarExpr); ok {
				receiver = star.X
			}
			id, ok := receiver.(*ast.Ident)
			isMethod := func(m *types.Func) bool { return m.Name() == f.Name.Name }
			if ok && !id.IsExported() && slices.ContainsFunc(slices.Collect(u.Methods()), isMethod) {
				return id.Name
			}
		}
	}
	return ""
}

func (f *caseFinder) listed(u *types.Interface, names string) []oneofCase {
	var list []oneofCase
	for _, text := range splitTypes(names) {
		x, err := parser.ParseExpr(text)
		if err != nil {
			return f.refuse(text+" is not a type", "list types: //shard:oneof Card *Transfer")
		}
		of := f.typeOf(x)
		if basic, ok := of.(*types.Basic); of == nil || ok && basic.Kind() == types.Invalid {
			return f.refuse(text+" is not known here", "list types of this package, or of one that its file imports")
		}
		name := caseName(of)
		switch impl, ok := implementation(deref(of), u); {
		case name == "":
			return f.refuse(text+" has no name", "declare it as a type")
		case types.IsInterface(deref(of)):
			return f.refuse(text+" is an interface", "list the types that implement it")
		case !ok:
			return f.refuse(text+" does not implement it", "declare the methods of the interface on it")
		case !types.Implements(of, u):
			return f.refuse(text+" does not implement it, but a pointer to it does", "write "+f.short(impl))
		}
		for _, k := range list {
			if k.name == name {
				return f.refuse(text+" and "+f.short(k.of)+" are both called "+name, "keep one, or rename one of the types")
			}
		}
		list = append(list, oneofCase{name, of})
	}
	return list
}

func deref(t types.Type) types.Type {
	if p, ok := t.(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}

// caseName returns the name of t, or of what it points to, and the names of its type arguments. It
// is "" for a type without a name.
func caseName(t types.Type) string {
	switch t := types.Unalias(deref(t)).(type) {
	case *types.Basic:
		return t.Name()
	case *types.Named:
		name := t.Obj().Name()
		for a := range t.TypeArgs().Types() {
			name += model.Upper(caseName(a))
		}
		return name
	}
	return ""
}

func splitTypes(list string) []string {
	depth := 0
	return strings.FieldsFunc(list, func(r rune) bool {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		}
		return depth == 0 && (r == ' ' || r == '\t' || r == ',')
	})
}

// typeOf returns the type of an expression in the interface's scope, or nil. It does not use the
// type checker, because the interface's package may come from export data.
func (f *caseFinder) typeOf(x ast.Expr) types.Type {
	switch x := x.(type) {
	case *ast.ParenExpr:
		return f.typeOf(x.X)
	case *ast.StarExpr:
		if elem := f.typeOf(x.X); elem != nil {
			return types.NewPointer(elem)
		}
	case *ast.Ident:
		return typeNamed(f.pkg.Scope(), x.Name)
	case *ast.SelectorExpr:
		if id, ok := x.X.(*ast.Ident); ok {
			if p := f.importNamed(id.Name, f.file); p != nil {
				return typeNamed(p.Scope(), x.Sel.Name)
			}
		}
	case *ast.IndexExpr:
		return f.instance(x.X, []ast.Expr{x.Index})
	case *ast.IndexListExpr:
		return f.instance(x.X, x.Indices)
	}
	return nil
}

func typeNamed(scope *types.Scope, name string) types.Type {
	o, ok := scope.Lookup(name).(*types.TypeName)
	if !ok {
		o, ok = types.Universe.Lookup(name).(*types.TypeName)
	}
	if !ok {
		return nil
	}
	if named, ok := o.Type().(*types.Named); ok && named.TypeParams().Len() > named.TypeArgs().Len() {
		return nil // a generic type without arguments: see instance
	}
	return o.Type()
}

func (f *caseFinder) instance(x ast.Expr, args []ast.Expr) types.Type {
	scope, id := f.pkg.Scope(), x
	if sel, ok := x.(*ast.SelectorExpr); ok {
		if from, ok := sel.X.(*ast.Ident); ok {
			if p := f.importNamed(from.Name, f.file); p != nil {
				scope, id = p.Scope(), sel.Sel
			}
		}
	}
	name, ok := id.(*ast.Ident)
	if !ok {
		return nil
	}
	generic, ok := scope.Lookup(name.Name).(*types.TypeName)
	if !ok {
		return nil
	}
	var list []types.Type
	for _, a := range args {
		t := f.typeOf(a)
		if t == nil {
			return nil
		}
		list = append(list, t)
	}
	t, err := types.Instantiate(types.NewContext(), generic.Type(), list, true)
	if err != nil {
		return nil
	}
	return t
}
