package contract

import "slices"

// moveCommand returns the remedy for an entry at path that was probably renamed to name.
func moveCommand(path, name string) string {
	return "run shardgen contract mv " + path + " " + name + " if it is called " + name + " now"
}

// named is the set of contract entries that the source may rename.
type named interface{ *Field | *Method | *Error }

// renamed returns the remedy for a removed entry that was probably renamed to one of the added
// entries; "" if there is none. It takes the first added entry of the same form that is not in
// taken: entries renamed at once most likely kept their order.
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

// sameAs returns the comparison of fields of one role, such as "case". A case is named after its
// type, so for cases the comparison ignores the type's name.
func sameAs(what string) func(gone, now *Field) bool {
	if what != "case" {
		return sameField
	}
	return func(gone, now *Field) bool {
		return compatible(replaceName(gone.Type, gone.Name, now.Name), now.Type)
	}
}

func sameError(gone, now *Error) bool { return gone.Type == now.Type }

// A renaming is a struct that seems to have been renamed.
type renaming struct{ from, to string }

// renamings are the structs that seem to have been renamed between two contracts.
type renamings struct {
	old, now *Contract
	renamed  []renaming
}

// caseRenamed reports whether a case is gone because its type was renamed, and records the
// renaming. Of several new types it takes the one already recorded, otherwise the one with the most
// fields in common.
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

// alike returns the number of fields that two structs have in common.
func alike(a, b *Message) (n int) {
	for _, f := range a.Fields {
		if slices.ContainsFunc(b.Fields, func(o *Field) bool { return o.Name == f.Name && o.Type == f.Type }) {
			n++
		}
	}
	return n
}

// onlyRenamed reports whether two types differ only by the name of a struct that was renamed in the
// source. It records the renaming, so that the renaming is reported once, however many fields have
// the type.
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
