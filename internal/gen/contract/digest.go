package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// digestLen is the length of a digest in bytes. A digest need not resist an attacker who seeks
// collisions.
const digestLen = 8

// Digest returns a hash, in hexadecimal, of what callers and hosts of an entity type must agree on:
// the type's lines in [Format] except retired ones, those of the structs it may hold, and the
// errors and enums of its package. It returns "" if the contract does not have the type.
func Digest(c *Contract, kind string) string {
	k := c.kind(kind)
	if k == nil {
		return ""
	}
	part := &Contract{Kinds: []*Kind{k}, Errors: c.Errors, Enums: c.Enums, Messages: reached(c, k)}
	h := sha256.New()
	for line := range strings.Lines(string(Format(part))) {
		if !strings.HasSuffix(line, " "+retiredWord+"\n") && !strings.HasPrefix(line, "#") {
			fmt.Fprint(h, line)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:digestLen])
}

// reached returns the messages that k's methods, state, events and errors may hold.
func reached(c *Contract, k *Kind) (found []*Message) {
	fields := slices.Concat(k.State, k.Events)
	for _, m := range k.Methods {
		if !m.Retired {
			fields = slices.Concat(fields, m.Args, m.Results)
		}
	}
	for _, e := range c.Errors {
		if !e.Retired {
			fields = append(fields, &Field{Type: e.Type})
		}
	}
	for len(fields) > 0 {
		f := fields[0]
		fields = fields[1:]
		for _, m := range c.Messages {
			if !f.Retired && mentions(f.Type, m.Name) && !slices.Contains(found, m) {
				found = append(found, m)
				fields = append(fields, m.Fields...)
				fields = append(fields, &Field{Type: m.Is})
			}
		}
	}
	return found
}

func mentions(typ, name string) bool {
	for from := 0; ; {
		i := strings.Index(typ[from:], name)
		if i < 0 {
			return false
		}
		begin := from + i
		end := begin + len(name)
		if (begin == 0 || !partOfName(typ[begin-1])) && (end == len(typ) || !partOfName(typ[end])) {
			return true
		}
		from = begin + 1
	}
}

func partOfName(c byte) bool {
	return c == '_' || c == '.' || c == '/' || c == '-' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
