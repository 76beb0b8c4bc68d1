package load

import (
	"go/types"

	"github.com/shardgen/shardgen/internal/gen/model"
)

const (
	formText   = "text"
	formBinary = "binary"
)

func isForm(tag string) bool { return tag == formText || tag == formBinary }

type formKey struct {
	t    *model.Type
	form string
}

type formChoice struct {
	*crossing
	formed map[formKey]*model.Type // the types whose form a tag chose
}

// setForm sets m's form and returns true if t's methods encode t. If chosen is "", binary
// precedes text, as it loses less, and [crossing.isOpen] types are encoded by field.
func (c *crossing) setForm(m *model.Type, t types.Type, chosen string) bool {
	switch {
	case chosen != formText && hasBinary(t):
		m.Shape = model.Binary
	case chosen != formText && isNamed(t, "math/big", "Float"):
		m.Shape = model.Gob // big.Float has no MarshalBinary, and its text omits the precision
	case chosen == "" && c.isOpen(t):
		return false
	case chosen != formBinary && hasText(t):
		m.Shape = model.Text
	default:
		return false
	}
	m.Plain = isLossless(t)
	return true
}

// isOpen reports whether t is another module's struct with accessible fields and only text methods.
// Such a text may lose values: an empty valid null.String has the text of an invalid one. Text
// methods in the user's module count as intended.
func (c *crossing) isOpen(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || named.Obj().Pkg() == nil || inModule(c.pkg, named.Obj().Pkg()) || hasBinary(t) || !hasText(t) {
		return false
	}
	u, ok := t.Underlying().(*types.Struct)
	return ok && c.fieldsOpen(u, make(map[types.Type]bool))
}

func (c *crossing) fieldsOpen(u *types.Struct, seen map[types.Type]bool) bool {
	for f := range u.Fields() {
		if !isNothing(f.Type()) && (!f.Exported() || !c.opens(f.Type(), seen)) {
			return false
		}
	}
	return true
}

func (c *crossing) opens(t types.Type, seen map[types.Type]bool) bool {
	if seen[t] || isNamed(t, "time", "Time") || hasBinary(t) || hasText(t) {
		return true
	}
	seen[t] = true
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return fillBasic(&model.Type{}, u, t) == nil
	case *types.Struct:
		return c.fieldsOpen(u, seen)
	case *types.Map:
		return c.opens(u.Key(), seen) && c.opens(u.Elem(), seen)
	case interface{ Elem() types.Type }: // a pointer, a slice or an array
		_, isChan := u.(*types.Chan)
		return !isChan && c.opens(u.Elem(), seen)
	}
	return false
}

// inForm returns the model of t in the chosen form, which may be "". The choice also applies to t's
// elements, keys and target.
func (c *formChoice) inForm(t types.Type, chosen string) (*model.Type, *refusal) {
	m, r := c.of(t)
	if r != nil || chosen == "" {
		return m, r
	}
	return c.reform(m, t, chosen)
}

func (c *formChoice) reform(m *model.Type, t types.Type, chosen string) (*model.Type, *refusal) {
	key := formKey{m, chosen}
	if known := c.formed[key]; known != nil {
		return known, nil
	}
	other := *m
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		if m.Shape != model.Pointer {
			return nil, c.formless(t, chosen)
		}
		return c.reformElem(&other, key, u.Elem())
	case *types.Map:
		if m.Shape == model.Map {
			return c.reformMap(&other, key, u)
		}
	case interface{ Elem() types.Type }: // a slice or an array
		if m.Shape == model.Slice || m.Shape == model.Array {
			return c.reformElem(&other, key, u.Elem())
		}
	}
	other.Fields, other.Skipped, other.Own = nil, nil, nil
	if !c.setForm(&other, t, chosen) {
		return nil, c.formless(t, chosen)
	}
	if other.Shape == m.Shape {
		return m, nil
	}
	return c.addFormed(key, &other), nil
}

func (c *formChoice) reformElem(other *model.Type, key formKey, elem types.Type) (*model.Type, *refusal) {
	if key.t.Elem == nil || key.t.Elem == key.t {
		return nil, c.formless(elem, key.form) // key.t contains itself
	}
	e, r := c.reform(key.t.Elem, elem, key.form)
	if r != nil {
		return nil, r
	}
	if e == key.t.Elem {
		return key.t, nil
	}
	other.Elem = e
	return c.addFormed(key, other), nil
}

// reformMap gives a map the chosen form. Keys or elements, but not both, may lack that form.
func (c *formChoice) reformMap(other *model.Type, key formKey, u *types.Map) (*model.Type, *refusal) {
	if key.t.Elem == nil || key.t.Elem == key.t {
		return nil, c.formless(u.Elem(), key.form) // key.t contains itself
	}
	k, noKey := c.reform(key.t.Key, u.Key(), key.form)
	e, noElem := c.reform(key.t.Elem, u.Elem(), key.form)
	if noKey != nil && noElem != nil {
		return nil, noElem
	}
	if noKey == nil {
		other.Key = k
	}
	if noElem == nil {
		other.Elem = e
	}
	if other.Key == key.t.Key && other.Elem == key.t.Elem {
		return key.t, nil
	}
	return c.addFormed(key, other), nil
}

func (c *formChoice) addFormed(key formKey, t *model.Type) *model.Type {
	c.formed[key] = t
	c.list = append(c.list, t)
	return t
}

func (c *formChoice) formless(t types.Type, chosen string) *refusal {
	why, remedy := c.short(t)+" has no text form", "declare MarshalText and UnmarshalText, or leave out text"
	if chosen == formBinary {
		why, remedy = c.short(t)+" has no binary form", "declare MarshalBinary and UnmarshalBinary, or leave out binary"
	}
	return &refusal{code: CodeTag, why: why, remedy: remedy}
}
