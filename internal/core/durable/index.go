package durable

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/shardgen/shardgen/internal/util/ordered"
	"github.com/shardgen/shardgen/internal/wire"
)

// Index describes the indexes of a type.
type Index struct {
	// Fields names the indexed fields with their kinds, and the version of the state. Keys that
	// were made for other Fields are not used: the shard's home makes them again.
	Fields string
	// Keys returns the index keys of a stored state, like [Turn.Index]. It has no effects. It is
	// only called if neither the log nor the entity's record has the keys.
	Keys func(id string, form uint32, state []byte, since [][]byte) ([]byte, error)
}

func (x *Index) fields() string {
	if x == nil {
		return ""
	}
	return x.Fields
}

// unknownFields is in the shard's table instead of Index.Fields while leaves may lack index keys.
const unknownFields = "?"

func indexKey(key, id string) string { return kindIndex + key + id }

// eachKey yields each key of an index.
func eachKey(index []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(index) > 0 {
			n := ordered.SizeOfKey(index)
			if n == 0 || !yield(string(index[:n])) {
				return // n is 0: no program writes such a key
			}
			index = index[n:]
		}
	}
}

// without returns the keys of index a that index b lacks.
func without(a, b []byte) (rest []byte) {
	for key := range eachKey(a) {
		if !hasKey(b, key) {
			rest = append(rest, key...)
		}
	}
	return rest
}

func hasKey(index []byte, key string) bool {
	for k := range eachKey(index) {
		if k == key {
			return true
		}
	}
	return false
}

// indexOf returns the index keys of an entity in version v. known is false if the state cannot be
// read. bare means that v lacks the state.
func (s *Shard) indexOf(id string, v *version, bare bool) (index []byte, known bool) {
	switch {
	case s.config.Index == nil, v.number == 0, v.ended:
		return nil, true
	case v.index() != nil:
		return v.index(), true
	case bare:
		return nil, false
	}
	index, err := s.config.Index.Keys(id, v.form, v.state, v.since)
	if err != nil {
		return nil, false
	}
	v.setRare(v.reminders(), index)
	return index, true
}

// lastIndex returns the index keys of e after its last commit.
func (s *Shard) lastIndex(e *entity) (index []byte, known bool) {
	if e.last.index() == nil && e.last.number == e.acked.number {
		index, known = s.ackedIndex(e)
		e.last.setRare(e.last.reminders(), index)
		return index, known
	}
	return s.indexOf(e.id, &e.last, e.bare)
}

// ackedIndex returns the index keys of e after its last acknowledged commit, as a checkpoint writes
// them.
func (s *Shard) ackedIndex(e *entity) (index []byte, known bool) {
	return s.indexOf(e.id, &e.acked, e.bare)
}

// indexAfter returns the index keys that e gets by the commit of t, and those that e loses; nil
// means that the keys do not change.
func (s *Shard) indexAfter(e *entity, t *Turn) *wire.DurableIndex {
	before, known := s.lastIndex(e)
	if t.Ended {
		t.Index = nil
	}
	if known && bytes.Equal(before, t.Index) {
		return nil
	}
	x := &wire.DurableIndex{Keys: t.Index, Removed: without(before, t.Index)}
	s.catalog.moves(e, without(t.Index, before), x.Removed)
	return x
}

// indexRoom returns how many bytes of the index an entity's record needs in addition to those in w,
// the commit of t.
func (s *Shard) indexRoom(t *Turn, w *wire.DurableCommit) int {
	switch {
	case s.config.Index == nil:
		return 0
	case w.Index == nil:
		return len(s.config.Index.Fields) + len(t.Index)
	}
	return len(s.config.Index.Fields)
}

// readIndex computes the index keys of an entity from its record, which was just read, if the
// record has no keys for the present Index.Fields. The leaves may lack the computed keys, so
// readIndex passes them to the catalog. It must run before any other use of the record.
func (s *Shard) readIndex(e *entity, v *version) {
	if s.config.Index == nil || v.index() != nil {
		return
	}
	if index, _ := s.indexOf(e.id, v, false); len(index) > 0 {
		s.catalog.moves(e, index, nil)
	}
}

// A moved has the index keys of an entity that may be wrong in the leaves: missing there, or still
// there although the entity has lost them.
type moved struct {
	*entity
	keys []string // without kind and id
}

// moves records that the leaves may lack the keys in added, and may still have those in removed.
func (c *catalog) moves(e *entity, added, removed []byte) {
	m := c.moved[e.id]
	if m == nil {
		m = &moved{}
		c.moved[e.id] = m
	}
	m.entity = e
	for _, index := range [][]byte{added, removed} {
		for key := range eachKey(index) {
			if !slices.Contains(m.keys, key) {
				m.keys = append(m.keys, key)
				c.news.add(c, indexKey(key, e.id))
			}
		}
	}
}

// forgetIndexes drops the index keys of all entities in memory, and those in the leaves no longer
// count. It is called if the log has commits of a home with other Index.Fields.
func (c *catalog) forgetIndexes(t *tail) {
	c.indexed = false
	clear(c.moved)
	c.news = newKeys{}
	//arch:order-free each by itself
	for _, e := range t.entities {
		e.last.setRare(e.last.reminders(), nil)
		e.acked.setRare(e.acked.reminders(), nil)
	}
}

// indexChanges adds to ed the changes of e's index keys.
func (c *catalog) indexChanges(ed *edit, e savedEntity) {
	if m := c.moved[e.id]; m != nil {
		for _, key := range m.keys {
			ed.there[indexKey(key, e.id)] = hasKey(e.index, key)
		}
	}
}

// indexWritten records how the index keys of e differ from index, which the leaves now have. If a
// commit of e is not acknowledged yet, all its keys stay in moved, because the next checkpoint may
// write either version.
func (c *catalog) indexWritten(s *Shard, e *entity, index []byte) {
	if e.ticket <= s.group.acked {
		delete(c.moved, e.id)
	}
	if !e.loaded {
		return // see readIndex
	}
	if last, known := s.lastIndex(e); known && !bytes.Equal(index, last) {
		c.moves(e, without(last, index), without(index, last))
	}
}

// indexStands reports whether an index key in a leaf is still valid: see stands.
func (c *catalog) indexStands(s *Shard, key string) bool {
	id := ownerOf(key)
	if e := c.changed[id]; e != nil && e.loaded && (e.last.number == 0 || e.last.gone(s.desk.now)) {
		return false
	}
	m, _ := c.movedBy(key)
	return m == nil
}

// movedBy returns the entry of moved that has a key, or nil, and the key without kind and id.
func (c *catalog) movedBy(key string) (m *moved, bare string) {
	id := ownerOf(key)
	bare = key[len(kindIndex) : len(key)-len(id)]
	if m = c.moved[id]; m == nil || !slices.Contains(m.keys, bare) {
		return nil, bare
	}
	return m, bare
}

// eachMoved yields the keys in moved that their entities now have and that scan sc looks for.
func (c *catalog) eachMoved(s *Shard, sc *scan) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, key := range c.news.from(c, sc.from) {
			if !sc.wants(key) {
				return
			}
			m, bare := c.movedBy(key)
			if m == nil || !m.loaded || m.last.number == 0 || m.last.gone(s.desk.now) {
				continue
			}
			if index, _ := s.lastIndex(m.entity); hasKey(index, bare) && !yield(key) {
				return
			}
		}
	}
}

// newKeys has the keys in moved with their ids, sorted, so that a find looks at few of them. Some
// are no longer in moved. The zero value is filled from moved at the first find.
type newKeys struct {
	began  bool
	sorted []string
	added  []string // since the last find, at most about as many as sorted
	live   int      // how many keys sorted had when those that are no longer in moved were last dropped
}

// fewKeys is the size below which newKeys keeps keys that are no longer in moved.
const fewKeys = 1024

func (n *newKeys) add(c *catalog, key string) {
	if !n.began {
		return
	}
	if n.added = append(n.added, key); len(n.added) > len(n.sorted)+fewKeys {
		n.settle(c)
	}
}

// from returns the sorted keys that are not below the given one.
func (n *newKeys) from(c *catalog, from string) []string {
	if !n.began {
		n.began = true
		//arch:order-free they are sorted
		for id, m := range c.moved {
			for _, key := range m.keys {
				n.added = append(n.added, indexKey(key, id))
			}
		}
	}
	n.settle(c)
	i, _ := slices.BinarySearch(n.sorted, from)
	return n.sorted[i:]
}

// settle merges n.added into n.sorted.
func (n *newKeys) settle(c *catalog) {
	if len(n.added) == 0 {
		return
	}
	slices.Sort(n.added)
	merged := make([]string, 0, len(n.sorted)+len(n.added))
	old := n.sorted
	for _, key := range n.added {
		i, _ := slices.BinarySearch(old, key)
		merged, old = append(append(merged, old[:i]...), key), old[i:]
	}
	n.sorted, n.added = slices.Compact(append(merged, old...)), nil
	if len(n.sorted) > 2*n.live+fewKeys {
		n.sorted = slices.DeleteFunc(n.sorted, func(key string) bool {
			m, _ := c.movedBy(key)
			return m == nil
		})
		n.live = len(n.sorted)
	}
}

func (c *catalog) checkMoved(t *tail) error {
	for _, id := range slices.Sorted(maps.Keys(t.entities)) {
		e := t.entities[id]
		if before, after := e.acked.index(), e.last.index(); c.moved[id] == nil && before != nil && after != nil && !bytes.Equal(before, after) {
			return fmt.Errorf("invariant 4 of the catalog: keys of entity %q have changed from %q to %q, but are not in moved", id, before, after)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.moved)) {
		if m := c.moved[id]; m.entity != t.entities[id] {
			return fmt.Errorf("invariant 4 of the catalog: keys of entity %q have changed, but the entity is not in the tail", id)
		}
	}
	return nil
}

// ownerOfIndexKey returns the id of the entity in a catalog key of kindIndex.
func ownerOfIndexKey(key string) string {
	return key[len(kindIndex)+ordered.SizeOfKey(key[len(kindIndex):]):]
}

// leafCache has the leaves that finds have read last. A leaf never changes: a checkpoint writes a
// new one instead.
type leafCache struct {
	keys  map[leaf][][]byte
	order []leaf // by age
	bytes int
}

// cachedBytes bounds the leaves that a shard keeps in memory; 64 shards then have 16 MiB.
const cachedBytes = 256 << 10

func (l *leafCache) has(of leaf) [][]byte { return l.keys[of] }

// renew replaces the leaves in the cache by the leaves that a checkpoint has just written. So finds
// need not read the new leaves from the store.
func (l *leafCache) renew(ed *edit) {
	if len(l.order) == 0 {
		return
	}
	old := l.keys
	*l = leafCache{}
	numbers := map[uint64]bool{}
	//arch:order-free fills a map
	for of := range old {
		numbers[of.number] = true
	}
	for _, of := range ed.leaves {
		if keys := ed.written[of]; keys != nil && (numbers[of.number] || of.first >= kindIndex) {
			l.put(of, keys)
		} else if keys := old[of]; keys != nil {
			l.put(of, keys)
		}
	}
}

func (l *leafCache) put(of leaf, keys [][]byte) {
	if l.keys == nil {
		l.keys = map[leaf][][]byte{}
	}
	if l.keys[of] == nil {
		l.order, l.bytes = append(l.order, of), l.bytes+of.bytes
	}
	l.keys[of] = keys
	for l.bytes > cachedBytes && len(l.order) > 1 {
		l.bytes -= l.order[0].bytes
		delete(l.keys, l.order[0])
		l.order = l.order[1:]
	}
}
