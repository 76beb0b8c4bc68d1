package load

import "github.com/shardgen/shardgen/internal/gen/model"

// setTraits sets Recursive, Plain, Fallible, CloneFallible and NeedsInit. Call it when all types
// have been read, because these depend on the types that a type contains.
func setTraits(types []*model.Type) {
	for _, t := range types {
		t.Recursive = holds(t, t, make(map[*model.Type]bool))
	}
	for _, t := range types {
		t.Plain = plain(t)
	}
	for changed := true; changed; {
		changed = false
		for _, t := range types {
			if f := fallible(t); f != t.Fallible {
				t.Fallible, changed = f, true
			}
			if f := cloneFallible(t); f != t.CloneFallible {
				t.CloneFallible, changed = f, true
			}
		}
	}
	for _, t := range types {
		t.NeedsInit = needsInit(t)
	}
}

func parts(t *model.Type) []*model.Type {
	var list []*model.Type
	if t.Key != nil {
		list = append(list, t.Key)
	}
	if t.Elem != nil {
		list = append(list, t.Elem)
	}
	for _, f := range t.Fields {
		list = append(list, f.Type)
	}
	for _, c := range t.Cases {
		list = append(list, c.Type)
	}
	return list
}

func holds(t, target *model.Type, seen map[*model.Type]bool) bool {
	for _, p := range parts(t) {
		if p == target {
			return true
		}
		if !seen[p] {
			seen[p] = true
			if holds(p, target, seen) {
				return true
			}
		}
	}
	return false
}

// plain computes [model.Type].Plain. It terminates: every cycle leads through a pointer, slice, map
// or interface.
func plain(t *model.Type) bool {
	switch t.Shape {
	case model.Bytes, model.Time, model.Proto, model.Slice, model.Map, model.Pointer, model.Oneof:
		return false
	case model.Text, model.Binary, model.Gob:
		return t.Plain // the loader has set it
	case model.Array:
		return plain(t.Elem)
	case model.Struct:
		for _, f := range t.Fields {
			if !plain(f.Type) {
				return false
			}
		}
		return len(t.Skipped) == 0
	default:
		return true
	}
}

func fallible(t *model.Type) bool {
	switch t.Shape {
	case model.Text, model.Binary, model.Gob, model.Proto, model.Oneof:
		return true
	}
	if t.Recursive || t.ChecksKeys() {
		return true
	}
	for _, p := range parts(t) {
		if p.Fallible {
			return true
		}
	}
	return false
}

func cloneFallible(t *model.Type) bool {
	switch t.Shape {
	case model.Text, model.Binary, model.Gob:
		return !t.Plain
	case model.Oneof:
		return true
	}
	if t.Recursive || t.ChecksKeys() {
		return true
	}
	for _, p := range parts(t) {
		if p.CloneFallible {
			return true
		}
	}
	return false
}

func needsInit(t *model.Type) bool {
	switch t.Shape {
	case model.Map:
		return true
	case model.Array:
		return needsInit(t.Elem)
	case model.Struct:
		for _, f := range t.Fields {
			if needsInit(f.Type) {
				return true
			}
		}
	}
	return false
}
