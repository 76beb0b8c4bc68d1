package contract

import "fmt"

// A Break is what programs of two versions do not agree on.
type Break struct {
	Subject string // "Stock.Reserve"
	What    string // what changed
	Who     string // which running program notices, and how
}

// String reads subject: what: who.
func (b Break) String() string { return b.Subject + ": " + b.What + ": " + b.Who }

// Breaking returns what a program of contract now and a running one of contract
// old would not agree on. Both are as read from files.
func Breaking(old, now *Contract) []Break {
	var b breaks
	for _, k := range old.Kinds {
		if n := now.kind(k.Name); !k.Retired && (n == nil || n.Retired) {
			b.add("kind "+k.Name, "gone", "callers of the old version wait for a host until their deadline")
		} else if n != nil && !k.Retired {
			b.kind(k, n)
		}
	}
	for _, m := range old.Messages {
		if n := now.message(m.Name); n != nil {
			b.fields(m.Name, "field", m.Fields, n.Fields)
		}
	}
	for _, e := range old.Errors {
		n := now.byWire(e.Wire)
		switch {
		case e.Retired:
		case n == nil || n.Retired:
			b.add("error "+e.Name, "gone", "callers of the old version get its text alone")
		case n.Type != e.Type:
			b.add("error "+e.Name, "was "+errorForm(e)+", is "+errorForm(n), "callers of either version get the other's text alone")
		}
	}
	return b.list
}

func (c *Contract) byWire(wire string) *Error {
	for _, e := range c.Errors {
		if e.Wire == wire {
			return e
		}
	}
	return nil
}

type breaks struct{ list []Break }

func (b *breaks) add(subject, what, who string) { b.list = append(b.list, Break{subject, what, who}) }

func (b *breaks) kind(old, now *Kind) {
	changed := func(what string, was, is any) {
		if was != is {
			b.add("kind "+old.Name, fmt.Sprintf("%s was %v, is %v", what, was, is), "nodes of the new version are refused at joining; stop all of the old version first")
		}
	}
	changed("form", form(old), form(now))
	changed("id", old.ID, now.ID)
	changed("shards", old.Shards, now.Shards)
	changed("hash", old.Hash, now.Hash)
	b.fields(old.Name, "state", old.State, now.State)
	for _, m := range old.Methods {
		if m.Retired {
			continue
		}
		n := methodByWire(now, m.Wire)
		if n == nil || n.Retired {
			b.add(old.Name+"."+m.Name, "gone", "callers of the old version get ErrNoMethod")
			continue
		}
		if m.Tell && !n.Tell || !m.Tell && n.Tell {
			b.add(old.Name+"."+m.Name, "told before or now", "callers of one version wait for it and those of the other do not")
		}
		b.fields(old.Name+"."+m.Name, "argument", m.Args, n.Args)
		b.fields(old.Name+"."+m.Name, "result", m.Results, n.Results)
	}
}

func methodByWire(k *Kind, wire string) *Method {
	for _, m := range k.Methods {
		if m.Wire == wire {
			return m
		}
	}
	return nil
}

// fields compares by number: that is what travels.
func (b *breaks) fields(of, what string, old, now []*Field) {
	for _, f := range old {
		if f.Retired {
			continue
		}
		subject := fmt.Sprintf("%s %s.%s", what, of, f.Name)
		n := byNumber(now, f.Number)
		switch {
		case n == nil || n.Retired:
			b.add(subject, "gone", "programs of the old version find its zero value")
		case !compatible(f.Type, n.Type):
			b.add(subject, "was "+f.Type+", is "+n.Type, "neither version can read what the other writes")
		case f.Type != n.Type && loose(f.Type) != f.Type && width(f.Type) != width(n.Type):
			b.add(subject, "was "+f.Type+", is "+n.Type, "numbers that do not fit the narrower are refused by its reader")
		}
	}
}

// width is a type without being optional.
func width(t string) string {
	if len(t) > 0 && t[0] == '*' {
		return t[1:]
	}
	return t
}

func byNumber(fields []*Field, number int) *Field {
	for _, f := range fields {
		if f.Number == number {
			return f
		}
	}
	return nil
}
