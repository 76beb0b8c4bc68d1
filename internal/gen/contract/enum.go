package contract

import "slices"

// enums compares the names and numbers of constants. A name whose number changed would
// change the meaning of numbers in messages and in kept state; so would a number that
// belonged to another name that is gone.
func (a *adoption) enums(old, now, next *Contract) {
	for _, e := range now.Enums {
		before := old.enum(e.Name)
		if before == nil {
			before = &Enum{}
		}
		next.Enums = append(next.Enums, a.enum(before, e))
	}
	for _, e := range old.Enums {
		if now.enum(e.Name) == nil {
			next.Enums = append(next.Enums, e) // no longer used; its values stay reserved
		}
	}
}

func (a *adoption) enum(before, e *Enum) *Enum {
	next := &Enum{Name: e.Name}
	for _, v := range e.Values {
		path := e.Name + "." + v.Name
		was := before.value(v.Name)
		switch {
		case was != nil && was.Number != v.Number:
			a.add(CodeChanged, was.line, "give it its number back: write constants that are new behind those that were there; or, "+reset+path,
				"constant %s: was %s and is %s: programs of both versions, and kept state, would mistake one for the other", path, was.Number, v.Number)
		case was == nil && before.retired(v.Number) != nil:
			gone := before.retired(v.Number)
			a.add(CodeTwice, gone.line, "give it a number that nothing had", "constant %s: %s was %s, which is gone for good", path, v.Number, gone.Name)
		}
		next.Values = append(next.Values, &Value{Name: v.Name, Number: v.Number})
	}
	for _, v := range before.Values {
		if e.value(v.Name) != nil && !v.Retired {
			continue
		}
		if !v.Retired {
			a.gone(v.line, "constant "+e.Name+"."+v.Name, e.Name+"."+v.Name, renamedValue(before, e, v), "")
		}
		next.Values = append(next.Values, v)
	}
	return next
}

// retired is the name that had the number and was removed permanently; nil if there is
// none.
func (e *Enum) retired(number string) *Value {
	i := slices.IndexFunc(e.Values, func(v *Value) bool { return v.Retired && v.Number == number })
	if i < 0 || slices.ContainsFunc(e.Values, func(v *Value) bool { return !v.Retired && v.Number == number }) {
		return nil
	}
	return e.Values[i]
}

// renamedValue asks whether a constant with a new name and a known number is a renamed
// one.
func renamedValue(before, e *Enum, gone *Value) string {
	for _, v := range e.Values {
		if v.Number == gone.Number && before.value(v.Name) == nil {
			return moveCommand(e.Name+"."+gone.Name, v.Name)
		}
	}
	return ""
}

// enums compares the meanings of numbers.
func (b *breaks) enums(old, now *Contract) {
	for _, e := range old.Enums {
		n := now.enum(e.Name)
		if n == nil {
			continue
		}
		for _, v := range e.Values {
			if is := n.value(v.Name); is != nil && !v.Retired && is.Number != v.Number {
				b.add("constant "+e.Name+"."+v.Name, "was "+v.Number+", is "+is.Number, "either version takes the other's for another constant")
			}
		}
	}
}
