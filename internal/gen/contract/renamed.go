package contract

import "slices"

func moveCommand(path, name string) string {
	return "run shardgen contract mv " + path + " " + name + " if it is called " + name + " now"
}

type named interface{ *Field | *Method | *Error }

// renamed returns the remedy for an entry that was probably renamed to an added entry, or "". It
// takes the first added entry that fits: entries renamed together mostly keep their order.
func renamed[T named](of string, gone T, added []T, taken map[T]bool, same func(gone, now T) bool) string {
	i := slices.IndexFunc(added, func(now T) bool { return !taken[now] && same(gone, now) })
	if i < 0 {
		return ""
	}
	taken[added[i]] = true
	path := nameOf(gone)
	if of != "" {
		path = of + "." + path
	}
	return moveCommand(path, nameOf(added[i]))
}

func nameOf[T named](x T) string {
	switch x := any(x).(type) {
	case *Field:
		return x.Name
	case *Method:
		return x.Name
	case *Error:
		return x.Name
	}
	return ""
}

func sameField(gone, now *Field) bool { return compatible(gone.Type, now.Type) }

// sameAs returns the function that decides whether the field now may be the renamed field gone.
// what is the role of both fields. A case has the name of its type, so the function for cases
// ignores that the two names differ in the types.
func sameAs(what string) func(gone, now *Field) bool {
	if what != "case" {
		return sameField
	}
	return func(gone, now *Field) bool {
		return compatible(replaceName(gone.Type, gone.Name, now.Name), now.Type)
	}
}

func sameError(gone, now *Error) bool { return gone.Type == now.Type }

type renaming struct{ from, to string }

type renamings struct {
	old, now *Contract
	renamed  []renaming
}

// caseRenamed reports, and records, that a case's type was renamed. It prefers the renaming already
// recorded, then the type with the most fields in common.
func (a *renamings) caseRenamed(gone *Field, added []*Field) bool {
	was := a.old.message(gone.Type)
	if was == nil || a.now.message(gone.Type) != nil {
		return false
	}
	best, most := "", -1
	for _, f := range added {
		is := a.now.message(f.Type)
		known := slices.ContainsFunc(a.renamed, func(r renaming) bool { return r.from == gone.Type && r.to == f.Type })
		taken := slices.ContainsFunc(a.renamed, func(r renaming) bool { return r.from != gone.Type && r.to == f.Type })
		if is == nil || a.old.message(f.Type) != nil || is.Oneof != was.Oneof || taken {
			continue
		}
		if n := alike(was, is); known || n > most {
			best, most = f.Type, n
		}
		if known {
			break
		}
	}
	if best == "" {
		return false
	}
	if r := (renaming{gone.Type, best}); !slices.Contains(a.renamed, r) {
		a.renamed = append(a.renamed, r)
	}
	return true
}

func alike(a, b *Message) (n int) {
	for _, f := range a.Fields {
		if slices.ContainsFunc(b.Fields, func(o *Field) bool { return o.Name == f.Name && o.Type == f.Type }) {
			n++
		}
	}
	return n
}

// onlyRenamed reports whether two types differ only by a renamed struct. It records the renaming,
// which is reported once.
func (a *renamings) onlyRenamed(was, is string) bool {
	for _, from := range typeNames(was) {
		if a.old.message(from) == nil || a.now.message(from) != nil {
			continue
		}
		for _, to := range typeNames(is) {
			r := renaming{from, to}
			if a.now.message(to) == nil || a.old.message(to) != nil || !compatible(replaceName(was, from, to), is) {
				continue
			}
			if !slices.Contains(a.renamed, r) {
				a.renamed = append(a.renamed, r)
			}
			return true
		}
	}
	return false
}
