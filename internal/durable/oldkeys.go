package durable

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// An oldKey is a command with a key that the table has applied, and whose answer it does not keep any more.
type oldKey struct {
	name  string // "": it was taken out
	hash  uint64
	heard time.Time
}

// oldKeys are such commands in the order in which they came here. A key stays until it was not sent for
// [Limits.Silent], and so do those that came after it.
type oldKeys struct {
	all []oldKey
	at  map[string]int // the index in all, and gone more
	// gone counts those that were taken from the beginning of all.
	gone int
}

// len is how many keys there are.
func (o *oldKeys) len() int { return len(o.at) }

// find returns a key, or nil. It holds until another is put.
func (o *oldKeys) find(name string) *oldKey {
	if i, there := o.at[name]; there {
		return &o.all[i-o.gone]
	}
	return nil
}

// put adds a key, or puts it behind all others.
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

// forget takes out the keys at the beginning that were sent last before a time.
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

// oldKeysAtOnce is how many keys one message has.
const oldKeysAtOnce = 1024

// parts returns the keys, as messages of a part of them each.
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

// recover takes keys of a stored table. The time since that was written does not count.
func (o *oldKeys) recover(w *wire.DurableOldKeys, now time.Time) error {
	if len(w.GetHashes()) != len(w.GetKeys()) || len(w.GetAges()) != len(w.GetKeys()) {
		return fmt.Errorf("%w: %d keys, %d hashes, %d ages", ErrCorrupt, len(w.GetKeys()), len(w.GetHashes()), len(w.GetAges()))
	}
	for i, name := range w.GetKeys() {
		if len(name) == 0 {
			return fmt.Errorf("%w: an empty key", ErrCorrupt)
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
			return fmt.Errorf("invariant 5 of the table: old key %d is known at %d", o.gone+i, at)
		}
	}
	if n != len(o.at) {
		return fmt.Errorf("invariant 5 of the table: %d old keys, counted %d", len(o.at), n)
	}
	return nil
}
