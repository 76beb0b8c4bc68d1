package load

import (
	"go/types"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// Generated code names all fields of the structs it knows, so that one which is
// added without generating does not compile, and counts an entity's methods, so
// that Host finds one which is added.

// ownFields are the names of a struct's fields, or nil when one has none.
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

// entityFields are all fields of an entity, or nil when one cannot be named or
// neither be copied nor made.
func (s *source) entityFields(u *types.Struct) []model.OwnField {
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
			x, r := s.crossing.expr(f.Type())
			if r != nil {
				return nil
			}
			own.Lock = x
		}
		fields = append(fields, own)
	}
	return fields
}

// holdsLock reports whether vet forbids to copy a value of t: its pointer has
// Lock and Unlock, or a part of it is such.
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

// exportedMethods counts the exported methods of an entity. It is 0 when it embeds
// what other packages declare, or what is not known: those may change, and the
// entity with them, without anybody's generating.
func (s *source) exportedMethods(named *types.Named) int {
	if s.embedsForeign(named.Underlying().(*types.Struct)) {
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

func (s *source) embedsForeign(u *types.Struct) bool {
	for f := range u.Fields() {
		if !f.Embedded() {
			continue
		}
		t := f.Type()
		if p, ok := t.Underlying().(*types.Pointer); ok {
			t = p.Elem()
		}
		named, ok := types.Unalias(t).(*types.Named)
		if !ok || named.Obj().Pkg() != s.pkg.Types {
			return true
		}
		if inner, ok := named.Underlying().(*types.Struct); ok && inner != u && s.embedsForeign(inner) {
			return true
		}
	}
	return false
}
