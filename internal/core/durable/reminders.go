package durable

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/core/reminders"
	"github.com/shardgen/shardgen/internal/wire"
)

// never is the due time of an entity without reminders.
const never = reminders.Never

const (
	// MaxLooks is the most entities of a shard whose due reminders the driver handles at the same
	// time.
	MaxLooks = 64
	// LooksTogether is how many due entities the driver handles together. Due returns none while
	// fewer than so many may be added.
	LooksTogether = 16
	// aheadOf is how long before its due time an entity is read from the catalog, in milliseconds.
	aheadOf = 2000
	// fewWakes is the number of known due entities below which more are read from the catalog, at
	// most wakesRead at a time. Entities whose next look is delayed do not count.
	fewWakes  = 256
	wakesRead = 512
)

// due returns the earliest due time of the entity's reminders, in Unix milliseconds, or never.
func (v *version) due() int64 { return reminders.List(v.reminders().GetAll()).Due() }

func (v *version) remindersAfter(t *Turn, now time.Time) *wire.DurableReminders {
	switch {
	case t.Ended:
		return nil
	case t.Reminders != nil:
		return t.Reminders
	case v.gone(now):
		return nil
	}
	return v.reminders()
}

// sizeOfReminders returns at least the size of reminders in a record or commit.
func sizeOfReminders(all *wire.DurableReminders) int {
	if all == nil {
		return 0
	}
	return proto.Size(all) + appendRoom
}

// wakeKey returns the catalog key for an entity that is due at a time. Keys are in the order of
// their times.
func wakeKey(at int64, id string) string { return kindWake + wire.DueKey(at, id) }

// wakeOf returns the time and the entity of a key that wakeKey has made.
func wakeOf(key string) (at int64, id string) {
	if at, id, ok := wire.ParseDueKey(key[1:]); ok {
		return at, id
	}
	return never, ""
}

// wakes has the entities of a shard that have reminders due soon. An entity's place in the heap
// depends on the earliest due time of its reminders. Other entities are only in the catalog, so
// memory does not grow with the number of reminders. An entry is only a hint that the driver looks
// at the entity. The entity's turn then decides, by the entity's state, which reminders are due.
//
// Invariants:
//  1. The catalog's leaves have the due time of a loaded entity that is not in changed.
//  2. A loaded entity whose key is below w.read is in w.of or w.under.
//  3. The key of any other loaded entity is at least w.next.
//  4. w.of and w.heap have the same entities. w.delayed counts the entities at which the driver looks later than
//     they are due.
type wakes struct {
	heap    wakeHeap
	delayed int // number of delayed entities in the heap
	of      map[string]*wake
	under   map[string]*wake // the entities that the driver looks at now
	read    string           // keys below it were read from the catalog
	next    string           // the catalog has no key from read up to next, unless a scan is under way
	horizon string           // of the scan under way
	scans   bool             // a scan is under way
	clock   int64            // the clock at the last call of Due
	stale   map[string]bool  // keys of leaves that are to be removed, because their entities are not due then
}

// A wake is a time at which to look at an entity.
type wake struct {
	id   string
	at   int64
	due  int64 // equal to at, or earlier if the look at the entity is delayed
	leaf int64 // the due time in the leaf from which the entity was read; 0 means none
	i    int   // in the heap
	// changed: the reminders have changed since Due returned the entity.
	changed bool
}

type wakeHeap []*wake

func (h wakeHeap) Len() int { return len(h) }

func (h wakeHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].id < h[j].id
}

func (h wakeHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].i, h[j].i = i, j
}

// Push implements heap.Interface.
func (h *wakeHeap) Push(x any) {
	w := x.(*wake)
	w.i = len(*h)
	*h = append(*h, w)
}

// Pop implements heap.Interface.
func (h *wakeHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return w
}

func newWakes() wakes {
	return wakes{of: map[string]*wake{}, under: map[string]*wake{}, read: kindWake, next: kindWake, stale: map[string]bool{}}
}

// put schedules a look at an entity, unless an earlier look is scheduled. leaf is the entity's time
// in the catalog's leaf; 0 means none.
func (w *wakes) put(id string, at, leaf int64) {
	if w.under[id] != nil {
		return
	}
	known := w.of[id]
	if known == nil {
		known = &wake{id: id, at: at, due: at, leaf: leaf}
		w.of[id] = known
		heap.Push(&w.heap, known)
		return
	}
	w.count(known, -1)
	known.leaf = max(known.leaf, leaf)
	if known.due = min(known.due, at); at < known.at {
		known.at = at
		heap.Fix(&w.heap, known.i)
	}
	w.count(known, 1)
}

// count adds the given number to w.delayed if the given look is delayed.
func (w *wakes) count(known *wake, by int) {
	if known.at > known.due {
		w.delayed += by
	}
}

// few reports whether more entities are to be read from the catalog.
func (w *wakes) few() bool { return len(w.heap)-w.delayed < fewWakes }

// delay moves the scheduled look at an entity to a later time.
func (w *wakes) delay(id string, again int64) {
	if known := w.of[id]; known != nil && known.at < again {
		w.count(known, -1)
		known.at = again
		heap.Fix(&w.heap, known.i)
		w.count(known, 1)
	}
}

func (w *wakes) remove(id string) {
	if known := w.of[id]; known != nil {
		heap.Remove(&w.heap, known.i)
		w.count(known, -1)
		delete(w.of, id)
	}
}

// expect schedules the next look at e, after its reminders have changed or were looked at.
func (w *wakes) expect(e *entity, leaf int64) {
	due := e.last.due()
	if leaf != 0 && leaf != due && leaf != e.entered {
		w.stale[wakeKey(leaf, e.id)] = true
	}
	w.remove(e.id)
	if key := wakeKey(due, e.id); key < w.read || w.scans && key < w.horizon { // the scan may have passed it
		w.put(e.id, due, 0)
	} else if due != never {
		w.next = min(w.next, key)
	}
}

// earliest returns a lower bound for the due times of all reminders in records, once the checkpoint
// under way is written with ed. The due times in records and leaves count, and not only those of
// entities in memory, because the store may lose commits that it has acknowledged.
func (s *Shard) earliest(ed *edit) int64 {
	w := &s.wakes
	due, _ := wakeOf(w.next)
	if w.scans || w.next == kindWake {
		due, _ = wakeOf(w.read)
	}
	if w.read == kindWake && (w.scans || w.next == kindWake) {
		return 1
	}
	//arch:order-free the least of them
	for _, known := range w.of {
		due = min(due, known.due)
	}
	//arch:order-free the least of them
	for _, known := range w.under {
		due = min(due, known.due)
	}
	//arch:order-free the least of them
	for _, e := range s.tail.entities {
		if e.ticket > s.group.acked || !e.loaded {
			due = min(due, e.acked.due())
		}
		if e.saving == 0 && e.entered != 0 {
			due = min(due, e.entered)
		}
	}
	for _, saved := range ed.of {
		due = min(due, saved.record.due)
	}
	return due
}

// recover takes the earliest due time from the shard's table. Entities in the log follow: see
// recovered.
func (w *wakes) recover(t *wire.DurableTable) {
	switch due := t.GetDue(); due {
	case 0:
	case never:
		w.next = kindAfterWake
	default:
		w.next = wakeKey(due, "")
	}
}

// recovered takes the due times of the entities in the log.
func (w *wakes) recovered(t *tail) {
	//arch:order-free the least of them
	for _, e := range t.entities {
		if due := e.last.due(); due != never {
			w.next = min(w.next, wakeKey(due, e.id))
		}
	}
}

// loaded schedules a look at an entity whose record was just read, if the entity has reminders and
// no look is scheduled. Usually the catalog already has the entity's key. The catalog lacks the key
// if the store has lost both the head of the checkpoint that wrote the record and the commits
// before that head.
func (w *wakes) loaded(e *entity) {
	if due := e.last.due(); due != never && w.of[e.id] == nil && w.under[e.id] == nil {
		w.expect(e, 0)
	}
}

// reminded schedules the next look at e after its reminders have changed.
func (s *Shard) reminded(e *entity) {
	if e.entered != e.last.due() {
		s.catalog.note(e)
	}
	w := &s.wakes
	if under := w.under[e.id]; under != nil {
		under.changed = true
		return // Looked does it
	}
	leaf := int64(0)
	if known := w.of[e.id]; known != nil {
		leaf = known.leaf
	}
	w.expect(e, leaf)
}

// Due returns the entities with reminders due at clock, a Unix time in milliseconds. It has nothing
// new to return before DueAt. At most MaxLooks entities wait for [Shard.Looked] at a time. None is
// returned while more than MaxLooks-LooksTogether wait, or while the shard has at least half the
// load at which it refuses calls. clock may go back.
func (s *Shard) Due(now time.Time, clock int64) (ids []string) {
	s.desk.now = now
	w := &s.wakes
	if clock < w.clock { // the clock was set back, so delayed looks would be too late
		for _, known := range w.heap {
			known.at = known.due
		}
		w.delayed = 0
		heap.Init(&w.heap)
	}
	w.clock = clock
	s.readWakes(clock)
	for may := s.mayFire(); may && len(w.under) < MaxLooks && len(w.heap) > 0 && w.heap[0].at <= clock; {
		next := heap.Pop(&w.heap).(*wake)
		w.count(next, -1)
		delete(w.of, next.id)
		w.under[next.id] = next
		ids = append(ids, next.id)
	}
	s.next()
	return ids
}

func (s *Shard) mayFire() bool {
	l := &s.limits
	return s.state == Open && len(s.wakes.under) <= MaxLooks-LooksTogether &&
		2*(s.tail.bytes+s.group.bytes) < refuseAt*l.TailBytes && 2*(s.tail.commits+len(s.group.pending)) < refuseAt*l.TailCommits
}

// DueAt returns the Unix time in milliseconds at which Due is to be called next.
// math.MaxInt64 means that another method of the shard must be called first.
func (s *Shard) DueAt() int64 {
	w, at := &s.wakes, int64(never)
	if !s.mayFire() {
		return never
	}
	if len(w.heap) > 0 {
		at = w.heap[0].at
	}
	if w.few() && !w.scans && s.catalog.whole && strings.HasPrefix(w.next, kindWake) {
		next := int64(0)
		if w.next != kindWake {
			next, _ = wakeOf(w.next)
		}
		at = min(at, next-aheadOf)
	}
	return at
}

// Looked ends a look at an entity that [Shard.Due] has returned, after the entity's turn. again is
// the earliest time of the next look, in Unix milliseconds, unless the reminders have changed
// meanwhile.
func (s *Shard) Looked(now time.Time, id string, again int64) {
	s.desk.now = now
	w := &s.wakes
	was := w.under[id]
	delete(w.under, id)
	if was == nil || s.state != Open {
		return
	}
	e := s.tail.entities[id]
	if e == nil || !e.loaded {
		w.put(id, was.due, was.leaf)
		w.delay(id, again)
		return
	}
	w.expect(e, was.leaf)
	if due := e.last.due(); due < again && !was.changed { // if the reminders have changed, again may be too late
		w.remove(id)
		w.put(id, due, 0)
		w.delay(id, again)
	}
}

// Reminders returns the reminders of an active entity, which are not to be changed.
func (s *Shard) Reminders(id string) *wire.DurableReminders {
	if e := s.tail.entities[id]; e != nil && e.loaded && !e.last.gone(s.desk.now) {
		return e.last.reminders()
	}
	return nil
}

// Version returns the version of an active entity; 0 means that it has never committed.
func (s *Shard) Version(id string) uint64 {
	if e := s.tail.entities[id]; e != nil {
		return e.last.number
	}
	return 0
}

// readWakes reads the keys of entities that are due soon from the catalog.
func (s *Shard) readWakes(clock int64) {
	w := &s.wakes
	if w.scans || !s.catalog.whole || s.state != Open || !w.few() {
		return
	}
	w.horizon = max(wakeKey(max(clock, 0)+aheadOf, ""), w.read)
	if w.next >= w.horizon {
		w.read = w.horizon
		return
	}
	w.scans, w.next = true, kindAfterWake
	s.catalog.scan(s, &scan{wakes: true, of: Dues, prefix: kindWake, from: w.read, limit: wakesRead})
}

// found schedules looks by the next keys of the catalog. more reports whether there may be more
// keys behind them.
func (w *wakes) found(keys []string, more bool, c *catalog) {
	w.scans = false
	for _, key := range keys {
		if key >= w.horizon {
			w.read, w.next = w.horizon, min(w.next, key)
			return
		}
		at, id := wakeOf(key)
		leaf := at
		if c.changed[id] != nil {
			leaf = 0
		}
		w.put(id, at, leaf)
	}
	if more {
		w.read = keys[len(keys)-1] + "\x00"
		w.next = w.read
		return
	}
	w.read = w.horizon
}

// unread ends a scan that the catalog could not answer.
func (w *wakes) unread() { w.scans, w.next = false, w.read }

func (w *wakes) check(c *catalog, t *tail, open bool) error {
	if len(w.of) != len(w.heap) {
		return fmt.Errorf("invariant 4 of the wakes: %d wakes are known by entity, but the heap has %d", len(w.of), len(w.heap))
	}
	delayed := 0
	for _, known := range w.heap {
		if known.at > known.due {
			delayed++
		}
		if w.of[known.id] != known || w.under[known.id] != nil {
			return fmt.Errorf("invariant 4 of the wakes: entity %q is in the heap, but the map of has another wake for it, or the map under has one too", known.id)
		}
	}
	if delayed != w.delayed {
		return fmt.Errorf("invariant 4 of the wakes: delayed is %d, but %d wakes in the heap are delayed", w.delayed, delayed)
	}
	if !open || !c.whole {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(t.entities)) {
		e := t.entities[id]
		if !e.loaded {
			continue
		}
		due := e.last.due()
		if c.changed[id] == nil && e.entered != due {
			return fmt.Errorf("invariant 1 of the wakes: entity %q is due at %d, but its time in the leaves is %d", id, due, e.entered)
		}
		if due == never || w.of[id] != nil || w.under[id] != nil {
			continue
		}
		if key := wakeKey(due, id); key < w.read {
			return fmt.Errorf("invariant 2 of the wakes: entity %q, due at %d, is missing in the maps of and under", id, due)
		} else if key < w.next && !w.scans {
			return fmt.Errorf("invariant 3 of the wakes: entity %q, due at %d, is not read in time", id, due)
		}
	}
	return nil
}
