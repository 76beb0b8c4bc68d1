package load

import (
	"go/types"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// Generated code names all fields of known structs, so that it does not compile after a field was
// added without generating. It also counts an entity's methods, so that Host notices an added
// method.

// ownFields returns the names of u's fields, or nil if a field is blank (_).
func ownFields(u *types.Struct) []string {
	var names []string
	for f := range u.Fields() {
		if f.Name() == "_" {
			return nil
		}
		names = append(names, f.Name())
	}
	return names
}

// holdsLock reports whether a copy of t may copy a lock: t or a part of it has Lock and Unlock.
func holdsLock(t types.Type) bool {
	if _, isPointer := t.Underlying().(*types.Pointer); isPointer || types.IsInterface(t) {
		return false
	}
	p := types.NewPointer(t)
	if method(p, "Lock") != nil && method(p, "Unlock") != nil {
		return true
	}
	switch u := t.Underlying().(type) {
	case *types.Array:
		return holdsLock(u.Elem())
	case *types.Struct:
		for f := range u.Fields() {
			if holdsLock(f.Type()) {
				return true
			}
		}
	}
	return false
}

// entityFields returns an entity's fields, or nil if one is blank (_) or holds a lock whose value
// generated code cannot make.
func entityFields(w *typeWriter, u *types.Struct) []model.OwnField {
	var fields []model.OwnField
	for f := range u.Fields() {
		own := model.OwnField{Name: f.Name()}
		if f.Name() == "_" {
			return nil
		}
		if holdsLock(f.Type()) {
			if _, isStruct := f.Type().Underlying().(*types.Struct); !isStruct {
				return nil
			}
			x, r := w.expr(f.Type())
			if r != nil {
				return nil
			}
			own.Lock = x
		}
		fields = append(fields, own)
	}
	return fields
}

// exportedMethods counts the exported methods of an entity's type. It returns 0 if the entity
// embeds a type of another package or an unknown type, whose methods may change independently.
func exportedMethods(named *types.Named) int {
	if embedsForeign(named.Obj().Pkg(), named.Underlying().(*types.Struct)) {
		return 0
	}
	set, count := types.NewMethodSet(types.NewPointer(named)), 0
	for m := range set.Methods() {
		if m.Obj().Exported() {
			count++
		}
	}
	return count
}

func embedsForeign(from *types.Package, u *types.Struct) bool {
	for f := range u.Fields() {
		if !f.Embedded() {
			continue
		}
		t := f.Type()
		if p, ok := t.Underlying().(*types.Pointer); ok {
			t = p.Elem()
		}
		named, ok := types.Unalias(t).(*types.Named)
		if !ok || named.Obj().Pkg() != from {
			return true
		}
		if inner, ok := named.Underlying().(*types.Struct); ok && inner != u && embedsForeign(from, inner) {
			return true
		}
	}
	return false
}
