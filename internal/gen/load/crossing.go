package load

import (
	"go/token"
	"go/types"
	"reflect"
	"strings"

	"golang.org/x/tools/go/types/typeutil"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// A crossing converts each Go type once to a type of the model, or to a refusal.
type crossing struct {
	typeWriter
	known typeutil.Map // types.Type to *model.Type or *refusal
	// added are the types that the current outermost call of [crossing.of] has added. If the call
	// refuses its type, it removes all added types: they may refer to the refused type.
	added []types.Type
	list  []*model.Type
	depth int
	forms *formChoice
	// within counts, for each generic type, those of its instances that enclose the current type.
	within map[*types.TypeName]int
}

func newCrossing(s *source) *crossing {
	c := &crossing{typeWriter: typeWriter{s}, within: make(map[*types.TypeName]int)}
	c.forms = &formChoice{crossing: c, formed: make(map[formKey]*model.Type)}
	return c
}

// maxInstances bounds the nesting of one generic type: T[A any] struct{ N *T[[]A] } never ends.
const maxInstances = 16

// enter begins the conversion of t's parts, and the returned leave ends it. enter refuses nesting
// beyond maxInstances.
func (c *crossing) enter(t types.Type) (leave func(), r *refusal) {
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || named.TypeArgs().Len() == 0 {
		return func() {}, nil
	}
	generic := named.Origin().Obj()
	if c.within[generic] == maxInstances {
		return nil, &refusal{code: CodeType, why: "each " + generic.Name() + " holds a " + generic.Name() + " of a larger type, without end", remedy: "let it hold a " + generic.Name() + " of its own type"}
	}
	c.within[generic]++
	return func() { c.within[generic]-- }, nil
}

// of returns the model of t, or why t cannot cross the wire.
func (c *crossing) of(t types.Type) (*model.Type, *refusal) {
	switch known := c.known.At(t).(type) {
	case *model.Type:
		return known, nil
	case *refusal:
		return nil, known
	}
	if c.depth == 0 {
		c.added = c.added[:0]
	}
	m := &model.Type{Zero: zeroOf(t)}
	c.known.Set(t, m)
	c.added = append(c.added, t)
	first := len(c.list)
	c.list = append(c.list, m)

	c.depth++
	r := c.fill(m, t)
	c.depth--
	if r == nil {
		return m, nil
	}
	if c.depth == 0 {
		for _, a := range c.added {
			c.known.Delete(a)
		}
		c.list = c.list[:first]
		clear(c.forms.formed) // they may contain types that were just removed
		c.known.Set(t, r)
	}
	return nil, r
}

func zeroOf(t types.Type) model.Zero {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		switch {
		case u.Info()&types.IsString != 0:
			return model.ZeroString
		case u.Info()&types.IsBoolean != 0:
			return model.ZeroBool
		case u.Kind() == types.UnsafePointer:
			return model.ZeroNil
		}
		return model.ZeroNumber
	case *types.Struct, *types.Array:
		return model.ZeroBraces
	}
	return model.ZeroNil
}

func (c *crossing) fill(m *model.Type, t types.Type) (r *refusal) {
	leave, r := c.enter(t)
	if r != nil {
		return r
	}
	defer leave()
	if m.Expr, r = c.expr(t); r != nil {
		return r
	}
	if done, r := c.fillKnown(m, t); done || r != nil {
		return r
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		m.Constants = constants(c.pkg, t)
		return fillBasic(m, u, t)
	case *types.Pointer:
		m.Shape = model.Pointer
		m.Elem, r = c.of(u.Elem())
		return r
	case *types.Slice:
		if isByte(u.Elem()) {
			m.Shape = model.Bytes
			return nil
		}
		m.Shape = model.Slice
		return c.fillElem(m, u.Elem())
	case *types.Array:
		m.Shape, m.Len = model.Array, u.Len()
		if isByte(u.Elem()) {
			m.Shape = model.ByteArray
			return nil
		}
		return c.fillElem(m, u.Elem())
	case *types.Map:
		m.Shape = model.Map
		return c.fillMap(m, u)
	case *types.Struct:
		m.Shape = model.Struct
		return c.fillStruct(m, t, u)
	case *types.Interface:
		return c.fillOneof(m, t)
	}
	return refuseType(c.source, t)
}

// fillKnown handles types with their own wire form: time.Time, protobuf messages, and types with
// text or binary methods.
func (c *crossing) fillKnown(m *model.Type, t types.Type) (done bool, r *refusal) {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		if isMessage(p) {
			m.Shape = model.Proto
			return true, nil
		}
		return false, nil
	}
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || types.IsInterface(t) {
		return false, nil
	}
	switch {
	case isNamed(named, "time", "Time"):
		m.Shape = model.Time
	case isMessage(types.NewPointer(t)):
		return false, &refusal{code: CodeType, why: "a protobuf message cannot be copied", remedy: "use a pointer to it"}
	case c.entities[named.Obj()]:
		return false, &refusal{code: CodeType, why: "an entity cannot cross the wire", remedy: "pass its id"}
	case c.setForm(m, t, ""):
	default:
		return false, c.refuseHalf(t)
	}
	return true, nil
}

// refuseHalf refuses a type with only one of a pair such as MarshalText and UnmarshalText: its
// intended form is unclear.
func (c *crossing) refuseHalf(t types.Type) *refusal {
	has, lacks, ok := half(t)
	if !ok {
		return nil
	}
	remedy := "declare " + lacks + " too"
	if o := types.Unalias(t).(*types.Named).Obj(); o.Pkg() != c.pkg.Types {
		remedy = "copy the values that you need into a type of your own"
	}
	return &refusal{code: CodeType, why: c.short(t) + " declares " + has + " without " + lacks, remedy: remedy}
}

func fillBasic(m *model.Type, u *types.Basic, t types.Type) *refusal {
	switch info := u.Info(); {
	case u.Kind() == types.Uintptr, u.Kind() == types.UnsafePointer:
		return &refusal{code: CodeType, why: "an address cannot cross the wire", remedy: "pass the value that it points to"}
	case info&types.IsBoolean != 0:
		m.Shape = model.Bool
	case info&types.IsUnsigned != 0:
		m.Shape, m.Basic = model.Uint, sized(u)
	case info&types.IsInteger != 0:
		m.Shape, m.Basic = model.Int, sized(u)
	case u.Kind() == types.Float32:
		m.Shape = model.Float32
	case u.Kind() == types.Float64:
		m.Shape = model.Float64
	case info&types.IsString != 0:
		m.Shape = model.String
	case info&types.IsComplex != 0:
		return &refusal{code: CodeType, why: "protobuf has no complex numbers", remedy: "pass a struct of two floats"}
	default:
		return &refusal{code: CodeUnknownType, why: "unknown type " + t.String()}
	}
	return nil
}

// sized returns the name of an integer type, with 64 bits for int and uint: int64 for int.
func sized(u *types.Basic) string {
	name := types.Typ[u.Kind()].Name() // not the alias byte or rune
	if name == "int" || name == "uint" {
		name += "64"
	}
	return name
}

func (c *crossing) fillElem(m *model.Type, elem types.Type) (r *refusal) {
	if m.Elem, r = c.of(elem); r != nil {
		return r.at("[]")
	}
	return nil
}

func (c *crossing) fillMap(m *model.Type, u *types.Map) (r *refusal) {
	if m.Key, r = c.of(u.Key()); r != nil {
		return r.at("[key]")
	}
	if r = c.badKey(u.Key()); r != nil {
		return r.at("[key]")
	}
	return c.fillElem(m, u.Elem())
}

// badKey refuses map keys with pointers or interfaces: decoded keys would not equal the sent ones.
func (c *crossing) badKey(t types.Type) *refusal {
	if isNamed(t, "time", "Time") || hasBinary(t) || hasText(t) && !c.isOpen(t) {
		return nil
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return &refusal{code: CodeType, why: "a pointer as a key differs after every call", remedy: "use the value that it points to as the key"}
	case *types.Interface:
		return &refusal{code: CodeType, why: "an interface as a key may differ after every call", remedy: "use a concrete type as the key"}
	case *types.Array:
		if r := c.badKey(u.Elem()); r != nil {
			return r.at("[]")
		}
	case *types.Struct:
		for i := range u.NumFields() {
			if f := u.Field(i); reflect.StructTag(u.Tag(i)).Get("shard") != "-" {
				if r := c.badKey(f.Type()); r != nil {
					return r.at("." + f.Name())
				}
			}
		}
	}
	return nil
}

// fillStruct reads the fields of t. A struct of the package that gets the generated code may have
// unexported fields. A struct of another package must have exported fields only: generated code
// could not encode the rest.
func (c *crossing) fillStruct(m *model.Type, t types.Type, u *types.Struct) *refusal {
	if named, ok := types.Unalias(t).(*types.Named); ok && named.Obj().Pkg() == c.pkg.Types && named.TypeArgs().Len() == 0 {
		m.Own = ownFields(u)
	}
	var refused []*refusal
	for i := range u.NumFields() {
		f := u.Field(i)
		own := f.Pkg() == c.pkg.Types
		tag, hasTag := reflect.StructTag(u.Tag(i)).Lookup("shard")
		switch {
		case f.Name() == "_":
			continue
		case !own && !f.Exported() && isNothing(f.Type()):
			continue
		case !own && !f.Exported():
			return c.unexported(t, f)
		case hasTag && tag == "-" && holdsLock(f.Type()):
			r := &refusal{code: CodeType, why: "a lock cannot be copied", remedy: "use a pointer to it"}
			if own {
				r.pos = f.Pos()
			}
			refused = append(refused, r.at("."+f.Name()))
			continue
		case hasTag && tag == "-":
			x, r := c.expr(f.Type())
			zero := zeroOf(f.Type())
			if r != nil {
				x = nil
			}
			m.Skipped = append(m.Skipped, model.Skipped{Name: f.Name(), Expr: x, Zero: zero})
			continue
		case hasTag && tag == "id" && m.IDField != "":
			r := &refusal{code: CodeIDTwice, why: m.IDField + " is tagged id, too", remedy: "keep one"}
			refused = append(refused, c.locate(r.at("."+f.Name()), f, own))
			continue
		case hasTag && tag == "id":
			m.IDField = f.Name()
		case hasTag && validOptions(tag):
		case hasTag:
			r := &refusal{code: CodeTag, why: `the tag shard:"` + tag + `" has no effect here`, remedy: `outside an entity use shard:"id", shard:"-", shard:"text", shard:"binary" or shard:"secret"`}
			refused = append(refused, c.locate(r.at("."+f.Name()), f, own))
			continue
		}
		chosen, _ := fieldOptions(strings.Split(tag, ","))
		elem, r := c.forms.inForm(f.Type(), chosen)
		if r != nil && !own {
			foreign := *r
			foreign.more = nil // report foreign once, not for each of its struct's fields
			foreign.remedy = "copy the values that you need into a struct of your own"
			r = &foreign
		}
		if r != nil {
			for _, each := range r.at("." + f.Name()).all() {
				refused = append(refused, c.locate(each, f, own))
			}
			continue
		}
		m.Fields = append(m.Fields, model.Field{Name: f.Name(), Number: len(m.Fields) + 1, Type: elem})
	}
	return join(refused)
}

func (c *crossing) fillOneof(m *model.Type, t types.Type) *refusal {
	decl := c.oneofOf(t)
	if decl == nil {
		return refuseType(c.source, t)
	}
	cases, r := c.oneofCases(t, decl)
	if r != nil {
		return r
	}
	m.Shape = model.Oneof
	var refused []*refusal
	for i, k := range cases {
		elem, r := c.of(travels(k.of))
		if r != nil {
			for _, r := range r.at(".(" + c.short(k.of) + ")").all() {
				if !r.pos.IsValid() {
					r.pos, r.remedy = c.at(decl, t), "change that type, or list the other cases in the directive"
				}
				refused = append(refused, r)
			}
			continue
		}
		m.Cases = append(m.Cases, model.Case{
			Name: k.name, Number: i + 1, Type: elem,
			Pointer: k.isPointer() && elem.Shape != model.Proto,
		})
	}
	return join(refused)
}

// travels returns the type that is encoded for a case of an interface. It dereferences pointers,
// except to protobuf messages.
func travels(t types.Type) types.Type {
	if p, ok := t.(*types.Pointer); ok && !isMessage(t) {
		return p.Elem()
	}
	return t
}

// oneofOf returns t's //shard:oneof directive, from any package, or nil.
func (c *crossing) oneofOf(t types.Type) *oneof {
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return nil
	}
	if named.Obj().Pkg() == c.pkg.Types {
		return c.oneofs[named.Obj()]
	}
	if o, known := c.oneofs[named.Obj()]; known {
		return o
	}
	o := findOneof(c.loader.sourceOf(named.Obj().Pkg().Path(), inModule(c.pkg, named.Obj().Pkg())), named.Obj().Name())
	c.oneofs[named.Obj()] = o
	return o
}

// at returns the position of interface t's declaration o, or NoPos if another package declares t.
func (c *crossing) at(o *oneof, t types.Type) token.Pos {
	if types.Unalias(t).(*types.Named).Obj().Pkg() != c.pkg.Types {
		return token.NoPos
	}
	return o.spec.Name.Pos()
}

// oneofCases returns the implementations of interface t. A mistake in an interface of this package
// is reported once, at its declaration.
func (c *crossing) oneofCases(t types.Type, decl *oneof) ([]oneofCase, *refusal) {
	pkg := types.Unalias(t).(*types.Named).Obj().Pkg()
	f := &caseFinder{pkg: pkg, file: decl.file, short: c.short, importNamed: c.loader.importNamed}
	if pkg != c.pkg.Types {
		f.foreign = c.loader.sourceOf(pkg.Path(), true)
	}
	list := f.cases(t, decl)
	if f.why == "" {
		return list, nil
	}
	r := &refusal{code: CodeOneof, why: f.why, remedy: f.remedy}
	if pos := c.at(decl, t); pos.IsValid() {
		if !decl.reported {
			decl.reported = true
			c.add(pos, CodeOneof, r.remedy, "%s: %s", c.short(t), r.why)
		}
		r.reported = true
	}
	r.why = c.short(t) + ": " + r.why
	return nil, r
}

// locate adds the position of the field f to a refusal, unless a field inside f has added its own
// position. If a tag at f would help, locate adds that remedy. It does nothing if own is false,
// because f is then in another package.
func (c *crossing) locate(r *refusal, f *types.Var, own bool) *refusal {
	if own && !r.pos.IsValid() {
		r.pos = f.Pos()
		if r.code == CodeType {
			r.remedy += `, or tag the field shard:"-"`
		}
		if r.code == CodeUnknownType {
			r.why = c.syntax.unknown(f, r.why)
		}
	}
	return r
}

func (c *crossing) unexported(t types.Type, f *types.Var) *refusal {
	if isReference(t) {
		return &refusal{code: CodeType, why: "a reference cannot cross the wire", remedy: "pass the id"}
	}
	return &refusal{
		code:   CodeType,
		why:    c.short(t) + " has the unexported field " + f.Name(),
		remedy: "copy the values that you need into a struct of your own",
	}
}

// checkOneofs checks all //shard:oneof interfaces of the package, even unused ones.
func (c *crossing) checkOneofs() {
	for _, name := range c.pkg.Types.Scope().Names() {
		o, _ := c.pkg.Types.Scope().Lookup(name).(*types.TypeName)
		if o != nil && c.oneofs[o] != nil {
			c.oneofCases(o.Type(), c.oneofs[o])
		}
	}
}
