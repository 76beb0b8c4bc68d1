package load

import (
	"go/types"
	"reflect"
	"slices"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// A message struct is a struct of the client's package that has a field tagged id and is the only
// parameter of a method. The field names the entity to call. Generated code declares methods on the
// struct, so passing another type does not compile.

type address struct {
	field  *types.Var
	used   bool       // the field names an entity
	entity string     // the entity whose method takes the struct
	want   types.Type // the type of that entity's ids
}

type addresses struct {
	*source
	crossing *crossing
	byField  map[*types.Var]*address // fields tagged id of structs that are the only parameter of methods
}

// addressed adds n's message structs to n.Addressed. from declares n, and id is the type of n's
// ids.
func (s *addresses) addressed(n *model.Entity, m *marked, from *types.Package, id types.Type) {
	named := m.object.Type().(*types.Named)
	for _, method := range n.Methods {
		o, _, _ := types.LookupFieldOrMethod(types.NewPointer(named), true, from, method.Name)
		f, ok := o.(*types.Func)
		if !ok || len(method.Params) != 1 || method.Variadic {
			continue
		}
		t, pointer := method.Params[0].Type, false
		if t.Shape == model.Pointer {
			t, pointer = t.Elem, true
		}
		field := s.addressField(t, f.Signature().Params().At(1).Type())
		if field == nil {
			continue
		}
		a := s.byField[field]
		if a == nil {
			a = &address{field: field, entity: n.Name, want: id}
			s.byField[field] = a
		}
		if !n.HasID() || !types.Identical(field.Type(), id) {
			continue
		}
		a.used = true
		other := slices.IndexFunc(n.Addressed, func(o *model.Addressed) bool { return o.Struct.Name == t.Expr.Name })
		if other >= 0 {
			s.add(f.Pos(), CodeSameMessage, "declare a struct for each", "%s.%s: takes %s, which %s also takes: a message struct with an id belongs to one method",
				n.Name, f.Name(), t.Expr.Name, n.Addressed[other].Method.Name)
			continue
		}
		s.checkMessageMethods(n, field, t)
		n.Addressed = append(n.Addressed, &model.Addressed{Method: method, Struct: t.Expr, Pointer: pointer, Field: t.IDField})
	}
}

// addressField returns the field tagged id, or nil if another package declares t: generated code
// cannot declare methods there.
func (s *addresses) addressField(t *model.Type, of types.Type) *types.Var {
	if t.Shape != model.Struct || t.IDField == "" || t.Expr.Path != s.pkg.PkgPath || len(t.Expr.Args) > 0 {
		return nil
	}
	o, _, _ := types.LookupFieldOrMethod(of, true, s.pkg.Types, t.IDField)
	field, _ := o.(*types.Var)
	return field
}

// checkMessageMethods reports user methods that generated code also declares.
func (s *addresses) checkMessageMethods(n *model.Entity, field *types.Var, t *model.Type) {
	o := s.pkg.Types.Scope().Lookup(t.Expr.Name)
	if o == nil {
		return
	}
	for _, name := range []string{n.AddressFunc(), n.DeliverFunc()} {
		if taken, _, _ := types.LookupFieldOrMethod(types.NewPointer(o.Type()), true, s.pkg.Types, name); taken != nil {
			s.add(taken.Pos(), CodeTaken, "rename it", "%s.%s: generated code for %s declares this method", t.Expr.Name, name, n.Name)
		}
	}
}

// unusedAddresses reports id tags on structs that are no entity's message.
func (s *addresses) unusedAddresses() {
	for _, t := range s.crossing.list {
		if t.Shape != model.Struct || t.IDField == "" || t.Expr.Path != s.pkg.PkgPath || len(t.Expr.Args) > 0 {
			continue
		}
		o := s.pkg.Types.Scope().Lookup(t.Expr.Name)
		if o == nil {
			continue
		}
		subject := t.Expr.Name + "." + t.IDField
		u, _ := o.Type().Underlying().(*types.Struct)
		for i := range u.NumFields() {
			f := u.Field(i)
			if reflect.StructTag(u.Tag(i)).Get("shard") != "id" {
				continue
			}
			switch a := s.byField[f]; {
			case a == nil:
				s.add(f.Pos(), CodeTag, `remove the tag, or pass the struct as the only argument of a method`,
					`%s: the tag shard:"id" has no effect: no method takes a %s alone`, subject, t.Expr.Name)
			case !a.used:
				s.add(f.Pos(), CodeIDType, "give it that type, or remove the tag", "%s: is of type %s, but ids of %s are of type %s",
					subject, s.crossing.short(f.Type()), a.entity, s.crossing.short(a.want))
			}
		}
	}
}
