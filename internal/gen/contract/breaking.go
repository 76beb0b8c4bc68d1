package contract

import (
	"fmt"
)

// A Break is what programs of two versions do not agree on.
type Break struct {
	Subject string // "Stock.Reserve"
	What    string // what changed
	Who     string // which running program notices, and how
	// Compatible: nothing that works now stops working. It only says from when on
	// what is new can be used.
	Compatible bool
}

// String reads subject: what: who.
func (b Break) String() string { return b.Subject + ": " + b.What + ": " + b.Who }

// Breaking returns what a program of contract now and a running one of contract
// old would not agree on. Both are as read from files. Names of structs do not
// travel: structs are compared by where they are used.
func Breaking(old, now *Contract) []Break {
	b := breaks{old: old, now: now, compared: make(map[renaming]bool)}
	for _, k := range old.Kinds {
		if n := now.kind(k.Name); !k.Retired && (n == nil || n.Retired) {
			who := "callers of the old version wait for a host until their deadline"
			if k.Durable {
				who += ", and the state of its entities stays in the store, unread"
			}
			b.add("kind "+k.Name, "gone", who)
		} else if n != nil && !k.Retired {
			b.kind(k, n)
		}
	}
	for _, e := range old.Errors {
		n := now.byWire(e.Wire)
		switch {
		case e.Retired:
		case n == nil || n.Retired:
			b.add("error "+e.Name, "gone", "callers of the old version get its text alone")
		case (e.Type == "") != (n.Type == "") || !b.sameType(e.Type, n.Type):
			b.add("error "+e.Name, "was "+errorForm(e)+", is "+errorForm(n), "callers of either version get the other's text alone")
		}
	}
	for len(b.waiting) > 0 { // comparing structs finds more of them
		pair := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.structs(pair.from, pair.to)
	}
	b.enums(old, now)
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

// breaks collects what two contracts do not agree on.
type breaks struct {
	old, now *Contract
	list     []Break
	waiting  []renaming // structs of both that stand in one place, to be compared
	compared map[renaming]bool
}

func (b *breaks) add(subject, what, who string) {
	b.list = append(b.list, Break{Subject: subject, What: what, Who: who})
}

func (b *breaks) kind(old, now *Kind) {
	changed := func(what string, was, is any) {
		if was != is {
			b.add("kind "+old.Name, fmt.Sprintf("%s was %v, is %v", what, was, is), "nodes of the new version are refused at joining; stop all of the old version first")
		}
	}
	if changed("form", form(old), form(now)); old.Singleton != now.Singleton {
		return // what calls it is another client
	}
	changed("id", old.ID, now.ID)
	changed("shards", old.Shards, now.Shards)
	changed("hash", old.Hash, now.Hash)
	b.fields(old.Name, "state", old.State, now.State)
	b.fields(old.Name, "event", old.Events, now.Events)
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

// structs compares two structs that stand in one place.
func (b *breaks) structs(was, is string) {
	old, now := b.old.message(was), b.now.message(is)
	switch {
	case old.Oneof != now.Oneof:
		b.add("type "+was, "its form has changed", "neither version can read what the other writes")
	case old.Is == "" && now.Is == "":
		b.fields(was, old.fieldsAre(), old.Fields, now.Fields)
	case (old.Is == "") != (now.Is == "") || !b.sameType(old.Is, now.Is):
		b.add("type "+was, "its form has changed", "neither version can read what the other writes")
	}
}

// fields compares by number: that is what travels. JSON has names instead.
func (b *breaks) fields(of, what string, old, now []*Field) {
	for _, f := range old {
		if f.Retired {
			continue
		}
		subject := fmt.Sprintf("%s %s.%s", what, of, f.Name)
		n := byNumber(now, f.Number)
		switch {
		case n == nil || n.Retired:
			b.add(subject, "gone", goneFor(what))
			continue
		case formsDiffer(loose(f.Type), loose(n.Type)):
			b.add(subject, "was "+f.Type+", is "+n.Type, "either version reads what the other writes only if both types read each other's form")
		case !b.sameType(f.Type, n.Type):
			b.add(subject, "was "+f.Type+", is "+n.Type, "neither version can read what the other writes")
		case narrower(f.Type, n.Type) || narrower(n.Type, f.Type):
			b.add(subject, "was "+f.Type+", is "+n.Type, "numbers that do not fit the narrower are refused by its reader")
		}
		if n.Name == f.Name || what == "state" {
			continue
		}
		who := "callers that use JSON by the gateway still call it " + f.Name
		if what == "field" {
			who += ", unless a json tag keeps that name"
		}
		b.add(subject, "is called "+n.Name, who)
	}
	if what == "case" {
		b.newCases(of, old, now)
	}
}

// newCases says of cases that are new what becomes of them in older programs.
func (b *breaks) newCases(of string, old, now []*Field) {
	for _, f := range now {
		if !f.Retired && byNumber(old, f.Number) == nil {
			b.list = append(b.list, Break{
				Subject: "case " + of + "." + f.Name, What: "new", Compatible: true,
				Who: "programs of the old version refuse messages that hold it, and keep it in state without knowing it: pass it once none of them runs",
			})
		}
	}
}

// goneFor says who notices that a number means nothing any more.
func goneFor(what string) string {
	if what == "event" {
		return "the events that are kept cannot be read, and states that follow from them are lost"
	}
	if what == "case" {
		return "programs of the new version refuse messages of the old that hold it"
	}
	return "programs of the old version find its zero value"
}

// sameType reports whether two types are compatible but for the names of structs,
// and has those compared that stand in one place.
func (b *breaks) sameType(was, is string) bool {
	return b.sameNode(loose(was), loose(is))
}

func (b *breaks) sameNode(was, is string) bool {
	if b.old.message(was) != nil && b.now.message(is) != nil {
		if pair := (renaming{was, is}); !b.compared[pair] {
			b.compared[pair] = true
			b.waiting = append(b.waiting, pair)
		}
		return true
	}
	o, n := parseType(was), parseType(is)
	if o.op == 0 || n.op == 0 {
		return was == is
	}
	return o.op == n.op && o.name == n.name && (o.op != 'm' || b.sameNode(o.key, n.key)) && b.sameNode(o.elem, n.elem)
}

func byNumber(fields []*Field, number int) *Field {
	for _, f := range fields {
		if f.Number == number {
			return f
		}
	}
	return nil
}
