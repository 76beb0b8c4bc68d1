package hostmeta

import (
	"fmt"
	"strings"

	"github.com/shardgen/shardgen/runtime/membership"
)

// Names of a type's settings that both clients and members compare.
const (
	Shards  = "shards"  // number of shards
	Hash    = "hash"    // the name of the shard function
	Package = "package" // the import path of the struct
)

// PoolHash is the name of a pool's shard function.
const PoolHash = "pool"

// Value returns the value of the named setting. announcement is a list of "name=value" settings
// separated by spaces. ok is false if the announcement lacks the setting: then the member is of
// another release, or does not host the type.
func Value(announcement, name string) (value string, ok bool) {
	for word := range strings.FieldsSeq(announcement) {
		if n, v, _ := strings.Cut(word, "="); n == name {
			return v, true
		}
	}
	return "", false
}

// Differ returns the first difference between members a and b in a setting of a type that both
// announce, or "" if there is none. The text has both names, both values and the remedy. Differ(b,
// a) then finds a difference too, but names b first. Settings that only one member announces are
// not compared.
func Differ(a, b membership.Member) string {
	for _, kv := range a.Meta {
		kind, ok := name(kv.Key)
		if !ok {
			continue
		}
		for _, key := range []string{EntityKey(kind), SingletonKey(kind), ProxyKey(kind)} {
			if diff := differ(kv.Value, b.MetaValue(key)); diff != nil {
				return Mismatch("type "+kind+": "+diff[0], diff[1], a.Name, diff[2], b.Name)
			}
		}
	}
	return ""
}

func differ(a, b string) []string {
	for word := range strings.FieldsSeq(a) {
		setting, have, _ := strings.Cut(word, "=")
		if want, ok := Value(b, setting); ok && have != want {
			return []string{setting, have, want}
		}
	}
	return nil
}

// Mismatch describes a setting that has different values at two members, with the remedy.
func Mismatch(setting, value, at, other, there string) string {
	return fmt.Sprintf("%s is %q at %s and %q at %s (make them equal, or stop all members first)", setting, value, at, other, there)
}

// name returns the type that a metadata key names; ok is false for other keys.
func name(key string) (kind string, ok bool) {
	if kind, ok = Split(key); !ok {
		kind, ok = strings.CutPrefix(key, proxyPrefix)
	}
	return kind, ok
}
