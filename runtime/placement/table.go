package placement

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// maxGone bounds the removed addresses that a table keeps. Beyond it, the table drops the oldest.
const maxGone = 64

// A Table is one version of the list of all shards and their homes. A Table never changes, so
// goroutines can share it and read it without a lock. [Table.Apply] returns the next version, which
// shares the unchanged parts with this one. A nil Table is the empty table.
type Table struct {
	version Version
	kinds   map[string]*TypeTable
	gone    []transport.Address // latest last
}

// A TypeTable is the part of a table for one entity type. nil has no entries.
type TypeTable struct {
	name   string
	shards uint32
	slots  []slot // slots[i] belongs to shard shards+i
}

// A slot is the entry of one shard, without an epoch if it never had a home.
type slot struct {
	home  transport.Address
	epoch Epoch
}

// Version returns the table's version.
func (t *Table) Version() Version {
	if t == nil {
		return Version{}
	}
	return t.version
}

// Type returns the part of the table for one entity type, or nil if the table lacks it.
func (t *Table) Type(name string) *TypeTable {
	if t == nil {
		return nil
	}
	return t.kinds[name]
}

// Lookup returns the entry of one shard. ok is false if the table has none.
func (t *Table) Lookup(s ShardID) (e Entry, ok bool) { return t.Type(s.Kind).Lookup(s.Shard) }

// Types returns the names of the types in the table, sorted.
func (t *Table) Types() []string {
	if t == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(t.kinds))
}

// All yields the entries, ordered by type and number.
func (t *Table) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, name := range t.Types() {
			for e := range t.Type(name).All() {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// Len returns the number of entries.
func (t *Table) Len() int {
	n := 0
	for range t.All() {
		n++
	}
	return n
}

// Gone returns the latest addresses, oldest first and at most 64, that were removed from the
// cluster while a table named them or they hosted shards. The caller must not change the slice.
func (t *Table) Gone() []transport.Address {
	if t == nil {
		return nil
	}
	return t.gone
}

// Name returns the type's name.
func (k *TypeTable) Name() string { return k.name }

// Shards returns the number of shards of the type, or 0 for nil.
func (k *TypeTable) Shards() uint32 {
	if k == nil {
		return 0
	}
	return k.shards
}

// Lookup returns the entry of the shard with that number. It costs one slice index.
func (k *TypeTable) Lookup(shard uint32) (e Entry, ok bool) {
	if k == nil || shard < k.shards || shard-k.shards >= uint32(len(k.slots)) {
		return Entry{}, false
	}
	s := &k.slots[shard-k.shards]
	if s.epoch == 0 {
		return Entry{}, false
	}
	return Entry{ShardID{k.name, shard}, s.home, s.epoch}, true
}

// All yields the type's entries, ordered by number.
func (k *TypeTable) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		if k == nil {
			return
		}
		for i := range k.slots {
			if e, ok := k.Lookup(k.shards + uint32(i)); ok && !yield(e) {
				return
			}
		}
	}
}

// A Diff is the difference from table From to the later table To. With Full set it is the whole
// table To, and From is not used.
type Diff struct {
	From, To Version
	Full     bool
	Entries  []Entry             // new and changed entries, in order of type and number
	Gone     []transport.Address // removed addresses that the table From lacks
}

// Empty reports whether the two tables differ only in their versions.
func (d Diff) Empty() bool { return !d.Full && len(d.Entries) == 0 && len(d.Gone) == 0 }

// Full returns the whole table as a Diff.
func (t *Table) Full() Diff {
	return Diff{To: t.Version(), Full: true, Entries: slices.Collect(t.All()), Gone: slices.Clone(t.Gone())}
}

// Diff returns the difference from t to a later table. The result is a full table if the terms
// differ, because tables of different terms need not have entries in common, or if an entry of t is
// missing in to.
func (t *Table) Diff(to *Table) Diff {
	if t.Version().Term != to.Version().Term {
		return to.Full()
	}
	d := Diff{From: t.Version(), To: to.Version()}
	for _, name := range t.Types() {
		if !t.Type(name).within(to.Type(name)) {
			return to.Full()
		}
	}
	for _, name := range to.Types() {
		was, is := t.Type(name), to.Type(name)
		if was == is {
			continue
		}
		for e := range is.All() {
			if old, ok := was.Lookup(e.Shard); !ok || old != e {
				d.Entries = append(d.Entries, e)
			}
		}
	}
	for _, a := range to.Gone() {
		if !slices.Contains(t.Gone(), a) {
			d.Gone = append(d.Gone, a)
		}
	}
	return d
}

func (k *TypeTable) within(other *TypeTable) bool {
	if k == other {
		return true
	}
	if k.Shards() != other.Shards() {
		return false
	}
	for e := range k.All() {
		if _, ok := other.Lookup(e.Shard); !ok {
			return false
		}
	}
	return true
}

var errGap = errors.New("the diff starts at another version")

// Apply returns the table that results from t and the changes in d; t stays unchanged. It fails if
// d does not lead to a later version, or has an invalid entry. It also fails if d starts at another
// version than that of t, unless d is Full.
func (t *Table) Apply(d Diff) (*Table, error) {
	if !d.Full && d.From != t.Version() {
		return nil, fmt.Errorf("apply table: %w: %v, have %v (request the whole table)", errGap, d.From, t.Version())
	}
	if d.To.Compare(t.Version()) <= 0 {
		return nil, fmt.Errorf("apply table %v: not later than %v", d.To, t.Version())
	}
	next := &Table{version: d.To, kinds: map[string]*TypeTable{}}
	if !d.Full && t != nil {
		maps.Copy(next.kinds, t.kinds)
		next.gone = t.gone
	}
	fresh := map[string]bool{} // types whose slots next no longer shares with t
	for _, e := range d.Entries {
		if err := next.put(e, fresh); err != nil {
			return nil, fmt.Errorf("apply table %v: %w", d.To, err)
		}
	}
	if len(d.Gone) > 0 {
		next.gone = slices.Concat(next.gone, d.Gone)
		next.gone = next.gone[max(0, len(next.gone)-maxGone):]
	}
	return next, nil
}

// put sets one entry. It first copies the slots of a type that is not in fresh yet, and adds the
// type to fresh.
func (t *Table) put(e Entry, fresh map[string]bool) error {
	if err := e.check(); err != nil {
		return err
	}
	if e.Epoch == 0 {
		return fmt.Errorf("check entry %v: no epoch", e)
	}
	k, n := t.kinds[e.Kind], shardsOf(e.Shard)
	switch {
	case k == nil:
		k = &TypeTable{name: e.Kind, shards: n, slots: make([]slot, n)}
	case k.shards != n:
		return fmt.Errorf("check entry %v: the type has %d shards, not %d", e, k.shards, n)
	case !fresh[e.Kind]:
		k = &TypeTable{name: k.name, shards: k.shards, slots: slices.Clone(k.slots)}
	}
	fresh[e.Kind], t.kinds[e.Kind] = true, k
	s := &k.slots[e.Shard-n]
	if s.epoch.Term() == e.Epoch.Term() && e.Epoch < s.epoch {
		return fmt.Errorf("check entry %v: its epoch is below the present one, %v", e, s.epoch)
	}
	*s = slot{e.Home, e.Epoch}
	return nil
}
