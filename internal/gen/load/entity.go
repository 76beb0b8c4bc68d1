package load

import (
	"go/types"
	"reflect"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type fieldReader struct {
	*unit
	n *model.Entity // the entity that is read
	h *unit         // the package that the entity's client is generated into
}

// fields reads m's fields and returns the type of its id, string by default. The client's package
// must be able to name this type.
func (s *fieldReader) fields(m *marked) types.Type {
	n := s.n
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
			readJournal(s, m, f, event, u.Tag(i))
			continue
		}
		tag, form, indexed, hasTag := s.tag(f, u.Tag(i))
		switch {
		case !hasTag:
			untagged = append(untagged, f)
		case tag == "id" && n.Singleton:
			s.add(f.Pos(), CodeTag, "remove the tag: there is one instance in a cluster, and its clients name no id", "%s.%s: a singleton has no id", n.Name, f.Name())
		case tag == "id" && n.Pool:
			s.add(f.Pos(), CodeTag, "remove the tag, and call shard.Instance in a method", "%s.%s: an instance of a pool has a number and no id", n.Name, f.Name())
		case tag == "state" && n.Pool:
			s.add(f.Pos(), CodeTag, "remove the tag, or write //shard:entity", "%s.%s: a pool keeps no state", n.Name, f.Name())
		case tag == "id" && n.ID.Field != "":
			s.add(f.Pos(), CodeIDTwice, "keep one", "%s: %s and %s are both tagged id", n.Name, n.ID.Field, f.Name())
		case tag == "id":
			n.ID.Field = f.Name()
			if s.idType(f) {
				id = f.Type()
			}
		case tag == "state":
			s.stateField(f, form, indexed)
		}
	}
	for _, f := range untagged {
		s.untaggedField(f)
	}
	return id
}

// tag returns a field's shard tag. For a state field it also returns the chosen form and whether
// the field has an index. It reports a bad tag and returns "" for it; ok is false if there is no
// tag.
func (s *fieldReader) tag(f *types.Var, raw string) (tag, form string, indexed, ok bool) {
	tag, ok = reflect.StructTag(raw).Lookup("shard")
	subject := s.n.Name + "." + f.Name()
	switch {
	case !ok && strings.Contains(raw, "shard:"):
		s.add(f.Pos(), CodeTag, "write `shard:\"state\"`, with quotes and no spaces", "%s: malformed tag `%s`", subject, raw)
		return "", "", false, true
	case !ok:
		return "", "", false, false
	case tag == "id" || tag == "state" || tag == "-":
		return tag, "", false, true
	}
	if form, indexed, ok := stateOptions(tag); ok {
		return "state", form, indexed, true
	}
	remedy := `use id, state or -; ,text ,binary ,secret or ,index may follow state`
	if meant := nearest(strings.ToLower(tag), []string{"id", "state"}); meant != "" {
		remedy = `write shard:"` + meant + `"`
	}
	s.add(f.Pos(), CodeTag, remedy, "%s: no such tag shard:%q", subject, tag)
	return "", "", false, true
}

// stateOptions returns the form in a state tag, such as text for state,text, and whether it has index.
// It accepts secret, which takes effect at run time.
func stateOptions(tag string) (form string, indexed, ok bool) {
	options := strings.Split(tag, ",")
	if options[0] != "state" {
		return "", false, false
	}
	if i := slices.Index(options, "index"); i > 0 {
		indexed, options = true, slices.Delete(options, i, i+1)
	}
	form, ok = fieldOptions(options[1:])
	return form, indexed, ok
}

func validOptions(tag string) bool {
	_, ok := fieldOptions(strings.Split(tag, ","))
	return ok
}

// fieldOptions returns the form in options, or "". It refuses unknown, repeated and contradictory
// options.
func fieldOptions(options []string) (form string, ok bool) {
	secret := false
	for _, option := range options {
		switch {
		case option == "secret" && !secret:
			secret = true
		case isForm(option) && form == "":
			form = option
		default:
			return "", false
		}
	}
	return form, true
}

func (s *fieldReader) idType(f *types.Var) bool {
	n := s.n
	t := f.Type()
	x, r := s.h.crossing.expr(t)
	switch {
	case r == nil:
		n.ID.Type = x
	case r.code == CodeUnknownType:
		s.add(f.Pos(), r.code, "", "%s.%s: %s", n.Name, f.Name(), s.syntax.unknown(f, r.why))
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

func (s *fieldReader) stateField(f *types.Var, form string, indexed bool) {
	t, r := s.crossing.forms.inForm(f.Type(), form)
	if r == nil {
		field := model.Field{Name: f.Name(), Number: len(s.n.State) + 1, Type: t}
		if indexed {
			field.Index = s.index(f, t)
		}
		s.n.State = append(s.n.State, field)
		return
	}
	if r.code == CodeUnknownType && s.syntax.awaited(f, s.expected) {
		r = &refusal{code: CodeType, why: "a generated type cannot be state", remedy: `tag it shard:"-" and set it in the factory`}
	}
	s.refuse(f, s.n.Name+"."+f.Name(), r)
}

// indexKinds are the kinds of index, by the shape of the indexed field. Only values with an order
// can be indexed.
var indexKinds = map[model.Shape]string{model.Bool: "b", model.Int: "i", model.Uint: "i", model.String: "s", model.Time: "t"}

// index returns the kind of a field's index, one of indexKinds. It adds a diagnostic and returns "" if
// the field's type cannot be indexed.
func (s *fieldReader) index(f *types.Var, t *model.Type) string {
	kind := indexKinds[t.Shape]
	if kind == "" {
		s.add(f.Pos(), CodeTag, "index a string, an integer, a bool, a time.Time, or a type of these kinds without an encoding of its own; or add such a field and index that",
			"%s.%s: values of type %s have no index", s.n.Name, f.Name(), s.crossing.short(f.Type()))
		return ""
	}
	named := func(o model.Field) bool {
		return o.Index != "" && strings.EqualFold(o.FindBy(), model.Field{Name: f.Name()}.FindBy())
	}
	if slices.ContainsFunc(s.n.State, named) {
		s.add(f.Pos(), CodeTag, "rename it, or index only one of the two", "%s.%s: the index of another field needs a method of the same name, %s", s.n.Name, f.Name(), model.Field{Name: f.Name()}.FindBy())
	}
	return kind
}

// checkIndexes refuses indexes of types that cannot have any.
func checkIndexes(s *source, n *model.Entity, m *marked) {
	u := m.object.Type().Underlying().(*types.Struct)
	for i := range u.NumFields() {
		f := u.Field(i)
		_, indexed, _ := stateOptions(reflect.StructTag(u.Tag(i)).Get("shard"))
		switch {
		case !indexed:
		case n.Singleton:
			s.add(f.Pos(), CodeTag, "remove index", "%s.%s: a singleton has no index: there is only one instance", n.Name, f.Name())
		case !n.Durable:
			s.add(f.Pos(), CodeTag, "write durable, or remove index and keep the ids in an entity of their own",
				"%s.%s: only a durable type has indexes: the store keeps them with the commits, and a volatile type has no commits", n.Name, f.Name())
		}
	}
}

// untaggedField reports a field that would be lost when its entity is passivated or moves. Types
// without data and known tools ([isTool]) need no tag.
func (s *fieldReader) untaggedField(f *types.Var) {
	n := s.n
	subject := n.Name + "." + f.Name()
	const why = "%s: has no tag, and would be lost when the entity goes idle or moves"
	if inside, tag := taggedInside(f.Type()); inside != "" {
		s.add(f.Pos(), CodeUntagged, "declare "+inside+" in "+n.Name+" itself, or tag "+f.Name()+" `shard:\"-\"` to set it in the factory",
			why+": the tag shard:%q of %s.%s has no effect there", subject, tag, f.Name(), inside)
		return
	}
	_, r := s.crossing.of(f.Type())
	switch {
	case isNothing(f.Type()):
	case r == nil && n.ID.Field == "" && n.HasID() && looksLikeID(n, f):
		s.add(f.Pos(), CodeUntagged, "tag it `shard:\"id\"` to find the entity's id in it, or `shard:\"state\"` if it is something else", why, subject)
	case r == nil:
		s.add(f.Pos(), CodeUntagged, "tag it `shard:\"state\"` to keep it, or `shard:\"-\"` to set it in the factory", why, subject)
	case s.syntax.awaited(f, s.expected):
	case r.code == CodeUnknownType:
		s.refuse(f, subject, r)
	case !isTool(f.Type()):
		s.add(f.Pos(), CodeUntagged, "tag it `shard:\"-\"` to set it in the factory, or change its type and tag it `shard:\"state\"`",
			why+", and cannot be state: %s%s: %s", subject, f.Name(), r.path, r.why)
	}
}

// looksLikeID recognizes usual ids: ID, Key, or OrderID in Order.
func looksLikeID(n *model.Entity, f *types.Var) bool {
	name := strings.ToLower(f.Name())
	if _, basic := f.Type().Underlying().(*types.Basic); !basic && !hasText(f.Type()) {
		return false
	}
	return name == "id" || name == "key" || name == strings.ToLower(n.Name)+"id"
}
