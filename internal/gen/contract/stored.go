package contract

import (
	"fmt"
	"strings"
)

// storedBy returns the durable kind whose state or events hold the entry at path, or "". Stored
// records may need an entry that no running program knows.
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

func recordedBy(c *Contract, path string) string {
	for _, k := range c.Kinds {
		if !k.Retired && holds(c, k.Events, path) {
			return k.Name
		}
	}
	return ""
}

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

// holds reports whether fields may contain the type, field or constant at path.
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

func errStored(path, kind string) error {
	return fmt.Errorf("reset %s: %s is durable, and records and events in a store may contain the number, even if no program knows it "+
		"(run shardgen contract rm %s, which keeps the number; or, if no store has an entity of %s: shardctl store delete %s -force, then shardgen contract reset -unstored %s)",
		path, kind, path, kind, kind, path)
}

// Kept describes the values of the removed entry at path that stay in a store; "" if there are
// none.
func Kept(c *Contract, path string) string {
	switch kind := storedBy(c, path); kind {
	case "":
		return ""
	case path:
		return fmt.Sprintf("%s is durable: its entities stay in the store, unread (shardctl store export %s saves them, shardctl store delete %s -force deletes them)", path, path, path)
	default:
		return fmt.Sprintf("%s is durable: its records in the store keep %s, and its events keep it until they are deleted", kind, path)
	}
}

// reset returns the remedy that names the reset command, for a number that no program or store
// knows.
func (a *adoption) reset(path string) string {
	if kind := storedBy(a.old, path); kind != "" {
		return "if neither a running program nor a store knows it, run shardgen contract reset -unstored " + path
	}
	return "if no running program knows it, run shardgen contract reset " + path
}

// onDisk describes what a change does to stored records, or "". gone means that the entry was
// removed.
func (b *breaks) onDisk(path string, gone bool) string {
	kind := storedBy(b.old, path)
	switch {
	case kind == "":
		return ""
	case gone:
		return "; records of " + kind + " in the store have it, so its number stays reserved"
	}
	return "; records of " + kind + " in the store have the former one, and cannot be read (give the new one another name, and convert in a migration: version=)"
}
