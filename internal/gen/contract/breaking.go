package contract

import (
	"fmt"
	"slices"
)

// A Break is an incompatibility between programs of two versions.
type Break struct {
	Subject string // "Stock.Reserve"
	What    string // the change
	Who     string // the running programs that notice, and the effect on them
	// Compatible reports that nothing stops working: the Break only says when something new can be
	// used.
	Compatible bool
}

// String returns the change in the form "subject: change: affected programs".
func (b Break) String() string { return b.Subject + ": " + b.What + ": " + b.Who }

// Breaking returns the incompatibilities between programs with contract now and running ones with
// contract old, both read from files. Messages do not carry the names of structs, so structs are
// compared if they are used in the same place.
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
			b.add("error "+e.Name, "gone", "callers of the old version get only its text")
		case (e.Type == "") != (n.Type == "") || !b.sameType(e.Type, n.Type):
			b.add("error "+e.Name, "was "+errorForm(e)+", is "+errorForm(n), "callers of either version get only the text of the other's")
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

type breaks struct {
	old, now *Contract
	list     []Break
	waiting  []renaming // pairs of structs that are used in the same place and are still to be compared
	compared map[renaming]bool
}

func (b *breaks) add(subject, what, who string) {
	b.list = append(b.list, Break{Subject: subject, What: what, Who: who})
}

func (b *breaks) kind(old, now *Kind) {
	changed := func(what string, was, is any) {
		if was != is {
			who := "nodes of the new version cannot join; stop all nodes of the old version first"
			if old.Durable {
				who = "nodes of the new version do not start, because the store keeps the old value for ever: change it back"
			}
			b.add("kind "+old.Name, fmt.Sprintf("%s was %v, is %v", what, was, is), who)
		}
	}
	if changed("form", form(old), form(now)); old.Singleton != now.Singleton || old.Pool != now.Pool {
		return // another generated client calls it
	}
	changed("id", old.ID, now.ID)
	changed("shards", old.Shards, now.Shards)
	changed("hash", old.Hash, now.Hash)
	if was, is := max(old.Version, 1), max(now.Version, 1); was != is {
		who := "programs of the old version refuse calls to entities that the new version has changed: do not roll back"
		if is < was {
			who = "programs of the new version refuse calls to entities that the old version has changed"
		}
		b.add("kind "+old.Name, fmt.Sprintf("the version of its state was %d, is %d", was, is), who)
	}
	if now.TTL > 0 && (old.TTL == 0 || now.TTL < old.TTL) {
		before := "never"
		if old.TTL > 0 {
			before = "after " + minutes(old.TTL)
		}
		b.add("kind "+old.Name, fmt.Sprintf("entities expire after %s, formerly %s", minutes(now.TTL), before),
			"callers of the old version may find that an entity has expired, once it has committed at a node of the new version")
	}
	b.fields(old.Name, "state", old.State, now.State)
	b.fields(old.Name, "event", old.Events, now.Events)
	for _, m := range old.Methods {
		if m.Retired {
			continue
		}
		n := methodByWire(now, m.Wire)
		if n == nil || n.Retired {
			b.add(old.Name+"."+m.Name, "gone", "callers of the old version get ErrNoMethod, and reminders that call it wait until a program has it")
			continue
		}
		if m.Tell && !n.Tell || !m.Tell && n.Tell {
			b.add(old.Name+"."+m.Name, "its //shard:tell was added or removed", "callers of one version wait for it and those of the other do not")
		}
		b.fields(old.Name+"."+m.Name, "argument", m.Args, n.Args)
		b.fields(old.Name+"."+m.Name, "result", m.Results, n.Results)
	}
}

func minutes(n int) string {
	switch {
	case n%(24*60) == 0:
		return fmt.Sprintf("%dd", n/(24*60))
	case n%60 == 0:
		return fmt.Sprintf("%dh", n/60)
	}
	return fmt.Sprintf("%dm", n)
}

func methodByWire(k *Kind, wire string) *Method {
	for _, m := range k.Methods {
		if m.Wire == wire {
			return m
		}
	}
	return nil
}

func (b *breaks) structs(was, is string) {
	old, now := b.old.message(was), b.now.message(is)
	switch {
	case old.Oneof != now.Oneof:
		b.add("type "+was, "its form has changed", "neither version can read the other's data"+b.onDisk(was, false))
	case old.Is == "" && now.Is == "":
		b.fields(was, old.fieldsAre(), old.Fields, now.Fields)
		if kind := recordedBy(b.old, was); kind != "" && !old.Oneof {
			b.newInEvents(kind, is, old.Fields, now.Fields)
		}
	case (old.Is == "") != (now.Is == "") || !b.sameType(old.Is, now.Is):
		b.add("type "+was, "its form has changed", "neither version can read the other's data"+b.onDisk(was, false))
	}
}

// fields compares fields by number, because messages carry numbers. Names matter only to JSON.
func (b *breaks) fields(of, what string, old, now []*Field) {
	for _, f := range old {
		if f.Retired {
			continue
		}
		path := of + "." + f.Name
		subject := what + " " + path
		n := byNumber(now, f.Number)
		switch {
		case n == nil || n.Retired:
			b.add(subject, "gone", goneFor(what)+b.onDisk(path, true))
			continue
		case formsDiffer(loose(f.Type), loose(n.Type)):
			b.add(subject, "was "+f.Type+", is "+n.Type, "the versions read each other's data only if each of the two types can read the other's form"+b.onDisk(path, false))
		case !b.sameType(f.Type, n.Type):
			b.add(subject, "was "+f.Type+", is "+n.Type, "neither version can read the other's data"+b.onDisk(path, false))
		case b.old.optionChanged(f.Type, n.Type):
			b.add(subject, "was "+f.Type+", is "+n.Type, optionEffect(n.Type)+", and the old version would do the reverse")
		case narrower(f.Type, n.Type) || narrower(n.Type, f.Type):
			b.add(subject, "was "+f.Type+", is "+n.Type, "numbers that do not fit the narrower type are refused by its readers")
		}
		if f.Indexed && !n.Indexed {
			b.add(subject, "has no index any more", "callers of the old version that find entities by it get an error")
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

func (b *breaks) newInEvents(kind, of string, old, now []*Field) {
	for _, f := range now {
		if !f.Retired && byNumber(old, f.Number) == nil {
			b.add("field "+of+"."+f.Name, "new in events of "+kind,
				"programs of the old version refuse calls to an entity with an event that has it, until a newer program has written the entity's state: "+
					"set it once no old program runs, or do not roll back")
		}
	}
}

func (b *breaks) newCases(of string, old, now []*Field) {
	for _, f := range now {
		if !f.Retired && byNumber(old, f.Number) == nil {
			who := "programs of the old version refuse messages that hold it, and keep it unread in state: pass it once no old program runs"
			if kind := recordedBy(b.now, of); kind != "" {
				who = "programs of the old version refuse messages that hold it, and calls to entities of " + kind + " with an event that holds it: record it once no old program runs"
			}
			b.list = append(b.list, Break{Subject: "case " + of + "." + f.Name, What: "new", Compatible: true, Who: who})
		}
	}
}

func goneFor(what string) string {
	if what == "event" {
		return "the events that are kept cannot be read, and states that follow from them are lost"
	}
	if what == "case" {
		return "programs of the new version refuse messages of the old that hold it"
	}
	return "programs of the old version find its zero value"
}

// sameType reports whether two types are compatible apart from the names of structs. It schedules
// the comparison of these structs.
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

func (b *breaks) enums(old, now *Contract) {
	for _, e := range old.Enums {
		n := now.enum(e.Name)
		for _, renamed := range now.Enums {
			if formerEnum(old, now, renamed) == e {
				n = renamed
			}
		}
		if n == nil {
			continue
		}
		if kind := recordedBy(b.old, e.Name); kind != "" {
			for _, v := range n.Values {
				if !v.Retired && !slices.ContainsFunc(e.Values, func(o *Value) bool { return o.Name == v.Name || o.Number == v.Number }) {
					b.add("constant "+e.Name+"."+v.Name, "new in events of "+kind,
						"Apply of the old version gets a number without a name: record it once no old program runs, or raise version= of "+kind)
				}
			}
		}
		for _, v := range e.Values {
			if is := n.value(v.Name); is != nil && !v.Retired && is.Number != v.Number {
				b.add("constant "+e.Name+"."+v.Name, "was "+v.Number+", is "+is.Number, "each version takes the other's value for another constant"+b.onDisk(e.Name+"."+v.Name, false))
			}
		}
	}
}
