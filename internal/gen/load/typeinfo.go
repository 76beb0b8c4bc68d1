package load

import (
	"go/types"
	"slices"
	"strconv"
	"strings"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type typeWriter struct{ *source }

func (c *typeWriter) expr(t types.Type) (*model.Expr, *refusal) {
	switch t := t.(type) {
	case *types.Basic:
		if t.Kind() == types.Invalid {
			return nil, &refusal{code: CodeUnknownType, why: unknownType}
		}
		if t.Kind() == types.UnsafePointer {
			return &model.Expr{Path: "unsafe", Name: "Pointer"}, nil
		}
		return &model.Expr{Name: t.Name()}, nil
	case *types.Alias:
		if c.canName(t.Obj()) && !c.isOwners(t.Obj()) {
			return c.named(t.Obj(), t.TypeArgs())
		}
		return c.expr(types.Unalias(t))
	case *types.Named:
		if c.isOwners(t.Obj()) {
			return nil, &refusal{
				code: CodeType, owned: true, why: c.short(t) + " is declared in the entity's package, which its clients do not import",
				remedy: "declare it in " + c.pkg.PkgPath,
			}
		}
		if !c.canImport(t.Obj()) {
			return nil, &refusal{
				code: CodeType, why: c.short(t) + " is internal to " + above(t.Obj().Pkg().Path()),
				remedy: "use a type that this package can import",
			}
		}
		if !c.canName(t.Obj()) {
			return nil, &refusal{code: CodeType, why: c.short(t) + " is not exported", remedy: "use a type that this package can name"}
		}
		return c.named(t.Obj(), t.TypeArgs())
	case *types.Pointer:
		return c.exprOf(model.PointerTo, t.Elem(), 0)
	case *types.Slice:
		return c.exprOf(model.SliceOf, t.Elem(), 0)
	case *types.Array:
		return c.exprOf(model.ArrayOf, t.Elem(), t.Len())
	case *types.Map:
		key, r := c.expr(t.Key())
		if r != nil {
			return nil, r.at("[key]")
		}
		x, r := c.exprOf(model.MapOf, t.Elem(), 0)
		if r != nil {
			return nil, r
		}
		x.Key = key
		return x, nil
	case *types.Struct:
		if t.NumFields() == 0 {
			return &model.Expr{Name: emptyStruct}, nil // the element of a map used as a set
		}
		return nil, &refusal{code: CodeType, why: "a struct without a name cannot cross the wire", remedy: "declare it as a type"}
	}
	return nil, refuseType(c.source, t)
}

func (c *typeWriter) exprOf(op model.Op, elem types.Type, length int64) (*model.Expr, *refusal) {
	x, r := c.expr(elem)
	if r != nil {
		if op != model.PointerTo {
			r = r.at("[]")
		}
		return nil, r
	}
	return &model.Expr{Op: op, Elem: x, Len: length}, nil
}

func (c *typeWriter) canName(o *types.TypeName) bool {
	switch {
	case o.Pkg() == nil:
		return true
	case o.Parent() != o.Pkg().Scope():
		return false // declared in a function
	}
	return o.Pkg() == c.pkg.Types || o.Exported()
}

func (c *typeWriter) canImport(o *types.TypeName) bool {
	if o.Pkg() == nil || !slices.Contains(strings.Split(o.Pkg().Path(), "/"), "internal") {
		return true
	}
	parent := above(o.Pkg().Path())
	return c.pkg.PkgPath == parent || strings.HasPrefix(c.pkg.PkgPath, parent+"/")
}

func (c *typeWriter) isOwners(o *types.TypeName) bool {
	return c.model.Owner != "" && o.Pkg() != nil && o.Pkg().Path() == c.model.Owner
}

func (c *typeWriter) named(o *types.TypeName, args *types.TypeList) (*model.Expr, *refusal) {
	x := &model.Expr{Name: o.Name()}
	if o.Pkg() != nil {
		x.Path = o.Pkg().Path()
		c.packages[x.Path] = o.Pkg().Name()
	}
	for a := range args.Types() {
		arg, r := c.expr(a)
		if r != nil {
			return nil, r
		}
		x.Args = append(x.Args, arg)
	}
	if o.Pkg() == c.pkg.Types && model.IsLocal(x.Name) {
		c.alias(x)
	}
	return x, nil
}

// alias renames a user's type in generated code if a variable there has its name.
func (c *typeWriter) alias(x *model.Expr) {
	plain := *x
	name := model.Lower(c.plainName(x)) + "Type"
	for n := 2; c.pkg.Types.Scope().Lookup(name) != nil; n++ {
		name = model.Lower(c.plainName(x)) + "Type" + strconv.Itoa(n)
	}
	x.Alias = name
	known := func(a *model.Expr) bool { return a.Alias == name }
	if !slices.ContainsFunc(c.model.Aliases, known) {
		plain.Alias = name
		c.model.Aliases = append(c.model.Aliases, &plain)
	}
}

// above returns the path before the last folder named internal, or "".
func above(path string) string {
	if i := strings.LastIndex("/"+path+"/", "/internal/"); i > 0 {
		return path[:i-1]
	}
	return ""
}
