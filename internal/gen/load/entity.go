package load

import (
	"go/types"
	"reflect"
	"strings"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// entity makes the model of one entity.
func (s *source) entity(m *marked) *model.Entity {
	n := &model.Entity{Name: m.object.Name(), Kind: m.object.Name(), Shards: defaultShards}
	if m.singleton() {
		n.Singleton, n.Shards = true, 1
	}
	h := s.home(n, m)
	id := s.fields(n, m, h)
	s.readOptions(n, m, h, id)
	s.methods(n, m, h)
	s.addressed(n, m, h, id)
	n.Own = s.entityFields(m.object.Type().Underlying().(*types.Struct))
	n.MethodCount = s.exportedMethods(m.object.Type().(*types.Named))
	return n
}

// fields reads the struct's fields. It returns the type of the id, which the client's
// package h must be able to name.
func (s *source) fields(n *model.Entity, m *marked, h *source) types.Type {
	var id types.Type = types.Typ[types.String]
	n.ID = model.ID{Type: &model.Expr{Name: "string"}}
	u := m.object.Type().Underlying().(*types.Struct)
	var untagged []*types.Var
	for i := range u.NumFields() {
		f := u.Field(i)
		if f.Name() == "_" {
			continue
		}
		if event := journalEvent(f.Type()); event != nil {
			s.journal(n, m, f, event, u.Tag(i))
			continue
		}
		tag, form, hasTag := s.tag(n, f, u.Tag(i))
		switch {
		case !hasTag:
			untagged = append(untagged, f)
		case tag == "id" && n.Singleton:
			s.add(f.Pos(), CodeTag, "remove the tag: there is one in a cluster, and its clients name no id", "%s.%s: a singleton has no id", n.Name, f.Name())
		case tag == "id" && n.ID.Field != "":
			s.add(f.Pos(), CodeIDTwice, "keep one", "%s: %s and %s are both tagged id", n.Name, n.ID.Field, f.Name())
		case tag == "id":
			n.ID.Field = f.Name()
			if s.idType(n, f, h) {
				id = f.Type()
			}
		case tag == "state":
			s.stateField(n, f, form)
		}
	}
	for _, f := range untagged {
		s.untaggedField(n, f)
	}
	return id
}

// tag returns a field's shard tag, if it is a known one, and the form that it chooses
// for state.
func (s *source) tag(n *model.Entity, f *types.Var, raw string) (tag, form string, ok bool) {
	tag, ok = reflect.StructTag(raw).Lookup("shard")
	subject := n.Name + "." + f.Name()
	switch {
	case !ok && strings.Contains(raw, "shard:"):
		s.add(f.Pos(), CodeTag, "write `shard:\"state\"`, with quotes and no spaces", "%s: malformed tag `%s`", subject, raw)
		return "", "", true
	case !ok:
		return "", "", false
	case tag == "id" || tag == "state" || tag == "-":
		return tag, "", true
	case strings.HasPrefix(tag, "state,") && isForm(tag[len("state,"):]):
		return "state", tag[len("state,"):], true
	}
	remedy := `there are id, state, state with ,text or ,binary behind it, and -`
	if meant := nearest(strings.ToLower(tag), []string{"id", "state"}); meant != "" {
		remedy = `write shard:"` + meant + `"`
	}
	s.add(f.Pos(), CodeTag, remedy, "%s: no such tag shard:%q", subject, tag)
	return "", "", true
}

// idType reads the type of the field tagged id.
func (s *source) idType(n *model.Entity, f *types.Var, h *source) bool {
	t := f.Type()
	x, r := h.crossing.expr(t)
	switch {
	case r == nil:
		n.ID.Type = x
	case r.code == CodeUnknownType:
		s.add(f.Pos(), r.code, "", "%s.%s: %s", n.Name, f.Name(), s.unknown(f, r.why))
		return false
	case r.owned:
		s.refuse(f, n.Name+"."+f.Name(), r)
		return false
	}
	basic, isBasic := t.Underlying().(*types.Basic)
	switch {
	case r != nil || types.IsInterface(t):
	case hasText(t):
		n.ID.Form = model.IDText
		return true
	case isBasic && basic.Info()&types.IsString != 0:
		n.ID.Form = model.IDString
		return true
	case isBasic && basic.Info()&types.IsUnsigned != 0 && basic.Kind() != types.Uintptr:
		n.ID.Form = model.IDUint
		return true
	case isBasic && basic.Info()&types.IsInteger != 0 && basic.Kind() != types.Uintptr:
		n.ID.Form = model.IDInt
		return true
	}
	s.add(f.Pos(), CodeIDType, "use a string or integer type, or one that declares MarshalText and UnmarshalText",
		"%s.%s: %s cannot be an id", n.Name, f.Name(), s.crossing.short(t))
	return false
}

func (s *source) stateField(n *model.Entity, f *types.Var, form string) {
	t, r := s.crossing.inForm(f.Type(), form)
	if r == nil {
		n.State = append(n.State, model.Field{Name: f.Name(), Number: len(n.State) + 1, Type: t})
		return
	}
	if r.code == CodeUnknownType && s.awaited(f) {
		r = &refusal{code: CodeType, why: "a generated type cannot be state", remedy: `tag it shard:"-" and set it in the factory`}
	}
	s.refuse(f, n.Name+"."+f.Name(), r)
}

// looksLikeID reports whether a field has a name that is usual for ids.
func looksLikeID(n *model.Entity, f *types.Var) bool {
	name := strings.ToLower(f.Name())
	if _, basic := f.Type().Underlying().(*types.Basic); !basic && !hasText(f.Type()) {
		return false
	}
	return name == "id" || name == "key" || name == strings.ToLower(n.Name)+"id"
}

// refuse reports a type that cannot cross the wire: once, at the field of the refused
// type or, if that is elsewhere, at the parameter or field that uses it.
func (s *source) refuse(at *types.Var, subject string, r *refusal) {
	pos := at.Pos()
	if r.told {
		return
	}
	if r.pos.IsValid() {
		pos = r.pos
		if s.reported[pos] {
			return
		}
		s.reported[pos] = true
	}
	why := r.why
	if r.code == CodeUnknownType && !r.pos.IsValid() {
		why = s.unknown(at, why)
	}
	s.add(pos, r.code, r.remedy, "%s%s: %s", subject, r.path, why)
}
