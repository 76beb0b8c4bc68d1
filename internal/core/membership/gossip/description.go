package gossip

import (
	"cmp"
	"fmt"
	"slices"
)

// A KeyValue is one entry of a member's Meta or Compat list. The lists are sorted by
// key and hold each key once.
type KeyValue struct {
	Key, Value string // any UTF-8 text; see MaxDescription for the total size
}

// Bounds on a member's description of itself, which is gossiped to all.
const (
	MaxRoles     = 64   // entries of Roles
	MaxKeyValues = 4096 // entries of Meta, and of Compat
	// MaxDescription bounds the bytes of Roles, Meta and Compat together: a state is
	// one message, and holds the descriptions of all members.
	MaxDescription = 64 << 10
)

// DescriptionSize returns the number of bytes in a member's roles and key-value lists.
func DescriptionSize(roles []string, lists ...[]KeyValue) int {
	n := 0
	for _, role := range roles {
		n += len(role)
	}
	for _, kv := range slices.Concat(lists...) {
		n += len(kv.Key) + len(kv.Value)
	}
	return n
}

// SortKeyValues returns a copy that is sorted by key.
func SortKeyValues(list []KeyValue) []KeyValue {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b KeyValue) int { return cmp.Compare(a.Key, b.Key) })
	return list
}

// KeysAscend reports whether the list is sorted by key and holds each key once.
func KeysAscend(list []KeyValue) bool {
	for i := 1; i < len(list); i++ {
		if list[i].Key <= list[i-1].Key {
			return false
		}
	}
	return true
}

// LookupKey returns the value of a key in a sorted list.
func LookupKey(list []KeyValue, key string) (value string, ok bool) {
	i, ok := slices.BinarySearchFunc(list, key, func(kv KeyValue, key string) int { return cmp.Compare(kv.Key, key) })
	if !ok {
		return "", false
	}
	return list[i].Value, true
}

// Incompatible compares the Compat lists of a joiner and a member. It returns a text with both
// values of the first key that has different values, or "".
func Incompatible(joiner string, theirs []KeyValue, member string, mine []KeyValue) string {
	for _, kv := range theirs {
		if value, ok := LookupKey(mine, kv.Key); ok && value != kv.Value {
			return fmt.Sprintf("%s is %q at %s and %q at %s (make them equal, or stop all members first)", kv.Key, kv.Value, joiner, value, member)
		}
	}
	return ""
}
