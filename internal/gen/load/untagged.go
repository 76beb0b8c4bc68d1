package load

import (
	"go/types"
	"reflect"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// untaggedField reports a field whose value would be lost when its entity is passivated
// or moves. A field needs no tag if its type holds no data, or if only the factory can
// make its values: see [source.isTool].
func (s *source) untaggedField(n *model.Entity, f *types.Var) {
	subject := n.Name + "." + f.Name()
	const why = "%s: has no tag, and would be lost when the entity goes idle or moves"
	if inside, tag := s.taggedInside(f.Type()); inside != "" {
		s.add(f.Pos(), CodeUntagged, "declare "+inside+" in "+n.Name+" itself, or tag "+f.Name()+" `shard:\"-\"` to make it anew",
			why+": the tag shard:%q of %s.%s means nothing in there", subject, tag, f.Name(), inside)
		return
	}
	_, r := s.crossing.of(f.Type())
	switch {
	case r == nil && isEmpty(f.Type()):
	case r == nil && n.ID.Field == "" && !n.Singleton && looksLikeID(n, f):
		s.add(f.Pos(), CodeUntagged, "tag it `shard:\"id\"` to find the entity's id in it, or `shard:\"state\"` if it is something else", why, subject)
	case r == nil:
		s.add(f.Pos(), CodeUntagged, "tag it `shard:\"state\"` to keep it, or `shard:\"-\"` to make it anew", why, subject)
	case s.awaited(f):
	case r.code == CodeUnknownType:
		s.refuse(f, subject, r)
	case !s.isTool(f.Type()):
		s.add(f.Pos(), CodeUntagged, "tag it `shard:\"-\"` to make it anew, or change its type and tag it `shard:\"state\"`",
			why+", and cannot be state: %s%s: %s", subject, f.Name(), r.path, r.why)
	}
}

// isEmpty reports whether a type's values hold no data.
func isEmpty(t types.Type) bool {
	u, ok := t.Underlying().(*types.Struct)
	return ok && u.NumFields() == 0
}

// isTool reports whether a value of t, or the target of a pointer t, is a tool of the
// entity that only its factory can make: a channel, a function, an interface, a lock or
// another package's struct with unexported fields, as sql.DB. Any other value may hold
// data of the entity.
func (s *source) isTool(t types.Type) bool {
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
			if f.Pkg() != s.pkg.Types && !f.Exported() {
				return true
			}
		}
	}
	return false
}

// taggedInside finds a field tagged id or state in a struct, in a value that t points
// to, or in a struct inside either.
func (s *source) taggedInside(t types.Type) (path, tag string) {
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
		if path, tag := s.taggedInside(f.Type()); path != "" {
			return f.Name() + "." + path, tag
		}
	}
	return "", ""
}
