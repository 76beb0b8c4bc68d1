package region

import (
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// index is a hash table of a shard's entities by id, with open addressing, linear probing and
// [Hash]. Entities do not store their hash, to save memory. One goroutine at a time may change the
// index; other goroutines may call Look meanwhile. The zero value is empty.
//
// A concurrent Look may miss an entity; the caller then takes the shard's lock. Look may also
// return an entity that has left the index; Enter refuses such an entity, because it is not live.
type index struct {
	table   atomic.Pointer[table] // nil means empty
	n       int
	actives actives
}

type slot = atomic.Pointer[Entity]

// table has slots, whose number is a power of two. A slot's tag is a byte of its entity's hash; 0
// means empty. A search skips slots with other tags without reading their entities, which are not
// in the cache.
type table struct {
	slots []slot
	tags  []atomic.Uint32
}

const (
	minSlots = 8
	// At most seven of eight slots are taken; below one in eight, the table shrinks. A slot with
	// its tag has 9 bytes, so an index that only grows takes 10 to 21 bytes for each entity.
	fullNum, fullDen = 7, 8
	sparse           = 8

	tagsInWord, tagBits = 4, 8
	// The eight bits of a hash from tagAt on are its tag; the tag 0 becomes 1. The highest bits
	// choose the shard, and the lowest the slot.
	tagAt = 32
)

func newTable(n int) *table {
	return &table{make([]slot, n), make([]atomic.Uint32, n/tagsInWord)}
}

func (t *table) tag(i uint64) uint8 {
	return uint8(t.tags[i/tagsInWord].Load() >> (i % tagsInWord * tagBits))
}

// set fills slot i; a nil entity empties it. A search that sees a new tag also sees its entity.
func (t *table) set(i uint64, e *Entity, tag uint8) {
	if e != nil {
		t.slots[i].Store(e)
	}
	word, shift := &t.tags[i/tagsInWord], i%tagsInWord*tagBits
	word.Store(word.Load()&^(0xff<<shift) | uint32(tag)<<shift)
	if e == nil {
		t.slots[i].Store(nil)
	}
}

// Hash returns the hash by which the index finds an entity. Users cannot replace it, because a hash
// that spreads badly would make every call slow.
func Hash(id string) uint64 { return xxhash.Sum64String(id) }

func (x *index) look(hash uint64, id string) *Entity {
	t := x.table.Load()
	if t == nil {
		return nil
	}
	mask, tag := uint64(len(t.slots)-1), max(uint8(hash>>tagAt), 1)
	for i := hash & mask; ; i = (i + 1) & mask { // ends: an eighth of the slots is empty
		switch uint8(t.tags[i/tagsInWord].Load() >> (i % tagsInWord * tagBits)) {
		case 0:
			return nil
		case tag:
			if e := t.slots[i].Load(); e != nil && e.ID == id {
				return e
			}
		}
	}
}

func (x *index) get(id string) *Entity { return x.look(Hash(id), id) }

func (x *index) put(e *Entity) {
	t := x.table.Load()
	if n := len(x.slots()); (x.n+1)*fullDen > n*fullNum {
		t = x.resize(max(2*n, minSlots))
	}
	t.insert(e)
	x.n++
}

func (t *table) insert(e *Entity) {
	mask, hash := uint64(len(t.slots)-1), Hash(e.ID)
	i := hash & mask
	for t.tag(i) != 0 {
		i = (i + 1) & mask
	}
	t.set(i, e, max(uint8(hash>>tagAt), 1))
}

func (x *index) remove(e *Entity) {
	slots := x.slots()
	if len(slots) == 0 {
		return
	}
	t, mask := x.table.Load(), uint64(len(slots)-1)
	gap := Hash(e.ID) & mask
	for o := slots[gap].Load(); o != e; o = slots[gap].Load() {
		if o == nil {
			return
		}
		gap = (gap + 1) & mask
	}
	// An entity behind the gap moves into it if a search would otherwise stop at the gap.
	for i := (gap + 1) & mask; ; i = (i + 1) & mask {
		o := slots[i].Load()
		if o == nil {
			break
		}
		if (i-Hash(o.ID))&mask >= (i-gap)&mask {
			t.set(gap, o, t.tag(i))
			gap = i
		}
	}
	t.set(gap, nil, 0)
	x.actives.left(e)
	if x.n--; len(slots) > minSlots && x.n*sparse < len(slots) {
		x.resize(len(slots) / 2)
	}
}

func (x *index) resize(n int) *table {
	next := newTable(n)
	for e := range x.all() {
		next.insert(e)
	}
	x.table.Store(next)
	return next
}

func (x *index) clear() {
	x.table.Store(nil)
	x.n = 0
	x.actives.clear()
}

func (x *index) slots() []slot {
	if t := x.table.Load(); t != nil {
		return t.slots
	}
	return nil
}

// all yields entities in table order. Entities added or removed meanwhile may be missed or occur
// twice.
func (x *index) all() iter.Seq[*Entity] {
	return func(yield func(*Entity) bool) {
		slots := x.slots()
		for i := range slots {
			if e := slots[i].Load(); e != nil && !yield(e) {
				return
			}
		}
	}
}

func (x *index) sorted() []*Entity {
	return slices.SortedFunc(x.all(), func(a, b *Entity) int { return strings.Compare(a.ID, b.ID) })
}

// actives lists the active entities of a shard for passivation, longest unexamined first. An entity
// enters when a turn leaves it active, and stays until Survey finds it inactive. The shard's lock
// guards the list. The zero value is empty.
type actives struct {
	head, tail *Entity
	n          int
	dead       int // the number of listed entities that have left the index
	live       int // the number of entities in the index with the flag live
}

const minDead = 64

func (a *actives) push(e *Entity) {
	e.next = e
	if a.tail == nil {
		a.head = e
	} else {
		a.tail.next = e
	}
	a.tail = e
	a.n++
}

func (a *actives) pop() *Entity {
	e := a.head
	if a.head = e.next; a.head == e {
		a.head, a.tail = nil, nil
	}
	e.next = nil
	a.n--
	return e
}

// ended records the end of a turn. The parameters was and is show whether the entity was live
// before, and whether it is live now.
func (a *actives) ended(e *Entity, was, is bool) {
	if is && !e.listed() {
		a.push(e)
	}
	if is && !was {
		a.live++
	} else if was && !is {
		a.live--
	}
}

// left records that an entity without a value has left the index. When the list has more than 64
// such entities, and they are more than half of it, left unlinks them, to be garbage-collected.
func (a *actives) left(e *Entity) {
	if !e.listed() {
		return
	}
	if a.dead++; a.dead <= minDead || 2*a.dead <= a.n {
		return
	}
	for range a.n {
		if e := a.pop(); e.has(busy | live) {
			a.push(e)
		}
	}
	a.dead = 0
}

// clear empties the list, and unlinks its entities, because callers may keep some of them.
func (a *actives) clear() {
	for a.head != nil {
		a.pop()
	}
	*a = actives{}
}
