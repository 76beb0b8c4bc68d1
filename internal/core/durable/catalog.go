package durable

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

const (
	leafRoom   = 4  // bytes that a key takes in a leaf beyond its own
	leavesRead = 32 // in one request
)

// catalog lists the ids of a shard's entities in order. The list is divided among records called
// leaves. The shard's table has the directory of the leaves, so leaves change only together with
// the head. Ids that were added or removed since the last checkpoint are in memory, and the commits
// that added or removed them are in the log.
//
// Invariants:
//  1. The first leaf begins with the empty key, and the firsts of leaves ascend.
//  2. A number is used by one leaf, or is free.
//  3. This holds if whole is set, for each loaded entity that is not in changed and cannot expire: the leaves have
//     the entity's id if and only if the entity has state.
//  4. The entities in changed and moved are also in the shard's tail.
type catalog struct {
	limit int  // of a leaf, in bytes
	whole bool // the leaves have the ids and due times of all records
	// indexed: the leaves also have the keys of all entities in the type's indexes, and no keys of
	// former indexes.
	indexed bool
	leaves  []leaf
	free    []leaf // numbers that may be used again, each with the slot that was used last
	// changed has the entities of the tail whose ids or due times may be missing or outdated in the
	// leaves.
	changed map[string]*entity
	// moved has the index keys that may be wrong in the leaves, by the id of an entity in the tail.
	moved map[string]*moved
	walk  walk

	scans map[uint64]*scan // by the number of their request
	pause []*scan          // scans whose request is to be repeated later
	last  uint64           // the number of the last scan
	read  leafCache
	news  newKeys
}

type leaf struct {
	number     uint64
	slot       uint32
	generation uint64
	first      string
	bytes      int
}

func (l leaf) key() string { return fmt.Sprintf("x%d/%d", l.number, l.slot) }

// IsLeaf reports whether a record with this key is a leaf of the catalog.
func IsLeaf(key string) bool { return strings.HasPrefix(key, "x") }

// listing says whether the catalog's leaves have an entity's id.
type listing uint8

const (
	unsure listing = iota
	listed
	unlisted
)

func listedIf(there bool) listing {
	if there {
		return listed
	}
	return unlisted
}

// The first byte of a catalog key is its kind. The rest of a key of kindID is an entity's id. The
// rest of a key of kindWake is the time at which an entity is due, in eight bytes, and the entity's
// id. The rest of a key of kindIndex is a key of an index, and the id.
const (
	kindID        = "\x00"
	kindWake      = "\x01"
	kindAfterWake = "\x02"
	kindIndex     = "\x02"
)

func idKey(id string) string { return kindID + id }

// ownerOf returns the id of the entity to which a catalog key belongs.
func ownerOf(key string) string {
	if strings.HasPrefix(key, kindWake) {
		_, id := wakeOf(key)
		return id
	}
	if strings.HasPrefix(key, kindIndex) {
		return ownerOfIndexKey(key)
	}
	return key[min(len(key), 1):]
}

func newCatalog(limit int) catalog {
	return catalog{limit: limit, changed: map[string]*entity{}, moved: map[string]*moved{}, scans: map[uint64]*scan{}}
}

// note records that the leaves may be wrong about e.
func (c *catalog) note(e *entity) { c.changed[e.id] = e }

// forget removes e from changed and moved when e leaves the tail, because e's record has all of e's
// acknowledged commits.
func (c *catalog) forget(e *entity) {
	delete(c.changed, e.id)
	delete(c.moved, e.id)
}

// at returns the index of the leaf to which a key belongs, or -1 if there are no leaves.
func (c *catalog) at(key string) int {
	i, there := slices.BinarySearchFunc(c.leaves, key, func(l leaf, key string) int { return strings.Compare(l.first, key) })
	if !there {
		i--
	}
	return i
}

func (c *catalog) recover(t *wire.DurableTable, fields string) {
	c.whole = c.whole || t.GetCatalog()
	c.indexed = c.indexed || t.GetPart() == 0 && t.GetIndexes() == fields
	for _, w := range t.GetLeaves() {
		l := leaf{w.GetLeaf(), w.GetSlot(), w.GetGeneration(), string(w.GetFirst()), int(w.GetBytes())}
		if w.GetFree() {
			c.free = append(c.free, l)
		} else {
			c.leaves = append(c.leaves, l)
		}
	}
}

// recovered records, after a claim has read the log, that the leaves may be wrong about the
// entities of tail t.
func (c *catalog) recovered(t *tail) {
	//arch:order-free each by itself
	for _, e := range t.entities {
		c.note(e)
	}
}

// edit is what a checkpoint changes in the catalog's leaves.
type edit struct {
	there   map[string]bool   // whether the leaves have a key afterwards
	of      []savedEntity     // entities that the checkpoint writes
	after   map[string]record // for a rebuild: all entities, by id
	stale   []string          // keys to be removed, because their entities are not due at that time
	rebuild bool              // all leaves are written again
	none    bool              // the leaves are not written, because the catalog lacks keys
	reads   []int             // indexes of the leaves that are read first
	keys    map[int][]string
	leaves  []leaf // after the checkpoint
	free    []leaf
	written map[leaf][][]byte // keys of the leaves that are written
}

// A record says what the leaves list for one entity.
type record struct {
	there bool  // the entity has state
	due   int64 // earliest due time of its reminders; never if it has none
	index []byte
}

// A savedEntity is an entity whose record the checkpoint writes.
type savedEntity struct {
	*entity
	record
}

// begin begins an edit of the leaves that updates the entities in saved and removes the keys in
// stale. all is set if saved has every entity whose acknowledged commits are only in the log.
func (c *catalog) begin(saved []savedEntity, all bool, stale []string) *edit {
	ed := &edit{there: map[string]bool{}, keys: map[int][]string{}, of: saved, stale: stale}
	ed.rebuild = c.walk.done && all
	ed.none = !c.whole && !ed.rebuild
	if ed.none {
		return ed
	}
	if ed.rebuild {
		ed.after = c.walk.found
		for _, e := range saved {
			ed.after[e.id] = e.record
		}
		//arch:order-free each by itself
		for id, r := range ed.after {
			ed.there[idKey(id)] = r.there
			if r.due != never {
				ed.there[wakeKey(r.due, id)] = true
			}
			for key := range eachKey(r.index) {
				ed.there[indexKey(key, id)] = true
			}
		}
		return ed
	}
	for _, key := range stale {
		ed.there[key] = false
	}
	for _, e := range saved {
		c.indexChanges(ed, e)
		if e.listing != listedIf(e.there) {
			ed.there[idKey(e.id)] = e.there
		}
		if e.entered == e.due {
			continue
		}
		if e.entered != 0 && e.entered != never {
			ed.there[wakeKey(e.entered, e.id)] = false
		}
		if e.due != never {
			ed.there[wakeKey(e.due, e.id)] = true
		}
	}
	touched := map[int]bool{}
	//arch:order-free each by itself
	for key := range ed.there {
		i := c.at(key)
		if i < 0 {
			break // there are no leaves
		}
		touched[i] = true
		for _, n := range []int{i - 1, i + 1} {
			if n >= 0 && n < len(c.leaves) && (min(c.leaves[n].bytes, c.leaves[i].bytes) < c.limit/4) {
				touched[n] = true
			}
		}
	}
	ed.reads = slices.Sorted(maps.Keys(touched))
	return ed
}

func (ed *edit) reading() bool { return len(ed.keys) < len(ed.reads) }

// next returns the keys of the leaves that are to be read next.
func (ed *edit) next(c *catalog) (keys []string) {
	for _, i := range ed.reads[len(ed.keys):min(len(ed.keys)+leavesRead, len(ed.reads))] {
		keys = append(keys, c.leaves[i].key())
	}
	return keys
}

// took takes the records that were read under the keys from next. It returns false if a record is
// not the leaf that the catalog's directory names.
func (ed *edit) took(c *catalog, records []store.Record) bool {
	for _, r := range records {
		i := ed.reads[len(ed.keys)]
		keys, ok := readLeaf(c.leaves[i], r)
		if !ok {
			return false
		}
		ed.keys[i] = make([]string, 0, len(keys))
		for _, k := range keys {
			ed.keys[i] = append(ed.keys[i], string(k))
		}
	}
	return true
}

func readLeaf(l leaf, r store.Record) (keys [][]byte, ok bool) {
	w := &wire.DurableLeaf{}
	if r.Revision == store.None || unseal(r.Value, w) != nil || w.GetLeaf() != l.number || w.GetGeneration() != l.generation {
		return nil, false
	}
	return w.GetKeys(), true
}

// apply makes the new leaves, and returns the changes that write them.
func (ed *edit) apply(c *catalog, generation uint64) (changes []store.Change) {
	keys := slices.Sorted(maps.Keys(ed.there))
	ed.free, ed.written = slices.Clone(c.free), map[leaf][][]byte{}
	var old []leaf
	if !ed.rebuild {
		old = c.leaves
	} else {
		ed.free = append(ed.free, c.leaves...)
	}
	next := uint64(1)
	for _, l := range slices.Concat(c.leaves, c.free) {
		next = max(next, l.number+1)
	}
	if len(old) == 0 {
		old, ed.reads, ed.keys = []leaf{{slot: noSlot}}, []int{0}, map[int][]string{0: nil}
	}
	for i := 0; i < len(old); i++ {
		if _, read := ed.keys[i]; !read {
			ed.leaves = append(ed.leaves, old[i])
			continue
		}
		run, parts := []leaf{old[i]}, [][]string{ed.keys[i]}
		for i+1 < len(old) && ed.keys[i+1] != nil {
			i++
			run, parts = append(run, old[i]), append(parts, ed.keys[i])
		}
		n := len(keys)
		if i+1 < len(old) {
			n, _ = slices.BinarySearch(keys, old[i+1].first)
		}
		merged, differs := ed.merge(slices.Concat(parts...), keys[:n])
		keys = keys[n:]
		if !differs && len(run) == 1 && run[0].slot != noSlot {
			ed.leaves = append(ed.leaves, run[0])
			continue
		}
		first := run[0].first
		for i, part := range cutLeaves(merged, c.limit) {
			if i > 0 {
				first = part[0]
			}
			l := leaf{number: next}
			switch {
			case len(run) > 0 && run[0].slot != noSlot:
				l, run = run[0], run[1:]
			case len(ed.free) > 0:
				l, ed.free = ed.free[len(ed.free)-1], ed.free[:len(ed.free)-1]
			default:
				next++
			}
			l.slot, l.generation, l.first, l.bytes = 1-l.slot, generation, first, sizeOf(part)
			keys := bytesOf(part)
			changes = append(changes, l.change(keys))
			ed.leaves, ed.written[l] = append(ed.leaves, l), keys
		}
		for _, l := range run {
			if l.slot != noSlot {
				ed.free = append(ed.free, l)
			}
		}
	}
	if len(ed.leaves) > 0 {
		ed.leaves[0].first = "" // the leaves before it are gone
	}
	return changes
}

const noSlot = 2

func bytesOf(keys []string) (all [][]byte) {
	for _, k := range keys {
		all = append(all, wire.BytesOf(k))
	}
	return all
}

func (l leaf) change(keys [][]byte) store.Change {
	w := &wire.DurableLeaf{Format: formatNow, Leaf: l.number, Generation: l.generation, Keys: keys}
	return store.Change{ID: l.key(), Value: seal(w)}
}

// merge returns keys with the changes applied, and whether the result differs from keys.
func (ed *edit) merge(keys, changes []string) (merged []string, differs bool) {
	merged = make([]string, 0, len(keys)+len(changes))
	for len(keys) > 0 || len(changes) > 0 {
		order := -1
		if len(keys) == 0 {
			order = 1
		} else if len(changes) > 0 {
			order = strings.Compare(keys[0], changes[0])
		}
		if order < 0 {
			merged, keys = append(merged, keys[0]), keys[1:]
			continue
		}
		if ed.there[changes[0]] {
			merged = append(merged, changes[0])
		}
		differs = differs || ed.there[changes[0]] != (order == 0)
		changes, keys = changes[1:], keys[1-order:]
	}
	return merged, differs
}

// cutLeaves divides keys into leaves of about the same size.
func cutLeaves(keys []string, limit int) (parts [][]string) {
	total := sizeOf(keys)
	each := total
	if part := max(limit*3/4, 1); total > limit {
		each = total / ((total + part - 1) / part)
	}
	from, bytes := 0, 0
	for i, k := range keys {
		bytes += len(k) + leafRoom
		if bytes >= each || i == len(keys)-1 {
			parts, from, bytes = append(parts, keys[from:i+1]), i+1, 0
		}
	}
	return parts
}

func sizeOf(keys []string) (bytes int) {
	for _, k := range keys {
		bytes += len(k) + leafRoom
	}
	return bytes
}

// parts encodes the directory of the leaves, one message for each leaf.
func (ed *edit) parts(c *catalog) (all []*wire.DurableLeafAt) {
	leaves, free := c.leaves, c.free
	if !ed.none {
		leaves, free = ed.leaves, ed.free
	}
	for i, l := range slices.Concat(leaves, free) {
		all = append(all, &wire.DurableLeafAt{
			Leaf: l.number, Slot: l.slot, Generation: l.generation, First: []byte(l.first), Bytes: uint32(l.bytes), Free: i >= len(leaves),
		})
	}
	return all
}

// written applies an edit to the catalog, after the head that names the edit's leaves was written.
// s.tail must still have all entities that the checkpoint saved.
func (c *catalog) written(s *Shard, ed *edit) {
	if c.walk.found != nil && !ed.rebuild {
		for _, e := range ed.of {
			c.walk.found[e.id] = e.record
		}
	}
	if ed.none {
		return
	}
	c.leaves, c.free = ed.leaves, ed.free
	c.read.renew(ed)
	if ed.rebuild {
		c.whole, c.indexed, c.walk, ed.of = true, true, walk{}, nil
		//arch:order-free each by itself
		for id, e := range s.tail.entities {
			r, ok := ed.after[id]
			if !ok {
				r.due = never
			}
			ed.of = append(ed.of, savedEntity{e, r})
		}
	}
	for _, key := range ed.stale {
		delete(s.wakes.stale, key)
	}
	for _, e := range ed.of {
		e.listing, e.entered = listedIf(e.there), e.record.due
		if s.config.Index != nil {
			c.indexWritten(s, e.entity, e.index)
		}
		delete(s.wakes.stale, wakeKey(e.entered, e.id)) // the key was found stale while the checkpoint wrote it
		if e.listing == listedIf(e.last.number > 0 && !e.last.ended) && e.entered == e.last.due() {
			delete(c.changed, e.id)
		} else {
			c.note(e.entity) // the entity was created or ended since, or has expired
		}
	}
}

// recorded returns what the catalog's leaves must list for e after the checkpoint under way has
// written e's record.
func (s *Shard) recorded(e *entity) record {
	if e.acked.number > 0 && !e.acked.ended {
		index, _ := s.ackedIndex(e)
		return record{true, e.acked.due(), index}
	}
	return record{false, never, nil}
}

func (c *catalog) check(t *tail, open bool) error {
	numbers := map[uint64]bool{}
	for i, l := range c.leaves {
		if (i == 0) != (l.first == "") || i > 0 && l.first <= c.leaves[i-1].first {
			return fmt.Errorf("invariant 1 of the catalog: leaf %d of %d begins with %q", i, len(c.leaves), l.first)
		}
	}
	for _, l := range slices.Concat(c.leaves, c.free) {
		if numbers[l.number] {
			return fmt.Errorf("invariant 2 of the catalog: leaf number %d is used twice", l.number)
		}
		numbers[l.number] = true
	}
	for _, id := range slices.Sorted(maps.Keys(t.entities)) {
		e := t.entities[id]
		if open && c.whole && e.loaded && c.changed[id] == nil && e.last.expires == 0 && e.listing != listedIf(e.last.number > 0 && !e.last.ended) {
			return fmt.Errorf("invariant 3 of the catalog: entity %q has version %d and ended %v, which contradicts its listing %d", id, e.last.number, e.last.ended, e.listing)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.changed)) {
		if c.changed[id] != t.entities[id] {
			return fmt.Errorf("invariant 4 of the catalog: entity %q has changed, but is not in the tail", id)
		}
	}
	return c.checkMoved(t)
}

// damaged marks the catalog as incomplete, because the store has lost a leaf. A walk then reads all
// records.
func (c *catalog) damaged() { c.whole = false }

// ErrIndexing is [Page.Err] while the catalog is not complete.
var ErrIndexing = errors.New("the shard is still building the list of its entities (try again later)")

// Lists reports whether the catalog is complete enough for [Shard.List] to answer queries of the
// given kind.
func (s *Shard) Lists(of ListKind) bool { return s.catalog.whole && (of != Keys || s.catalog.indexed) }

// walk reads all records if the catalog lacks keys. A lagging replica of the store may list only
// some records. Therefore the walk first writes a record of its own: when a list reaches that
// record, all earlier records were listed. A list may include deleted records, so the walk reads each listed
// record again under the present head.
type walk struct {
	line  line
	until store.Revision // of the walk's own record
	after store.Revision // of the last record that was listed
	ids   []string       // listed ids that are to be read
	ended bool           // all records were listed
	found map[string]record
	done  bool // found is complete
}

func (w *walk) next(s *Shard) {
	if !s.Lists(Keys) && w.found == nil {
		w.found = map[string]record{}
		w.line.ask(&s.desk, w.mark(s))
	}
}

// mark returns the request that writes the walk's own record: a leaf that is in no directory.
func (w *walk) mark(s *Shard) Request {
	return Request{Op: OpPut, Head: s.head.stored, Changes: []store.Change{leaf{}.change(nil)}}
}

func (w *walk) answered(s *Shard, r Response) {
	if !w.line.settled(&s.desk, r) {
		return
	}
	switch op := w.line.request.Op; {
	case op == OpPut && r.Outcome == OK:
		w.until = r.Revision
		w.more(s)
	case op == OpPut: // a checkpoint or another home has replaced the head
		w.line.ask(&s.desk, Request{Op: OpHead})
	case op == OpHead && r.Outcome == OK && s.ours(r.Head): // at once: heads may change faster than a pause ends
		w.line.ask(&s.desk, w.mark(s))
	case op == OpGet && r.Outcome == OK && s.ours(r.Head):
		w.read(s, r.Records)
		w.more(s)
	case op == OpList && r.Outcome == OK && len(r.Records) > 0:
		w.list(r.Records)
		w.more(s)
	case op == OpList && w.line.tries > 10: // the store has lost the walk's record
		w.line.ask(&s.desk, w.mark(s))
	case s.state != Dropped: // the replica lags
		w.line.again(&s.desk)
	}
}

// more requests the next records, or ends the walk if all were read.
func (w *walk) more(s *Shard) {
	n := min(len(w.ids), store.MaxGet)
	switch {
	case n > 0:
		r := Request{Op: OpGet, AtLeast: s.head.stored.Revision}
		for _, id := range w.ids[:n] {
			r.IDs = append(r.IDs, entityKey(id))
		}
		w.line.ask(&s.desk, r)
	case !w.ended:
		w.line.ask(&s.desk, Request{Op: OpList, After: w.after})
	default:
		w.line.close()
		w.done = true
		s.advance()
	}
}

func (w *walk) list(records []store.Record) {
	for _, r := range records {
		w.after = r.Revision
		w.ended = w.ended || r.Revision >= w.until // the walk's own record, or a later one if that is lost
		if id, ok := strings.CutPrefix(r.Key, entityKey("")); ok {
			w.ids = append(w.ids, id)
		}
	}
	slices.Sort(w.ids)
	w.ids = slices.Compact(w.ids)
}

func (w *walk) read(s *Shard, records []store.Record) {
	for i, r := range records {
		id := w.ids[i]
		if _, known := w.found[id]; !known { // else a checkpoint has written it since
			v, err := readRecord(id, r, s.config.Index.fields())
			index, _ := s.indexOf(id, &v, false)
			w.found[id] = record{err != nil || v.number > 0 && !v.ended, v.due(), index} // a damaged record counts as state
		}
	}
	w.ids = w.ids[len(records):]
}

// ListKind says what [Shard.List] lists.
type ListKind string

// The kinds of lists.
const (
	IDs  ListKind = kindID    // ids of entities that have state
	Dues ListKind = kindWake  // due times and ids of entities with reminders: see [wire.DueKey]
	Keys ListKind = kindIndex // keys of the index, each with the id of its entity
)

// A Query selects what [Shard.List] lists.
type Query struct {
	Of     ListKind
	Prefix string // what the ids or keys begin with
	After  string // only ids or keys above it; "" means all
	To     string // only ids or keys below it; "" means all
	Limit  int    // the most ids or keys; less than 1 means 1
}

// A Page is an ascending part of a shard's list. It shows the state after all commits up to Ticket.
type Page struct {
	List   uint64   // the number that [Shard.List] has returned
	IDs    []string // ids or keys, by [Query.Of]
	More   bool     // there may be more ids or keys behind these
	Ticket Ticket
	Err    error // ErrIndexing or ErrNotOpen
}

// pageBytes bounds the size of a page's ids.
const pageBytes = 256 << 10

type scan struct {
	list   uint64
	wakes  bool // the scan looks for due entities for Shard.wakes, not for a page
	of     ListKind
	prefix string
	from   string // the lowest key that the scan looks for
	to     string // the scan looks for keys below it; "" means for all
	limit  int
	line   line
	leaf   leaf // the one that is being read
}

// List begins to answer q. The Page follows in [Effects.Pages], with the returned number. A page
// may be shorter than q.Limit although there are more ids: see [Page.More].
func (s *Shard) List(now time.Time, q Query) uint64 {
	s.desk.now = now
	s.catalog.last++
	sc := &scan{list: s.catalog.last, of: q.Of, prefix: string(q.Of) + q.Prefix, limit: max(q.Limit, 1)}
	if sc.from = sc.prefix; q.After != "" {
		sc.from = max(sc.from, string(q.Of)+q.After+"\x00")
	}
	if q.To != "" {
		sc.to = string(q.Of) + q.To
	}
	s.catalog.scan(s, sc)
	return sc.list
}

// scan reads the next leaf for sc, or answers at once if no leaf must be read.
func (c *catalog) scan(s *Shard, sc *scan) {
	i := c.at(sc.from)
	switch {
	case sc.wakes && (s.state != Open || !c.whole):
		s.wakes.unread()
	case s.state != Open:
		s.out.Pages = append(s.out.Pages, Page{List: sc.list, Err: ErrNotOpen})
	case !s.Lists(sc.of):
		s.out.Pages = append(s.out.Pages, Page{List: sc.list, Err: ErrIndexing})
	case i < 0:
		c.page(s, sc, nil, "")
	case sc.of == Keys && c.read.has(c.leaves[i]) != nil:
		c.pageOf(s, sc, i, c.read.has(c.leaves[i]))
	default:
		sc.leaf = c.leaves[i]
		sc.line.request = Request{Op: OpGet, IDs: []string{sc.leaf.key()}, AtLeast: s.head.stored.Revision}
		sc.line.id = s.desk.send(sc.line.request)
		c.scans[sc.line.id] = sc
	}
}

func (c *catalog) done(s *Shard, r Response) bool {
	sc := c.scans[r.ID]
	if sc == nil {
		return false
	}
	delete(c.scans, r.ID)
	if r.Outcome != OK || !s.ours(r.Head) {
		if s.state != Dropped {
			sc.line.again(&s.desk)
			c.pause = append(c.pause, sc)
		}
		return true
	}
	keys, ok := readLeaf(sc.leaf, r.Records[0])
	i := c.at(sc.from)
	switch {
	case !c.whole: // another leaf was lost, and a checkpoint may have saved entities that the leaves lack
		c.scan(s, sc)
	case i < 0 || c.leaves[i].number != sc.leaf.number || c.leaves[i].generation != sc.leaf.generation: // a checkpoint has changed the leaves since
		c.scan(s, sc)
	case !ok:
		c.damaged()
		c.scan(s, sc)
	default:
		if sc.of == Keys {
			c.read.put(sc.leaf, keys)
		}
		c.pageOf(s, sc, i, keys)
	}
	return true
}

// pageOf calls page for the keys of the leaf with index i. The leaf's range ends where the next
// leaf begins.
func (c *catalog) pageOf(s *Shard, sc *scan, i int, keys [][]byte) {
	end := ""
	if i+1 < len(c.leaves) {
		end = c.leaves[i+1].first
	}
	c.page(s, sc, keys, end)
}

func (c *catalog) tick(s *Shard) {
	waits := c.pause
	c.pause = nil
	for _, sc := range waits {
		if s.desk.now.Before(sc.line.at) {
			c.pause = append(c.pause, sc)
		} else {
			c.scan(s, sc)
		}
	}
}

// page answers a scan by the keys of a leaf, merged with those of the changed entities. The leaf's
// range ends before end; "" means that the leaf is the last one.
func (c *catalog) page(s *Shard, sc *scan, keys [][]byte, end string) {
	from, _ := slices.BinarySearchFunc(keys, sc.from, compareKey)
	if keys = keys[from:]; len(keys) > sc.limit {
		keys, end = keys[:sc.limit], string(keys[sc.limit])
	}
	var found []string
	for _, k := range keys {
		key := string(k)
		if !sc.wants(key) {
			end = "" // keys behind this one are not wanted either
			break
		}
		if c.stands(s, sc, key) {
			found = append(found, key)
		}
	}
	for key := range c.newsFor(s, sc) {
		if key >= sc.from && (end == "" || key < end) && sc.wants(key) {
			found = append(found, key)
		}
	}
	slices.Sort(found)
	bytes, more := 0, false
	for i, key := range found {
		if bytes += len(key) - 1; i == sc.limit || i > 0 && bytes > pageBytes {
			found, more = found[:i], true
			break
		}
	}
	if !more && end > sc.prefix && !sc.wants(end) {
		end = "" // no key from end on is wanted
	}
	if end != "" && len(found) == 0 {
		sc.from = end
		c.scan(s, sc)
		return
	}
	if more = more || end != ""; sc.wakes {
		s.wakes.found(found, more, c)
		return
	}
	p := Page{List: sc.list, Ticket: s.group.last, More: more}
	for _, key := range found {
		p.IDs = append(p.IDs, key[len(kindID):])
	}
	s.out.Pages = append(s.out.Pages, p)
}

func (sc *scan) wants(key string) bool {
	return strings.HasPrefix(key, sc.prefix) && (sc.to == "" || key < sc.to)
}

// stands reports whether a leaf's key is still valid. If the key's entity has changed, newsFor
// yields the entity's present key.
func (c *catalog) stands(s *Shard, sc *scan, key string) bool {
	if sc.of == Keys {
		return c.indexStands(s, key)
	}
	e := c.changed[ownerOf(key)]
	return e == nil || !e.loaded
}

// newsFor yields the present keys of changed entities, which the leaves may lack, in any order.
func (c *catalog) newsFor(s *Shard, sc *scan) iter.Seq[string] {
	if sc.of == Keys {
		return c.eachMoved(s, sc)
	}
	return func(yield func(string) bool) {
		//arch:order-free they are sorted
		for _, e := range c.changed {
			if key := e.key(sc, s.desk.now); key != "" && !yield(key) {
				return
			}
		}
	}
}

// key returns the key of a changed entity that scan sc looks for, or "" if the entity has none.
func (e *entity) key(sc *scan, now time.Time) string {
	switch {
	case !e.loaded || e.last.number == 0 || e.last.gone(now):
	case sc.of == IDs:
		return idKey(e.id)
	case e.last.due() != never:
		return wakeKey(e.last.due(), e.id)
	}
	return ""
}

func compareKey(key []byte, with string) int { return strings.Compare(string(key), with) }
