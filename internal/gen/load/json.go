package load

import (
	"go/types"
	"reflect"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// checkJSON reports a problem if v's type contains a struct that gets its JSON from an embedded
// type. The other fields of such a struct would be missing in JSON.
func checkJSON(s *source, n *model.Entity, subject string, v *types.Var) {
	if !n.JSON {
		return
	}
	hidden := hiddenByJSON(v.Type(), make(map[types.Type]bool))
	if hidden == nil {
		return
	}
	s.add(v.Pos(), CodeType, "give the embedded field a name, or declare MarshalJSON and UnmarshalJSON",
		"%s: the JSON of %s is that of an embedded field, without the other fields", subject, types.TypeString(hidden, types.RelativeTo(s.pkg.Types)))
}

// hiddenByJSON returns a struct in t that inherits an embedded field's JSON, or nil.
func hiddenByJSON(t types.Type, seen map[types.Type]bool) types.Type {
	if seen[t] {
		return nil
	}
	seen[t] = true
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		if isMessage(t) {
			return nil
		}
		return hiddenByJSON(u.Elem(), seen)
	case *types.Slice:
		return hiddenByJSON(u.Elem(), seen)
	case *types.Array:
		return hiddenByJSON(u.Elem(), seen)
	case *types.Map:
		return hiddenByJSON(u.Elem(), seen)
	case *types.Struct:
		return hiddenInStruct(t, u, seen)
	}
	return nil
}

func hiddenInStruct(t types.Type, u *types.Struct, seen map[types.Type]bool) types.Type {
	pointer := types.NewPointer(t)
	for _, pair := range [][]string{{"MarshalJSON", "UnmarshalJSON"}, {"MarshalText", "UnmarshalText"}} {
		for _, name := range pair {
			if method(pointer, name) == nil {
				continue
			}
			if declared(pointer, name) == nil && u.NumFields() > 1 {
				return t
			}
		}
		if method(pointer, pair[0]) != nil {
			return nil // its own form, with all its fields
		}
	}
	for i := range u.NumFields() {
		f := u.Field(i)
		if reflect.StructTag(u.Tag(i)).Get("json") == "-" || !f.Exported() && !f.Embedded() {
			continue
		}
		if hidden := hiddenByJSON(f.Type(), seen); hidden != nil {
			return hidden
		}
	}
	return nil
}
