package load

import (
	"go/types"
	"reflect"
)

// isEmpty reports whether a type's values hold no data.
func isEmpty(t types.Type) bool {
	u, ok := t.Underlying().(*types.Struct)
	return ok && u.NumFields() == 0
}

// isTool reports whether a value of t, or the target of a pointer t, is a tool of the
// entity that only its factory can make: a channel, a function, an interface, a lock or
// another package's struct with unexported fields, as sql.DB. Any other value may hold
// data of the entity.
func isTool(from *types.Package, t types.Type) bool {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	switch u := t.Underlying().(type) {
	case *types.Chan, *types.Signature, *types.Interface:
		return true
	case *types.Struct:
		if isMessage(types.NewPointer(t)) {
			return false
		}
		for f := range u.Fields() {
			if f.Pkg() != from && !f.Exported() {
				return true
			}
		}
	}
	return false
}

// taggedInside finds a field tagged id or state in a struct, in a value that t points
// to, or in a struct inside either.
func taggedInside(t types.Type) (path, tag string) {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	u, ok := t.Underlying().(*types.Struct)
	if !ok {
		return "", ""
	}
	for i := range u.NumFields() {
		f := u.Field(i)
		if tag := reflect.StructTag(u.Tag(i)).Get("shard"); tag == "id" || tag == "state" {
			return f.Name(), tag
		}
		if _, isStruct := f.Type().Underlying().(*types.Struct); !isStruct {
			continue
		}
		if path, tag := taggedInside(f.Type()); path != "" {
			return f.Name() + "." + path, tag
		}
	}
	return "", ""
}
