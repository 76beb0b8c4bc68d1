package durable

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

type name struct {
	number uint64
	path   Path
}

func (n name) compare(o name) int {
	if n.number != o.number {
		return order(n.number, o.number)
	}
	return order(string(n.path), string(o.path))
}

// ids has the kept commands of one source. Most have no path.
type ids struct {
	plain  window
	nested map[name]*applied
}

// get returns the command with a name, or nil. The pointer is valid until a command is put or
// removed.
func (i *ids) get(n name) *applied {
	if n.path == "" {
		return i.plain.get(n.number)
	}
	return i.nested[n]
}

// put adds a command, and returns a pointer to it like get.
func (i *ids) put(n name, a applied) *applied {
	if n.path == "" {
		return i.plain.put(n.number, a)
	}
	if i.nested == nil {
		i.nested = map[name]*applied{}
	}
	kept := a // not a itself, which would be allocated in any case
	i.nested[n] = &kept
	return &kept
}

func (i *ids) remove(n name) {
	if n.path == "" {
		i.plain.remove(n.number)
	} else {
		delete(i.nested, n)
	}
}

func (i *ids) removeIf(f finished, removed func(name, *applied)) (low uint64) {
	i.plain.removeIf(f, removed)
	low = math.MaxUint64
	if left := i.plain.commands(); len(left) > 0 {
		low = left[0].number
	}
	//arch:order-free each id is judged by itself
	for n, a := range i.nested {
		if f.has(n.number) {
			removed(n, a)
			delete(i.nested, n)
		} else {
			low = min(low, n.number)
		}
	}
	return low
}

func (i *ids) empty() bool { return len(i.plain.commands())+len(i.nested) == 0 }

// all yields the commands in any order. The pointers are valid until a command is put or removed.
func (i *ids) all() iter.Seq2[name, *applied] {
	return func(yield func(name, *applied) bool) {
		plain := i.plain.commands()
		for at := range plain {
			if !yield(name{number: plain[at].number}, &plain[at].applied) {
				return
			}
		}
		//arch:order-free as all says
		for n, a := range i.nested {
			if !yield(n, a) {
				return
			}
		}
	}
}

func (i *ids) sorted() []name {
	var names []name
	//arch:order-free they are sorted
	for n := range i.all() {
		names = append(names, n)
	}
	slices.SortFunc(names, name.compare)
	return names
}

type applied struct {
	hash    uint64
	running bool
	answer  []byte
	ticket  Ticket // of its commit
}

type known struct {
	finished finished
	low      uint64              // no lower number is kept
	wire     *wire.DurableSource // the source in commits; nil until one has it
	encoded  []byte              // wire as a field of a command
	ids      ids
	key      string    // the key, if the source stands for one and its command was applied; else ""
	heard    time.Time // when the source's last command came, or the shard was opened
}

// table has the commands that a shard has applied or is applying.
//
// Invariants:
//  1. No id is kept if its source has finished the id's number.
//  2. count and bytes are the sums over all sources.
//  3. No id below its source's low is kept.
//  4. A source's ids without a path ascend, each once.
//  5. Old keys are indexed by their names.
//  6. keys counts the sources that stand for idempotency keys.
type table struct {
	sources map[Source]*known
	recent  struct { // the source that was looked up last, which often sends the next command too
		source Source
		known  *known // nil: none
	}
	decoded stuckNumbers // of the last command
	count   int
	bytes   int // of answers and paths
	// keyed are the sources that stand for keys, in the order of their arrival. Some may be
	// forgotten sources.
	keyed []keyed
	keys  int     // the number of sources that stand for keys
	old   oldKeys // keys that were removed from sources to make room
}

// keyed is a source that stands for an idempotency key.
type keyed struct {
	source Source
	known  *known
}

func (k *known) name(s *Source) {
	k.wire = s.wire()
	k.encoded = appendSource(nil, sourceField, k.wire)
}

// describe sets all fields of w from command c, except the answer. It returns the encoded source.
func (k *known) describe(w *wire.DurableCommand, c *Command) (source []byte) {
	if k.wire == nil {
		k.name(&c.Source)
	}
	w.Source, w.Number, w.Floor, w.Path, w.Hash = k.wire, c.Number, c.Floor, []byte(c.Path), c.Hash
	if c.Key != "" {
		w.Key = []byte(c.Key)
	}
	return k.encoded
}

func (t *table) find(s *Source) *known {
	if t.recent.known != nil && t.recent.source == *s {
		return t.recent.known
	}
	k := t.sources[*s]
	if k != nil {
		t.recent.source, t.recent.known = *s, k
	}
	return k
}

func (t *table) source(s *Source, now time.Time) *known {
	k := t.find(s)
	if k == nil {
		k = &known{heard: now}
		t.sources[*s] = k
		if s.keyed() {
			t.keyed = append(t.keyed, keyed{*s, k})
			t.keys++
		}
	}
	return k
}

// raise records numbers that no caller waits for, and forgets their commands, even running ones.
func (t *table) raise(k *known, f finished) {
	all, more := k.finished.join(f)
	if !more {
		return
	}
	k.finished = all
	if all.below <= k.low {
		return
	}
	k.low = k.ids.removeIf(all, t.dropped)
}

func (t *table) drop(k *known, n name) {
	if a := k.ids.get(n); a != nil {
		t.dropped(n, a)
		k.ids.remove(n)
	}
}

func (t *table) dropped(n name, a *applied) {
	t.count--
	t.bytes -= len(a.answer) + len(n.path)
}

func (k *known) admit(c *Command) Admission {
	if k.finished.has(c.Number) {
		return Admission{Verdict: BelowFloor}
	}
	a := k.ids.get(name{c.Number, c.Path})
	switch {
	case a == nil:
		return Admission{Verdict: Run}
	case a.hash != c.Hash:
		return Admission{Verdict: Mismatch}
	case a.running:
		return Admission{Verdict: Running}
	}
	return Admission{Verdict: Replay, Answer: a.answer, Ticket: a.ticket}
}

func (t *table) begin(k *known, c *Command) {
	k.ids.put(name{c.Number, c.Path}, applied{hash: c.Hash, running: true})
	k.low = min(k.low, c.Number)
	t.count++
	t.bytes += len(c.Path)
}

// end records the command's answer, unless no caller waits for the command any more (see finished).
func (t *table) end(k *known, c *wire.DurableCommand, ticket Ticket) {
	n := name{c.GetNumber(), Path(c.GetPath())}
	if k.finished.has(n.number) {
		return
	}
	a := k.ids.get(n)
	if a == nil {
		a = k.ids.put(n, applied{})
		k.low = min(k.low, n.number)
		t.count++
		t.bytes += len(n.path)
	}
	t.bytes += len(c.GetAnswer()) - len(a.answer)
	*a = applied{hash: c.GetHash(), answer: c.GetAnswer(), ticket: ticket}
	if len(c.GetKey()) > 0 {
		k.key = string(c.GetKey())
	}
}

// forget removes each source that was silent too long and of which no command runs. It removes a
// process or key not heard from since the time process, and a tell's turn not heard from since the
// time nested. It keeps logs, which may send again at any time. It also removes old keys not sent
// since process.
func (t *table) forget(process, nested time.Time) {
	//arch:order-free each source is judged by itself
	for s, k := range t.sources {
		if !s.silent(k.heard, process, nested) || k.runs() {
			continue
		}
		t.remove(s, k)
	}
	t.keyed = slices.DeleteFunc(t.keyed, func(k keyed) bool { return t.sources[k.source] != k.known })
	t.old.forget(process)
}

func (t *table) remove(s Source, k *known) {
	//arch:order-free all of them go
	for n, a := range k.ids.all() {
		t.dropped(n, a)
	}
	if s.keyed() {
		t.keys--
	}
	delete(t.sources, s)
	t.recent.known = nil
}

// makeRoom drops the answers of commands with idempotency keys, oldest first, until the table is
// below its limits. It keeps the answers of commands that are still running or not acknowledged.
func (t *table) makeRoom(l *Limits, acked Ticket) {
	for range len(t.keyed) {
		if !t.full(l) {
			return
		}
		k := t.keyed[0]
		t.keyed = t.keyed[1:]
		switch {
		case t.sources[k.source] != k.known:
		case !t.retire(k, acked):
			t.keyed = append(t.keyed, k)
		}
	}
}

// retire turns k's key into an old key. It returns false if the key's command runs or is
// unacknowledged, or if an earlier program wrote the table without the key's name.
func (t *table) retire(k keyed, acked Ticket) bool {
	hash := uint64(0)
	//arch:order-free a key has one command, beside those nested in its turn, which have keys of their own
	for _, a := range k.known.ids.all() {
		if a.running || a.ticket > acked {
			return false
		}
		hash = a.hash
	}
	if k.known.ids.empty() {
		t.remove(k.source, k.known)
		return true
	}
	if k.known.key == "" { // an earlier program wrote the table
		return false
	}
	t.old.put(oldKey{k.known.key, hash, k.known.heard})
	t.remove(k.source, k.known)
	return true
}

func (t *table) full(l *Limits) bool {
	return t.count+len(t.sources) >= l.Commands || t.bytes >= l.CommandBytes
}

func (k *known) runs() bool {
	//arch:order-free whether there is one
	for _, a := range k.ids.all() {
		if a.running {
			return true
		}
	}
	return false
}

func (t *table) recover(part *wire.DurableTable, now time.Time) error {
	for _, w := range part.GetSources() {
		k := t.source(new(sourceOf(w.GetSource())), now)
		t.raise(k, finished{below: w.GetFloor()})
		if past := w.GetPast(); past > w.GetFloor() {
			t.raise(k, finished{below: past, stuck: w.GetStuck()})
		}
		for _, c := range w.GetCommands() {
			t.end(k, c, 0)
		}
	}
	for _, w := range part.GetKeys() {
		if err := t.old.recover(w, now); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) replay(c *wire.DurableCommand, ticket Ticket, now time.Time) {
	k := t.source(new(sourceOf(c.GetSource())), now)
	t.raise(k, finished{below: c.GetFloor()})
	t.end(k, c, ticket)
}

// parts encodes the table as of ticket acked, one floor or applied command in each message.
func (t *table) parts(acked Ticket) (all []*wire.DurableKnown) {
	for _, s := range slices.SortedFunc(maps.Keys(t.sources), Source.compare) {
		k := t.sources[s]
		w := &wire.DurableKnown{Source: s.wire(), Floor: k.finished.floor()}
		if len(k.finished.stuck) > 0 {
			w.Past, w.Stuck = k.finished.below, k.finished.stuck
		}
		all = append(all, w)
		for _, n := range k.ids.sorted() {
			if a := k.ids.get(n); !a.running && a.ticket <= acked {
				all = append(all, &wire.DurableKnown{Source: s.wire(), Commands: []*wire.DurableCommand{
					{Number: n.number, Path: []byte(n.path), Hash: a.hash, Answer: a.answer, Key: []byte(k.key)},
				}})
			}
		}
	}
	return all
}

func (t *table) check() error {
	count, bytes := 0, 0
	for _, s := range slices.SortedFunc(maps.Keys(t.sources), Source.compare) {
		k := t.sources[s]
		if err := k.ids.plain.check(); err != nil {
			return fmt.Errorf("invariant 4 of the table: %v: %w", s, err)
		}
		for _, n := range k.ids.sorted() {
			count, bytes = count+1, bytes+len(n.path)+len(k.ids.get(n).answer)
			if n.number < k.low {
				return fmt.Errorf("invariant 3 of the table: number %d of source %v is kept, but low is %d", n.number, s, k.low)
			}
			if k.finished.has(n.number) {
				return fmt.Errorf("invariant 1 of the table: number %d of source %v is kept, but all below %d except %d are finished", n.number, s, k.finished.below, k.finished.stuck)
			}
		}
	}
	keys := 0
	//arch:order-free they are counted
	for s := range t.sources {
		if s.keyed() {
			keys++
		}
	}
	if keys != t.keys {
		return fmt.Errorf("invariant 6 of the table: keys is %d, but %d sources stand for keys", t.keys, keys)
	}
	if err := t.old.check(); err != nil {
		return err
	}
	if count != t.count || bytes != t.bytes {
		return fmt.Errorf("invariant 2 of the table: count and bytes are %d and %d, but the ids are %d with %d bytes", t.count, t.bytes, count, bytes)
	}
	return nil
}

// tableKeys returns different keys for consecutive generations, because the older table stays
// valid until the head names the newer one.
func tableKeys(generation uint64, parts uint32) []string {
	keys := make([]string, parts)
	for i := range keys {
		keys[i] = fmt.Sprintf("t%d/%d", generation%2, i)
	}
	return keys
}

// window has a source's commands ordered by number. Numbers arrive nearly in order, and leave from
// the low end. The time of a lookup is logarithmic in how many commands have higher numbers. No
// memory is allocated for a single command.
type window struct {
	all  []numbered // the commands from head on; those before are zero, and reused when all is full
	head int
}

type numbered struct {
	number uint64
	applied
}

// keptWindow is the capacity up to which an empty window keeps its memory.
const keptWindow = 256

func (w *window) commands() []numbered { return w.all[w.head:] }

// find returns the index of a number, or where it belongs. It tests the commands 1, 3, 7, …
// from the end, and then searches between the last two.
func (w *window) find(number uint64) (at int, there bool) {
	low, high := w.head, len(w.all) // the result is one of these, or between them
	for step := 1; high-step >= w.head; step *= 2 {
		if w.all[high-step].number < number {
			low = high - step + 1
			break
		}
		high -= step
	}
	for low < high {
		if middle := int(uint(low+high) / 2); w.all[middle].number < number {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, low < len(w.all) && w.all[low].number == number
}

// get returns the command with a number, or nil. The pointer is valid until the window changes.
func (w *window) get(number uint64) *applied {
	if at, there := w.find(number); there {
		return &w.all[at].applied
	}
	return nil
}

// put adds a command, and returns a pointer to it. The pointer is valid until the window changes.
func (w *window) put(number uint64, a applied) *applied {
	at, there := w.find(number)
	if !there {
		at -= w.makeRoom()
		w.all = append(w.all, numbered{})
		copy(w.all[at+1:], w.all[at:])
	}
	w.all[at] = numbered{number, a}
	return &w.all[at].applied
}

// makeRoom moves the commands to the beginning of the memory if the memory is full, and returns by
// how many places. At least half of the memory must be free at the beginning, which bounds the
// moves; otherwise makeRoom moves nothing.
func (w *window) makeRoom() (moved int) {
	if len(w.all) < cap(w.all) || w.head < len(w.all)-w.head {
		return 0
	}
	moved = w.head
	left := copy(w.all, w.all[w.head:])
	clear(w.all[left:])
	w.all, w.head = w.all[:left], 0
	return moved
}

func (w *window) remove(number uint64) {
	at, there := w.find(number)
	if !there {
		return
	}
	if at == w.head {
		w.cut(at + 1)
		return
	}
	w.all = slices.Delete(w.all, at, at+1)
}

func (w *window) removeIf(f finished, removed func(name, *applied)) {
	end := w.head
	for end < len(w.all) && w.all[end].number < f.below {
		end++
	}
	head := end
	for at := end - 1; at >= w.head; at-- {
		if c := &w.all[at]; f.has(c.number) {
			removed(name{number: c.number}, &c.applied)
		} else { // the command is stuck, as few are
			head--
			w.all[head] = *c
		}
	}
	w.cut(head)
}

func (w *window) cut(head int) {
	clear(w.all[w.head:head]) // of answers, too
	w.head = head
	switch {
	case head < len(w.all):
	case cap(w.all) > keptWindow:
		*w = window{}
	default:
		w.all, w.head = w.all[:0], 0
	}
}

func (w *window) check() error {
	for i, c := range w.all {
		switch {
		case i < w.head && (c.number != 0 || c.answer != nil):
			return fmt.Errorf("the command before the head of a window is not zero: number %d", c.number)
		case i > w.head && c.number <= w.all[i-1].number:
			return fmt.Errorf("number %d follows number %d in a window", c.number, w.all[i-1].number)
		}
	}
	if w.head > 0 && w.head >= len(w.all) {
		return fmt.Errorf("the head of a window is %d, but it has %d commands", w.head, len(w.all))
	}
	return nil
}
