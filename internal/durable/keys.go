package durable

import (
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// Bounds of the keys that an entity keeps. The oldest go first.
const (
	// KeysKept is the most keys that an entity keeps.
	KeysKept = 128
	// KeyAge is how long it keeps one.
	KeyAge = 24 * time.Hour
	// keyBytes bounds the keys with their answers; the newest is kept at any size.
	keyBytes = 64 << 10
	// keyRoom bounds the bytes of a key in a record, beside its answer.
	keyRoom = 64
)

// A key is a command that the user named and the entity has applied.
type key struct {
	name   string
	hash   uint64
	answer []byte
	at     int64 // Unix time of its commit, in milliseconds
}

func (k key) size() int { return keyRoom + len(k.answer) }

// keysAfter returns the keys that an entity keeps after a commit. They are a function of the
// commits alone, so that every home keeps the same.
func keysAfter(keys []key, c *wire.DurableCommit) []key {
	keys = freshKeys(keys, c.GetAt())
	w := c.GetCommand()
	if len(w.GetKey()) == 0 {
		return keys
	}
	name := string(w.GetKey())
	all := make([]key, 0, len(keys)+1)
	for _, k := range keys {
		if k.name != name {
			all = append(all, k)
		}
	}
	all = append(all, key{name, w.GetHash(), w.GetAnswer(), c.GetAt()})
	return lastKeys(all, keyBytes)
}

// freshKeys returns the keys that are not too old at a time.
func freshKeys(keys []key, at int64) []key {
	for len(keys) > 0 && at-keys[0].at > KeyAge.Milliseconds() {
		keys = keys[1:]
	}
	return keys
}

// lastKeys returns the last of the keys, as many as are kept and fit in bytes, and one at
// least.
func lastKeys(keys []key, bytes int) []key {
	for i := len(keys) - 1; i >= 0; i-- {
		bytes -= keys[i].size()
		if i < len(keys)-1 && bytes < 0 || len(keys)-i > KeysKept {
			return keys[i+1:]
		}
	}
	return keys
}

func wireKeys(keys []key) (all []*wire.DurableKey) {
	for _, k := range keys {
		all = append(all, &wire.DurableKey{Key: []byte(k.name), Hash: k.hash, Answer: k.answer, At: k.at})
	}
	return all
}

func keysOf(all []*wire.DurableKey) (keys []key) {
	for _, w := range all {
		keys = append(keys, key{string(w.GetKey()), w.GetHash(), w.GetAnswer(), w.GetAt()})
	}
	return keys
}

// findKey returns the key of a name, if there is one that is not too old at a time.
func findKey(keys []key, name string, at int64) (key, bool) {
	for _, k := range freshKeys(keys, at) {
		if k.name == name && name != "" {
			return k, true
		}
	}
	return key{}, false
}
