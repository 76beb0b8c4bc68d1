package durable

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// Bounds of the idempotency keys that an entity keeps. The oldest keys are dropped first.
const (
	// KeysKept is the most keys that an entity keeps.
	KeysKept = 128
	// KeyAge is how long an entity keeps a key.
	KeyAge = 24 * time.Hour
	// keyBytes bounds the keys with their answers; the newest key is kept at any size.
	keyBytes = 64 << 10
	keyRoom  = 64
)

type key struct {
	name   string
	hash   uint64
	answer []byte
	at     int64 // Unix time of its commit, in milliseconds
}

func (k key) size() int { return keyRoom + len(k.answer) }

// keysAfter returns an entity's keys after commit c. They depend only on the commits, so every home
// keeps the same keys.
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

// freshKeys drops keys more than KeyAge older than the given Unix time in milliseconds.
func freshKeys(keys []key, at int64) []key {
	for len(keys) > 0 && at-keys[0].at > KeyAge.Milliseconds() {
		keys = keys[1:]
	}
	return keys
}

// lastKeys returns the newest keys: at most KeysKept that fit in bytes, and at least one.
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

// findKey finds a key by name, at most KeyAge older than the given Unix time in milliseconds.
func findKey(keys []key, name string, at int64) (key, bool) {
	for _, k := range freshKeys(keys, at) {
		if k.name == name && name != "" {
			return k, true
		}
	}
	return key{}, false
}

type oldKey struct {
	name  string // "": the key was removed
	hash  uint64
	heard time.Time
}

// oldKeys has idempotency keys without their answers, in order of arrival. A key is removed if it
// was not sent for [Limits.Silent] and no earlier key remains.
type oldKeys struct {
	all []oldKey
	at  map[string]int // the index in all, plus gone
	// gone counts the keys that were taken from the beginning of all.
	gone int
}

func (o *oldKeys) len() int { return len(o.at) }

// find returns the key with a name, or nil. The pointer is valid until the next put.
func (o *oldKeys) find(name string) *oldKey {
	if i, there := o.at[name]; there {
		return &o.all[i-o.gone]
	}
	return nil
}

func (o *oldKeys) put(k oldKey) {
	if old := o.find(k.name); old != nil {
		if old.heard.After(k.heard) {
			k.heard = old.heard
		}
		*old = oldKey{}
	}
	if o.at == nil {
		o.at = map[string]int{}
	}
	o.at[k.name] = o.gone + len(o.all)
	o.all = append(o.all, k)
}

// forget removes the oldest keys, up to the first one that was last sent at the given time or
// later.
func (o *oldKeys) forget(before time.Time) {
	n := 0
	for n < len(o.all) && (o.all[n].name == "" || o.all[n].heard.Before(before)) {
		delete(o.at, o.all[n].name)
		n++
	}
	if n == 0 {
		return
	}
	o.gone += n
	if o.all = o.all[n:]; len(o.all) == 0 {
		*o = oldKeys{}
	} else if cap(o.all) > 2*len(o.all) {
		o.all = append([]oldKey(nil), o.all...)
	}
}

const oldKeysAtOnce = 1024

func (o *oldKeys) parts(now time.Time) (all []*wire.DurableOldKeys) {
	for i := range o.all {
		k := &o.all[i]
		if k.name == "" {
			continue
		}
		if n := len(all); n == 0 || len(all[n-1].Keys) == oldKeysAtOnce {
			all = append(all, &wire.DurableOldKeys{})
		}
		w := all[len(all)-1]
		w.Keys, w.Hashes = append(w.Keys, []byte(k.name)), append(w.Hashes, k.hash)
		w.Ages = append(w.Ages, uint64(max(now.Sub(k.heard), 0).Milliseconds()))
	}
	return all
}

// recover adds the old keys of a table. The time since the table was written does not count towards
// [Limits.Silent].
func (o *oldKeys) recover(w *wire.DurableOldKeys, now time.Time) error {
	if len(w.GetHashes()) != len(w.GetKeys()) || len(w.GetAges()) != len(w.GetKeys()) {
		return fmt.Errorf("%w: the table has %d old keys, %d hashes and %d ages, want the same number of each", ErrCorrupt, len(w.GetKeys()), len(w.GetHashes()), len(w.GetAges()))
	}
	for i, name := range w.GetKeys() {
		if len(name) == 0 {
			return fmt.Errorf("%w: an idempotency key in the table of old keys is empty", ErrCorrupt)
		}
		age := time.Duration(min(w.GetAges()[i], uint64(time.Hour.Milliseconds()))) * time.Millisecond
		o.put(oldKey{string(name), w.GetHashes()[i], now.Add(-age)})
	}
	return nil
}

func (o *oldKeys) check() error {
	n := 0
	for i := range o.all {
		k := &o.all[i]
		if k.name == "" {
			continue
		}
		n++
		if at, there := o.at[k.name]; !there || at != o.gone+i {
			return fmt.Errorf("invariant 5 of the table: the index of old key %d is %d", o.gone+i, at)
		}
	}
	if n != len(o.at) {
		return fmt.Errorf("invariant 5 of the table: the index has %d old keys, but there are %d", len(o.at), n)
	}
	return nil
}
