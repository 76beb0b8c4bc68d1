package load

import "go/types"

// Packages whose types are recognized by name.
const (
	codegenPath = "github.com/shardgen/shardgen/runtime/codegen"
	protoPath   = "google.golang.org/protobuf/reflect/protoreflect"
)

func isByte(t types.Type) bool {
	return types.Identical(t, types.Typ[types.Byte])
}

func isNamed(t types.Type, path, name string) bool {
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == path && n.Obj().Name() == name
}

// isReference reports whether t is a generated client or reference: its only field is an Invoker or
// *Ref.
func isReference(t types.Type) bool {
	s, ok := t.Underlying().(*types.Struct)
	if !ok || s.NumFields() != 1 {
		return false
	}
	f := types.Unalias(s.Field(0).Type())
	if p, ok := f.(*types.Pointer); ok {
		return isNamed(p.Elem(), codegenPath, "Ref")
	}
	return isNamed(f, codegenPath, "Invoker")
}

func refuseType(s *source, t types.Type) *refusal {
	why, remedy := s.short(t)+" cannot cross the wire", "use a concrete type"
	switch t.Underlying().(type) {
	case *types.Chan:
		why, remedy = "a channel cannot cross the wire", "pass the values, or let the entity call back"
	case *types.Signature:
		why, remedy = "a function cannot cross the wire", "pass an id, and let the entity call back"
	case *types.Interface:
		why, remedy = "an interface cannot cross the wire", "use a concrete struct, or mark an interface of your own //shard:oneof"
		if types.Identical(t, types.Universe.Lookup("error").Type()) {
			why, remedy = "an error crosses the wire only as the last result", "pass its text"
		}
	}
	return &refusal{code: CodeType, why: why, remedy: remedy}
}
