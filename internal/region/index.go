package region

import (
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// entities are the entities of a shard, which they find by id: a table with open addressing and
// linear probing, by [Hash]. One goroutine at a time may change it; others may
// call Look meanwhile. The zero value is empty.
//
// A Look that runs beside a change may miss an entity, or come upon one that is not in
// the index any more. Both are harmless: if no entity is found, or it cannot be entered,
// the shard's lock is taken, and an entity that leaves the index is not live.
type entities struct {
	table   atomic.Pointer[[]slot] // its length is a power of two; nil means empty
	n       int
	actives actives
}

type slot = atomic.Pointer[Entity]

const (
	minSlots = 8
	// At most three of four slots are taken; a table of which less than one in
	// eight is taken shrinks. A slot is 8 bytes, so that an entity costs 11 to 22.
	fullNum, fullDen = 3, 4
	sparse           = 8
)

// Hash is the hash that a shard finds the entity with that id by. It is not a
// user's: one that spreads badly must not make every call slow.
func Hash(id string) uint64 { return xxhash.Sum64String(id) }

// Look finds an entity without the shard's lock; nil means there is none, or the index changes
// just now. hash is [Hash] of id. It may be called at any time, from any goroutine, and
// its result may be kept for later calls.
func (x *entities) Look(hash uint64, id string) *Entity {
	t := x.table.Load()
	if t == nil {
		return nil
	}
	slots := *t
	mask := uint64(len(slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask { // ends: a quarter of the slots is empty
		e := slots[i].Load()
		if e == nil {
			return nil
		}
		if e.hash == hash && e.ID == id {
			return e
		}
	}
}

// get is Look with an id that is not hashed yet.
func (x *entities) get(id string) *Entity { return x.Look(Hash(id), id) }

// put adds an entity that is not in the index.
func (x *entities) put(e *Entity) {
	slots := x.slots()
	if (x.n+1)*fullDen > len(slots)*fullNum {
		slots = x.resize(max(2*len(slots), minSlots))
	}
	insert(slots, e)
	x.n++
}

func insert(slots []slot, e *Entity) {
	mask := uint64(len(slots) - 1)
	i := e.hash & mask
	for slots[i].Load() != nil {
		i = (i + 1) & mask
	}
	slots[i].Store(e)
}

// remove takes an entity out, if it is in the index.
func (x *entities) remove(e *Entity) {
	slots := x.slots()
	if len(slots) == 0 {
		return
	}
	mask := uint64(len(slots) - 1)
	gap := e.hash & mask
	for o := slots[gap].Load(); o != e; o = slots[gap].Load() {
		if o == nil {
			return
		}
		gap = (gap + 1) & mask
	}
	// Those behind it that would not be found across the gap move into it.
	for i := (gap + 1) & mask; ; i = (i + 1) & mask {
		o := slots[i].Load()
		if o == nil {
			break
		}
		if (i-o.hash)&mask >= (i-gap)&mask {
			slots[gap].Store(o)
			gap = i
		}
	}
	slots[gap].Store(nil)
	x.actives.left(e)
	if x.n--; len(slots) > minSlots && x.n*sparse < len(slots) {
		x.resize(len(slots) / 2)
	}
}

// resize moves all entities to a table of that many slots.
func (x *entities) resize(n int) []slot {
	next := make([]slot, n)
	for e := range x.all() {
		insert(next, e)
	}
	x.table.Store(&next)
	return next
}

// clear removes all.
func (x *entities) clear() {
	x.table.Store(nil)
	x.n = 0
	x.actives.clear()
}

func (x *entities) slots() []slot {
	if t := x.table.Load(); t != nil {
		return *t
	}
	return nil
}

// all are the entities, in the order of the table. Entities that are added or removed
// meanwhile may be missed or occur twice.
func (x *entities) all() iter.Seq[*Entity] {
	return func(yield func(*Entity) bool) {
		slots := x.slots()
		for i := range slots {
			if e := slots[i].Load(); e != nil && !yield(e) {
				return
			}
		}
	}
}

// sorted are the entities by id.
func (x *entities) sorted() []*Entity {
	return slices.SortedFunc(x.all(), func(a, b *Entity) int { return strings.Compare(a.ID, b.ID) })
}

// actives lists the entities of a shard that are active, so that passivation need not
// look at those that are not. The list runs through the entities themselves, those
// first that were not looked at for longest. An entity joins it when a turn ends that
// leaves it active; one that is not active any more stays until somebody looks at it.
// It is guarded by the shard's lock. The zero value is empty.
type actives struct {
	head, tail *Entity
	n          int
	dead       int // of n, those that are not in the index any more
	live       int // entities of the index that have the flag live
}

// minDead is how many entities that left the index the list may keep.
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

// ended notes that a turn of an entity in the index has ended, which was live before
// if was is true and is live now if is is true.
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

// left notes that an entity without a value has left the index. When half of the list
// is such entities they are taken out, so that they can be collected.
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

// clear empties the list. The entities forget each other, for references may keep
// some of them.
func (a *actives) clear() {
	for a.head != nil {
		a.pop()
	}
	*a = actives{}
}
