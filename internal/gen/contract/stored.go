package contract

import (
	"fmt"
	"strings"
)

// storedBy returns the name of a durable type whose state or events hold the entry at path, and
// therefore its records in a store; "" if there is none. Records outlive programs, so nobody can
// tell from running programs whether such an entry is still known.
func storedBy(c *Contract, path string) string {
	method, m := c.method(path)
	for _, k := range c.Kinds {
		switch {
		case !k.Durable || m != nil && method == k:
		case path == k.Name || strings.HasPrefix(path, k.Name+".") && isStored(k, path):
			return k.Name
		case holds(c, k.State, path), holds(c, k.Events, path):
			return k.Name
		}
	}
	return ""
}

// recordedBy returns the name of a type whose events hold the type or constant at path; "" if there is none.
func recordedBy(c *Contract, path string) string {
	for _, k := range c.Kinds {
		if !k.Retired && holds(c, k.Events, path) {
			return k.Name
		}
	}
	return ""
}

// isStored reports whether the path of a field is that of a kind's state or event.
func isStored(k *Kind, path string) bool {
	for _, list := range [][]*Field{k.State, k.Events} {
		for _, f := range list {
			if path == k.Name+"."+f.Name {
				return true
			}
		}
	}
	return false
}

// holds reports whether the types of fields include the one at path, or the owner of the field or
// constant at path.
func holds(c *Contract, fields []*Field, path string) bool {
	seen := make(map[string]bool)
	var visit func(fields []*Field) bool
	visit = func(fields []*Field) bool {
		for _, f := range fields {
			for _, name := range typeNames(f.Type) {
				if path == name || strings.HasPrefix(path, name+".") {
					return true
				}
				m := c.message(name)
				if m == nil || seen[name] {
					continue
				}
				seen[name] = true
				if visit(m.Fields) || m.Is != "" && visit([]*Field{{Type: m.Is}}) {
					return true
				}
			}
		}
		return false
	}
	return visit(fields)
}

// errStored is the error of a reset of an entry that records in a store may have.
func errStored(path, kind string) error {
	return fmt.Errorf("reset %s: entities of %s are durable, and records and events in a store have its number whatever programs run "+
		"(run shardgen contract rm %s, which keeps the number; or, if no store has an entity of %s: shardctl store delete %s -force, then shardgen contract reset -unstored %s)",
		path, kind, path, kind, kind, path)
}

// Kept returns a line about what a store keeps of the entry at path, which was removed; "" if it
// keeps nothing.
func Kept(c *Contract, path string) string {
	switch kind := storedBy(c, path); kind {
	case "":
		return ""
	case path:
		return fmt.Sprintf("%s is durable: its entities stay in the store, unread (shardctl store export %s saves them, shardctl store delete %s -force deletes them)", path, path, path)
	default:
		return fmt.Sprintf("%s is durable: its records in the store keep %s, and its events as long as they are kept", kind, path)
	}
}

// reset returns the remedy for an entry that should get a new number.
func (a *adoption) reset(path string) string {
	if kind := storedBy(a.old, path); kind != "" {
		return "if neither a running program nor a store knows it, run shardgen contract reset -unstored " + path
	}
	return "if no running program knows it, run shardgen contract reset " + path
}

// onDisk returns what a change of the entry at path means to records in the store; "" if they do not
// have it. gone says that it was removed.
func (b *breaks) onDisk(path string, gone bool) string {
	kind := storedBy(b.old, path)
	switch {
	case kind == "":
		return ""
	case gone:
		return "; records of " + kind + " in the store have it, so its number is never free"
	}
	return "; records of " + kind + " in the store have the former one whatever programs run, and fail to be read (give the new one another name, and convert in a migration: version=)"
}
