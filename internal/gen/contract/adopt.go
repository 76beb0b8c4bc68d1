package contract

import (
	"fmt"
	"slices"
)

// Adopt compares now, the contract of the source, with old, the committed contract or nil. It
// returns the contract to write, with retired entries, and sets the numbers in the model that now
// was made from. Each change that would break a running program is a problem; if there is one, the
// returned contract must not be used.
func Adopt(old, now *Contract) (*Contract, []Problem) {
	if old == nil {
		old = &Contract{}
	}
	a := &adoption{renamings: renamings{old: old, now: now}}
	next := &Contract{}
	for _, k := range now.Kinds {
		next.Kinds = append(next.Kinds, a.kind(old, old.kind(k.Name), k))
	}
	for _, k := range old.Kinds {
		if now.kind(k.Name) == nil {
			if !k.Retired {
				a.gone(k.line, "kind "+k.Name, k.Name, "write name="+k.Name+" in the directive of the struct that it became", leftBehind(k))
			}
			next.Kinds = append(next.Kinds, k)
		}
	}
	for _, m := range now.Messages {
		kept := &Message{Name: m.Name, Oneof: m.Oneof, Is: m.Is}
		var before []*Field
		if o := old.message(m.Name); o != nil {
			if o.Oneof == m.Oneof {
				before = o.Fields
			}
			if o.Is != m.Is || o.Oneof != m.Oneof {
				a.add(CodeType, o.line, "give the new type another name; or, "+a.reset(m.Name), "type %s: its form has changed", m.Name)
			}
		}
		kept.Fields = a.fields(m.Name, m.fieldsAre(), before, m.Fields)
		if !m.Oneof && recordedBy(now, m.Name) != "" {
			setRetired(m, kept)
		}
		next.Messages = append(next.Messages, kept)
	}
	for _, m := range old.Messages {
		if now.message(m.Name) == nil {
			next.Messages = append(next.Messages, m) // no longer used; its numbers stay reserved
		}
	}
	a.errors(old, now, next)
	a.enums(old, now, next)
	a.reportRenamed()
	return next, sorted(a.problems)
}

// setRetired copies the retired numbers of kept to m's model.
func setRetired(m, kept *Message) {
	var numbers []int
	for _, f := range kept.Fields {
		if f.Retired {
			numbers = append(numbers, f.Number)
		}
	}
	for _, set := range m.set {
		*set = numbers
	}
}

type adoption struct {
	renamings
	problems []Problem
}

func (a *adoption) add(code string, line int, remedy, format string, args ...any) {
	a.problems = append(a.problems, Problem{code, line, fmt.Sprintf(format, args...), remedy})
}

// gone reports an entry that is missing in the source. renamed and lost, which may be "", are the
// remedy for a renaming and the values lost by a removal.
func (a *adoption) gone(line int, what, path, renamed, lost string) {
	remedy := "run shardgen contract rm " + path + " if it was removed for good"
	if lost != "" {
		remedy += "; " + lost + " then"
	}
	if renamed != "" {
		remedy = renamed + ", or " + remedy
	}
	a.add(CodeGone, line, remedy, "%s: is in the contract, but no longer in the source", what)
}

func (a *adoption) kind(old *Contract, before, k *Kind) *Kind {
	next := &Kind{Name: k.Name, ID: k.ID, Hash: k.Hash, Shards: k.Shards, Singleton: k.Singleton, Pool: k.Pool, Durable: k.Durable, Version: k.Version, TTL: k.TTL}
	if before == nil {
		before = &Kind{Name: k.Name, ID: k.ID, Hash: k.Hash, Shards: k.Shards, Singleton: k.Singleton, Pool: k.Pool, Durable: k.Durable}
	}
	changed := func(what string, was, is any) {
		if was != is {
			why := "nodes of the two versions would not agree where an entity lives"
			if before.Durable {
				why += ", and the store keeps the old value for ever"
			}
			a.add(CodeChanged, before.line, "change it back; "+a.reset(k.Name),
				"kind %s: its %s was %v and is %v: %s", k.Name, what, was, is, why)
		}
	}
	if before.Singleton != k.Singleton || before.Pool != k.Pool {
		changed("form", form(before), form(k))
	} else {
		changed("id", before.ID, k.ID)
		changed("shards", before.Shards, k.Shards)
		changed("hash", before.Hash, k.Hash)
	}
	if before.Durable != k.Durable {
		a.add(CodeChanged, before.line, "change it back; "+a.reset(k.Name),
			"kind %s: it was %s and is %s: one version would not find the state that the other keeps", k.Name, article(form(before)), article(form(k)))
	}
	if max(k.Version, 1) < max(before.Version, 1) {
		a.add(CodeChanged, before.line, fmt.Sprintf("write version=%d, or a later one; ", before.Version)+a.reset(k.Name),
			"kind %s: the version of its state was %d and is %d: the program could not read the states in the store", k.Name, before.Version, max(k.Version, 1))
	}
	next.State = a.fields(k.Name, "state", before.State, k.State)
	next.Events = a.fields(k.Name, "event", before.Events, k.Events)
	for _, m := range k.Methods {
		next.Methods = append(next.Methods, a.method(old, k, before.method(m.Name), m))
	}
	taken := make(map[*Method]bool)
	for _, m := range before.Methods {
		if k.method(m.Name) == nil {
			if !m.Retired {
				a.gone(m.line, k.Name+"."+m.Name, k.Name+"."+m.Name, renamed(k.Name, m, newMethods(before, k), taken, sameMessage), "")
			}
			next.Methods = append(next.Methods, m)
		}
	}
	return next
}

// leftBehind describes the stored data of removed kind k, or "".
func leftBehind(k *Kind) string {
	if !k.Durable {
		return ""
	}
	return "its entities, which shardctl store export and shardctl store delete find, stay in the store"
}

func form(k *Kind) string {
	switch {
	case k.Singleton && k.Durable:
		return "durable singleton"
	case k.Singleton:
		return "singleton"
	case k.Pool:
		return "pool"
	case k.Durable:
		return "durable entity"
	}
	return "entity"
}

func article(form string) string {
	if form == "entity" {
		return "an entity"
	}
	return "a " + form
}

func newMethods(before, k *Kind) (list []*Method) {
	for _, m := range k.Methods {
		if before.method(m.Name) == nil {
			list = append(list, m)
		}
	}
	return list
}

func sameMessage(gone, m *Method) bool {
	return sameTypes(m.Args, gone.Args) && sameTypes(m.Results, gone.Results)
}

func sameTypes(now, before []*Field) bool {
	before = slices.DeleteFunc(slices.Clone(before), func(f *Field) bool { return f.Retired })
	return slices.EqualFunc(now, before, func(a, b *Field) bool { return a.Type == b.Type })
}

func (a *adoption) method(old *Contract, k *Kind, before, m *Method) *Method {
	next := &Method{Name: m.Name, Wire: m.Name, Tell: m.Tell, Read: m.Read}
	if before == nil {
		before = &Method{}
	} else {
		next.Wire = before.Wire
	}
	of := k.Name + "." + m.Name
	next.Args = a.fields(of, "argument", before.Args, m.Args)
	next.Results = a.fields(of, "result", before.Results, m.Results)
	m.Wire = next.Wire
	if m.set != nil {
		*m.set = m.Wire
	}
	for _, other := range k.Methods {
		if before.Name == "" && other != m && old.wire(k.Name, other.Name) == m.Wire {
			a.add(CodeTwice, max(before.line, 1), "give the newer one another name", "%s: callers of %s send that name", of, k.Name+"."+other.Name)
		}
	}
	return next
}

// fields numbers one list of fields. Known fields keep their numbers; new ones get a number that
// was never used.
func (a *adoption) fields(of, what string, before, now []*Field) []*Field {
	next := make([]*Field, 0, len(now))
	taken := make(map[*Field]bool)
	matches := make([]*Field, len(now))
	for i, f := range now {
		if matches[i] = match(before, taken, f); matches[i] != nil {
			taken[matches[i]] = true
		}
	}
	highest := 0
	for _, f := range before {
		highest = max(highest, f.Number)
	}
	for i, f := range now {
		m := matches[i]
		if m != nil {
			a.typeOf(of+"."+m.Name, what, m, f)
		}
		kept := &Field{Name: f.Name, Type: f.Type, Indexed: f.Indexed, set: f.set}
		if m != nil {
			kept.Number = m.Number
		} else {
			highest++
			kept.Number = highest
		}
		for _, number := range f.set {
			*number = kept.Number
		}
		next = append(next, kept)
	}
	var added []*Field
	for i, f := range now {
		if matches[i] == nil {
			added = append(added, f)
		}
	}
	candidates := make(map[*Field]bool)
	for _, f := range before {
		switch {
		case taken[f]:
		case f.Retired:
			next = append(next, f)
		default:
			path := of + "." + f.Name
			if what == "case" && a.caseRenamed(f, added) {
				next = append(next, f)
				continue
			}
			a.gone(f.line, what+" "+path, path, renamed(of, f, added, candidates, sameAs(what)), lostWith[what])
			next = append(next, f)
		}
	}
	return next
}

// lostWith describes, by role, the values lost with a removed entry.
var lostWith = map[string]string{
	"state":    "its stored values are lost",
	"event":    "the events that are kept cannot be read, and states that follow from them are lost",
	"field":    "its values in state and messages are lost",
	"case":     "messages that hold it are refused",
	"argument": "values that callers of the old version pass for it are lost",
	"result":   "callers of the old version get its zero value",
}

func match(before []*Field, taken map[*Field]bool, f *Field) *Field {
	for _, b := range before {
		if !b.Retired && !taken[b] && b.Name == f.Name {
			return b
		}
	}
	for _, b := range before {
		if b.Retired && !taken[b] && b.Name == f.Name && b.Type == f.Type {
			return b // it was retired and is declared again
		}
	}
	return nil
}

func (a *adoption) errors(old, now, next *Contract) {
	for _, e := range now.Errors {
		if o := old.err(e.Name); o != nil && o.Type != e.Type && !o.Retired {
			a.add(CodeType, o.line, "give it another name; or, "+a.reset(e.Name), "error %s: was %s and is %s", e.Name, errorForm(o), errorForm(e))
		}
		if o := old.err(e.Name); o != nil {
			e.Wire = o.Wire
		}
		if e.set != nil {
			*e.set = e.Wire
		}
		next.Errors = append(next.Errors, &Error{Name: e.Name, Wire: e.Wire, Type: e.Type})
	}
	var added []*Error
	for _, e := range now.Errors {
		if old.err(e.Name) == nil {
			added = append(added, e)
		}
	}
	taken := make(map[*Error]bool)
	for _, e := range old.Errors {
		if now.err(e.Name) != nil {
			continue
		}
		if !e.Retired {
			a.gone(e.line, "error "+e.Name, e.Name, renamed("", e, added, taken, sameError), "")
		}
		next.Errors = append(next.Errors, e)
	}
}

func errorForm(e *Error) string {
	if e.Type == "" {
		return "a variable"
	}
	return "of type " + e.Type
}

func (a *adoption) typeOf(path, what string, was, is *Field) {
	switch {
	case narrower(is.Type, was.Type):
		a.add(CodeType, was.line, "change it back; or, if all numbers in kept state and running programs fit, run "+retypeCommand(path, is.Type),
			"%s %s: number %d was %s and is %s: the new type cannot hold all values of the old one", what, path, was.Number, was.Type, is.Type)
	case compatible(was.Type, is.Type) && a.old.optionChanged(was.Type, is.Type):
		a.add(CodeType, was.line, "give the new one another name; or, if nil and zero mean the same, run "+retypeCommand(path, is.Type),
			"%s %s: number %d was %s and is %s: %s", what, path, was.Number, was.Type, is.Type, optionEffect(is.Type))
	case compatible(was.Type, is.Type), a.onlyRenamed(was.Type, is.Type):
	case formsDiffer(loose(was.Type), loose(is.Type)):
		a.add(CodeType, was.line, "give the new one another name; or, if each of the two types can read the other's form, run "+retypeCommand(path, is.Type),
			"%s %s: number %d was %s and is %s", what, path, was.Number, was.Type, is.Type)
	case formTag(what, was.Type, is.Type) != "":
		a.add(CodeType, was.line, "tag the field "+formTag(what, was.Type, is.Type)+" to keep its form; or, "+a.reset(path),
			"%s %s: number %d was %s and is %s", what, path, was.Number, was.Type, is.Type)
	default:
		a.add(CodeType, was.line, "give the new one another name; or, "+a.reset(path),
			"%s %s: number %d was %s and is %s", what, path, was.Number, was.Type, is.Type)
	}
}

// enums reports changes that would give another meaning to constants in messages and kept state.
func (a *adoption) enums(old, now, next *Contract) {
	for _, e := range now.Enums {
		before := old.enum(e.Name)
		if was := formerEnum(old, now, e); was != nil {
			a.add(CodeGone, was.Values[0].line, moveCommand(was.Name, e.Name)+"; or, if "+e.Name+" is another type, run shardgen contract reset "+was.Name,
				"type %s: is in the contract, but no longer in the source, which has %s with the same constants", was.Name, e.Name)
		}
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

// formerEnum returns the enum of old that was probably renamed to e: it is missing in now and
// shares at least half of e's constants.
func formerEnum(old, now *Contract, e *Enum) *Enum {
	if old.enum(e.Name) != nil {
		return nil
	}
	for _, was := range old.Enums {
		same := 0
		for _, v := range was.Values {
			if e.value(v.Name) != nil {
				same++
			}
		}
		if now.enum(was.Name) == nil && 2*same >= len(was.Values) {
			return was
		}
	}
	return nil
}

func (a *adoption) enum(before, e *Enum) *Enum {
	next := &Enum{Name: e.Name}
	for _, v := range e.Values {
		path := e.Name + "." + v.Name
		was := before.value(v.Name)
		switch {
		case was != nil && was.Number != v.Number:
			a.add(CodeChanged, was.line, "give it its old value, and add new constants after the old ones; or, if no message or state ever contained it (a constant that only counts the others), run "+retypeCommand(path, v.Number),
				"constant %s: was %s and is %s: a value of the other version, or of kept state, would be read as another constant", path, was.Number, v.Number)
		case was == nil && before.retired(v.Number) != nil:
			gone := before.retired(v.Number)
			a.add(CodeTwice, gone.line, "give it a value that no constant has had", "constant %s: its value %s was that of %s, which is gone for good", path, v.Number, gone.Name)
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

// renamedValue returns the remedy if a new constant has the removed constant's number, or "".
func renamedValue(before, e *Enum, gone *Value) string {
	for _, v := range e.Values {
		if v.Number == gone.Number && before.value(v.Name) == nil {
			return moveCommand(e.Name+"."+gone.Name, v.Name)
		}
	}
	return ""
}

func (a *adoption) reportRenamed() {
	for _, r := range a.renamed {
		a.add(CodeGone, a.old.message(r.from).line,
			moveCommand(r.from, r.to)+"; if "+r.to+" is another type, rename the fields and arguments of that type",
			"type %s: is in the contract, but no longer in the source, which has %s in its place", r.from, r.to)
	}
}
