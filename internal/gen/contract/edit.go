package contract

import (
	"fmt"
	"go/token"
	"slices"
	"strings"
)

// The commands on a contract file take paths. Stock is a kind, a struct or an error;
// Stock.Reserve is a message; Stock.Left is a field of the state or of a struct;
// Stock.Reserve.order is an argument or a result.

// Move renames the entry at path; name is the new last part of the path. The entry's form on the
// wire stays: a field keeps its number, and a message keeps its first name.
func Move(c *Contract, path, name string) error {
	fail := func(why string, args ...any) error {
		return fmt.Errorf("move %s: "+why, append([]any{path}, args...)...)
	}
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		name = strings.TrimPrefix(name, path[:i+1])
	}
	if k := c.kind(path); k != nil && !k.Retired {
		return fail("other programs call a kind by its name: write name=%s in the directive of the struct instead", path)
	}
	if v, e := c.value(path); v != nil {
		if !token.IsIdentifier(name) {
			return fail("%q is not a valid name", name)
		}
		if e.value(name) != nil {
			return fail("there is a constant %s already", name)
		}
		v.Name = name
		return nil
	}
	if c.message(path) != nil || c.enum(path) != nil {
		if c.message(name) != nil || c.enum(name) != nil {
			return fail("there is a type %s already", name)
		}
		renameType(c, path, name)
		return nil
	}
	e := c.err(path)
	plain := name
	if e != nil { // it may now belong to another package
		plain = name[strings.LastIndexByte(name, '.')+1:]
	}
	if !token.IsIdentifier(plain) {
		return fail("%q is not a valid name", name)
	}
	if e != nil {
		if c.err(name) != nil {
			return fail("there is an error %s already", name)
		}
		e.Name = name
		return nil
	}
	if k, m := c.method(path); m != nil {
		if k.method(name) != nil {
			return fail("there is a message %s.%s already", k.Name, name)
		}
		m.Name = name
		return nil
	}
	f, fields := c.field(path)
	if f == nil {
		return fail("not in the contract")
	}
	if slices.ContainsFunc(*fields, func(o *Field) bool { return o.Name == name && !o.Retired }) {
		return fail("there is a field %s already", name)
	}
	if isCase(c, f) { // a case has the name of its type, which may follow a form: text:Code
		f.Type = replaceName(f.Type, f.Name, name)
	}
	f.Name = name
	return nil
}

// Retire marks the entry at path as permanently removed. Its number or name is never used again.
func Retire(c *Contract, path string) error {
	if k := c.kind(path); k != nil {
		k.Retired = true
		return nil
	}
	if e := c.err(path); e != nil {
		e.Retired = true
		return nil
	}
	if _, m := c.method(path); m != nil {
		m.Retired = true
		return nil
	}
	if v, _ := c.value(path); v != nil {
		v.Retired = true
		return nil
	}
	if f, _ := c.field(path); f != nil {
		f.Retired = true
		return nil
	}
	return fmt.Errorf("remove %s: not in the contract", path)
}

// Retype sets the type of the field at path, or the value of the constant at path. to is in the
// notation of the contract. Retype does not check compatibility: programs of both versions must
// read the encoded values alike.
func Retype(c *Contract, path, to string) error {
	if v, _ := c.value(path); v != nil {
		if !isValue(to) {
			return fmt.Errorf("retype %s: %q cannot be the value of a constant", path, to)
		}
		v.Number = to
		return nil
	}
	f, _ := c.field(path)
	switch {
	case f == nil || f.Retired:
		return fmt.Errorf("retype %s: not a field in the contract", path)
	case to == "" || strings.ContainsAny(to, " \t\r\n"):
		return fmt.Errorf("retype %s: %q is not a type", path, to)
	}
	f.Type = to
	return nil
}

// Reset removes the entry at path, and frees its numbers for other entries. Call Reset only if no
// running program knows the entry. If records of a durable type may contain the entry, Reset
// returns an error. The caller sets unstored to allow it, if no store has such a record.
func Reset(c *Contract, path string, unstored bool) error {
	if kind := storedBy(c, path); kind != "" && !unstored {
		return errStored(path, kind)
	}
	before := len(c.Kinds) + len(c.Messages) + len(c.Errors) + len(c.Enums)
	c.Kinds = slices.DeleteFunc(c.Kinds, func(k *Kind) bool { return k.Name == path })
	c.Messages = slices.DeleteFunc(c.Messages, func(m *Message) bool { return m.Name == path })
	c.Errors = slices.DeleteFunc(c.Errors, func(e *Error) bool { return e.Name == path })
	c.Enums = slices.DeleteFunc(c.Enums, func(e *Enum) bool { return e.Name == path })
	if len(c.Kinds)+len(c.Messages)+len(c.Errors)+len(c.Enums) < before {
		return nil
	}
	if v, e := c.value(path); v != nil {
		e.Values = slices.DeleteFunc(e.Values, func(o *Value) bool { return o == v })
		return nil
	}
	if k, m := c.method(path); m != nil {
		k.Methods = slices.DeleteFunc(k.Methods, func(o *Method) bool { return o == m })
		return nil
	}
	if f, fields := c.field(path); f != nil {
		*fields = slices.DeleteFunc(*fields, func(o *Field) bool { return o == f })
		return nil
	}
	return fmt.Errorf("reset %s: not in the contract", path)
}

func renameType(c *Contract, name, to string) {
	for _, m := range c.Messages {
		if m.Name == name {
			m.Name = to
		}
		m.Is = replaceName(m.Is, name, to)
	}
	for _, l := range c.lists() {
		for _, f := range *l.fields {
			if l.what == "case" && f.Type == name && f.Name == shortName(name) && !f.Retired {
				f.Name = shortName(to) // a case has the name of its type
			}
			f.Type = replaceName(f.Type, name, to)
		}
	}
	for _, e := range c.Errors {
		e.Type = replaceName(e.Type, name, to)
	}
	for _, e := range c.Enums {
		e.Name = replaceName(e.Name, name, to)
	}
}

// isCase reports whether f is a case whose type has no line in the contract.
func isCase(c *Contract, f *Field) bool {
	for _, m := range c.Messages {
		if m.Oneof && slices.Contains(m.Fields, f) {
			return c.message(f.Type) == nil
		}
	}
	return false
}
