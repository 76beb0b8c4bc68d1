package region

import (
	"sync/atomic"

	"github.com/shardgen/shardgen/runtime/codegen"
)

// An Entity is one entity of a shard: active with a Value, or passivated with its encoded State. If
// it has neither, the next call makes it fresh. While an entity is active, its State is nil, unless
// a newer program wrote the state that was loaded. Then State has the fields of the loaded state
// that this program does not know.
//
// ID and shard never change. Value, State and Why belong to the goroutine that holds the turn. word
// and cold are atomic (see Enter). The shard's lock guards next. An entity takes one cache line.
type Entity struct {
	ID    string
	word  atomic.Uint64 // flags, the number of tells, and the driver's coarse clock at the last use
	Value any
	shard *Shard
	next  *Entity                    // the next one in the shard's list of active entities; see actives
	cold  atomic.Pointer[entityCold] // nil while nothing is in it
}

// entityCold is the part of an entity that a turn begun without the lock does not need. The
// holder of the turn guards state, why and data; the shard's lock guards turn and mailbox. Both
// holders may add the part, by a compare-and-swap. Only Shard.trim removes it: under the lock,
// and only for the turn's holder or when no turn can be under way.
type entityCold struct {
	state   []byte
	why     codegen.Activation
	data    *EntityData // the data of the driver
	turn    *Call       // the call whose turn it is; nil when idle or when anonymous
	mailbox queue
}

// The flags in word.
const (
	busy    = 1 << iota // a turn is under way
	live                // it had a Value when its last turn ended
	wanted              // its next turn begins, or the one under way ends, under the lock
	orphan              // the shard was lost during this turn: its End does not change the shard
	told                // the turn is one of tells, which more may join
	flags   = 1<<8 - 1
	noteAt  = 8           // from this bit on: the number of unfinished tells in a turn of tells; in another turn, its note
	oneTell = 1 << noteAt // one tell
	usedAt  = 32          // by how much the time of the last use is shifted
)

// maxNote is the greatest note of a turn; higher ones become maxNote.
const maxNote = 1<<(usedAt-noteAt) - 1

// TellBytes is the maximum size of a tell's arguments, in bytes, for the tell to join a turn. Each
// waiting tell that has joined counts with this size against Limits.MailboxBytes.
const TellBytes = 1 << 10

// EntityData is the first field of the struct in which a driver keeps its data about an entity;
// Driver is a pointer to that struct. The entity thus refers to the data by one word, where an
// interface would take two.
type EntityData struct{ Driver any }

// SetData sets the driver's data about the entity; nil means none. Like Value, the data belongs to
// the goroutine that holds the turn.
func (e *Entity) SetData(k *EntityData) {
	if k != nil || e.cold.Load() != nil {
		e.more().data = k
	}
}

// Data returns the driver's data about the entity, or nil.
func (e *Entity) Data() any {
	if p := e.cold.Load(); p != nil && p.data != nil {
		return p.data.Driver
	}
	return nil
}

// State returns the encoded state of a passivated entity. For an active entity it returns only the
// fields of the state that this program does not know. nil means none; an empty state is not nil.
func (e *Entity) State() []byte {
	if p := e.cold.Load(); p != nil {
		return p.state
	}
	return nil
}

// Why returns the reason that the next activation passes to the entity. It counts only while the
// entity has a State; without a State the activation makes the entity fresh.
func (e *Entity) Why() codegen.Activation {
	if p := e.cold.Load(); p != nil {
		return p.why
	}
	return codegen.Fresh
}

// SetState sets State and Why. Like Value, both belong to the goroutine that holds the turn.
func (e *Entity) SetState(state []byte, why codegen.Activation) {
	if state != nil || e.cold.Load() != nil {
		p := e.more()
		p.state, p.why = state, why
	}
}

// Clear drops the value and the state, so the next activation makes the entity fresh.
func (e *Entity) Clear() {
	e.Value = nil
	e.SetState(nil, codegen.Fresh)
}

func (e *Entity) more() *entityCold {
	if p := e.cold.Load(); p != nil {
		return p
	}
	e.cold.CompareAndSwap(nil, new(entityCold)) // if this fails, another goroutine has added one
	return e.cold.Load()
}

func (e *Entity) mailbox() *queue {
	if p := e.cold.Load(); p != nil {
		return &p.mailbox
	}
	return nil
}

func newEntity(s *Shard, id string) *Entity { return &Entity{ID: id, shard: s} }

// Shard returns the entity's shard, even after the shard has left the process.
func (e *Entity) Shard() *Shard { return e.shard }

// Busy reports whether a turn is under way.
func (e *Entity) Busy() bool { return e.has(busy) }

// Lost reports whether the shard was lost during the present turn. The turn's changes are then
// dropped.
func (e *Entity) Lost() bool { return e.has(orphan) }

// Turn returns the call whose turn is under way, or nil. A turn begun by Begin, Take, Enter or Join
// has no call, and Detach separates a turn from its call.
func (e *Entity) Turn() *Call {
	if p := e.cold.Load(); p != nil {
		return p.turn
	}
	return nil
}

// Mailbox returns the number of waiting calls, including tells that have joined the present turn
// and do not run yet.
func (e *Entity) Mailbox() int { return e.mailbox().len() + waitingTells(e.word.Load()) }

// OfTells reports whether the present turn is a turn of tells, which more tells may join.
func (e *Entity) OfTells() bool { return e.has(told) }

// tells returns the number of tells in the present turn that are not over.
func tells(word uint64) int {
	if word&told == 0 {
		return 0
	}
	return int(uint32(word) / oneTell)
}

// waitingTells returns the number of tells in the present turn that wait for the running one.
func waitingTells(word uint64) int { return max(tells(word)-1, 0) }

func (e *Entity) has(flag uint64) bool { return e.word.Load()&flag != 0 }

func (e *Entity) change(f func(was uint64) uint64) (was uint64) {
	for {
		w := e.word.Load()
		was = w & flags
		if e.word.CompareAndSwap(w, w&^flags|f(was)) {
			return was
		}
	}
}

// take begins a turn that ends under the lock, if the entity is idle. Otherwise it makes the
// present turn end under the lock.
func (e *Entity) take(now uint32) bool {
	for {
		w := e.word.Load()
		if w&busy != 0 {
			if e.word.CompareAndSwap(w, w|wanted) {
				return false
			}
		} else if e.word.CompareAndSwap(w, uint64(now)<<usedAt|w&flags|busy|wanted) {
			return true
		}
	}
}

// takeIdle begins a turn that ends under the lock, if the entity is active, has no turn, and was
// last used before t.
func (e *Entity) takeIdle(t uint32) bool {
	w := e.word.Load()
	return w&(busy|live) == live && lastUsed(w) < t && e.word.CompareAndSwap(w, w|busy|wanted)
}

// want makes the present turn end, or the next one begin, under the lock. It reports whether a
// turn is under way.
func (e *Entity) want() bool {
	return e.change(func(was uint64) uint64 { return was | wanted })&busy != 0
}

// abandon marks an entity that leaves the index with its shard; a turn under way is the entity's
// last. abandon returns the entity's former flag: busy, live or 0.
func (e *Entity) abandon() uint64 {
	was := e.change(func(was uint64) uint64 {
		if was&busy == 0 {
			return 0
		}
		return was | orphan
	})
	if was&busy != 0 {
		return busy
	}
	return was & live
}

// rest ends a turn whose holder has the lock. With flag live, other goroutines may then begin
// turns without the lock.
func (e *Entity) rest(flag uint64, now uint32) { e.word.Store(uint64(now)<<usedAt | flag) }

func lastUsed(word uint64) uint32 { return uint32(word >> usedAt) }

// An Entry is the result of Enter, Join or Unjoin.
type Entry uint8

// Enter begins a turn of a local caller without the shard's lock, at the time now. During the turn,
// Note returns the given note. Enter refuses unless the entity is live and idle, the shard is open,
// no barrier is closed, and calls are direct. The entity may come from a Look, Begin or Deliver at
// any earlier time. Enter may be called at any time, from any goroutine.
//
// Only Enter, Join, Unjoin and Leave work without the lock. They change nothing but the entity's
// word. These properties make that safe:
//
//   - One turn at a time: each turn begins by a compare-and-swap of the word from not busy to busy.
//   - Turns begin here only while the shard is Open: only an Open shard has entities that are live
//     and not wanted. Closing the shard makes every entity wanted or not live, one by one, and
//     counts those that are busy then. A turn of an entity that began before that is counted, and
//     no turn begins after that. An entity that has left the index is not live, and never will be,
//     so callers may keep it.
//   - No turn begins behind a closed barrier, or when calls are not direct any more. Enter writes
//     the word and then reads barred; CloseBarrier and Direct write barred before they return. In
//     the one order of all atomic operations, either Enter sees that barred is set, or its turn
//     began before barred was set.
//   - No call is left waiting. Putting a call into a mailbox, counting a turn, or making an orphan
//     makes the busy entity wanted by a compare-and-swap. So the compare-and-swap that would end
//     the turn without the lock fails. The turn's End, under the lock, then finds the waiting
//     calls.
//   - The changes of a turn happen before the next turn, because both touch the word.
//   - The flag live shows under the lock whether the entity has a Value, which only the turn may
//     read. A turn that changes Value from or to nil ends under the lock.
func (e *Entity) Enter(now, note uint32) Entry {
	w := e.word.Load()
	next := uint64(now)<<usedAt | uint64(min(note, maxNote))<<noteAt | busy | live
	if w&flags != live || e.shard.barred.Load() || !e.word.CompareAndSwap(w, next) {
		return Refused
	}
	return e.entered(w, next)
}

func (e *Entity) entered(w, next uint64) Entry {
	if !e.shard.barred.Load() {
		return Entered
	}
	if e.word.CompareAndSwap(next, w) {
		return Refused
	}
	return Withdrawn
}

// SetNote sets the note of the present turn, and sets the time of the turn's beginning to now. In a
// turn of tells it does nothing. Only the goroutine that holds the turn may call SetNote or, before
// that goroutine runs, the goroutine that holds the shard's lock.
func (e *Entity) SetNote(now, note uint32) {
	for {
		w := e.word.Load()
		if w&told != 0 || e.word.CompareAndSwap(w, uint64(now)<<usedAt|uint64(min(note, maxNote))<<noteAt|w&flags) {
			return
		}
	}
}

// Note returns the note of the present turn, and when the turn began. The note is 0 if the turn has
// none or is of tells. For a turn of tells, since is when the running tell began; without a turn,
// it is when the entity was last used.
func (e *Entity) Note() (note, since uint32) {
	w := e.word.Load()
	if w&told == 0 {
		note = uint32(w) >> noteAt
	}
	return note, lastUsed(w)
}

// Join begins a turn for a tell of this process, as Enter does for a call. If a turn of tells is
// under way, the tell joins it: the turn goes on until all tells that have joined it are over, and
// ends once. So a busy entity takes tells without the shard's lock. At most most tells may wait for
// the running one; if that many wait, Join returns Full. If most is 0, the tell joins no turn, but
// begins one that others may join. now is the time at which a new turn begins.
//
// To keep one sender's tells and calls in order, the driver must run the tells of an entity one
// after another, in the order in which they joined. What Enter's comment says holds here too:
//
//   - A tell joins by a compare-and-swap of a word without wanted. So no tell joins behind a call
//     in the mailbox, or in a closing shard, which counts its turns.
//   - Join reads barred after that, as Enter does, and takes the tell back if barred is set.
//   - The turn ends by the compare-and-swap that takes the number of tells from one to none.
func (e *Entity) Join(most int, now uint32) Entry {
	for {
		w := e.word.Load()
		next := w + oneTell
		switch w & flags {
		case live:
			next = uint64(now)<<usedAt | uint64(uint32(next)) | busy | told
		case busy | live | told:
			if most == 0 {
				return Refused
			}
		default:
			return Refused
		}
		if e.shard.barred.Load() {
			return Refused
		}
		if w&busy != 0 && waitingTells(w) >= most {
			return Full
		}
		if e.word.CompareAndSwap(w, next) {
			return e.joined()
		}
	}
}

func (e *Entity) joined() Entry {
	if !e.shard.barred.Load() {
		return Entered
	}
	return e.Unjoin()
}

// Unjoin takes back a tell that has joined a turn and will not run. If it returns Withdrawn instead
// of Refused, the driver must call End.
func (e *Entity) Unjoin() Entry {
	for {
		w := e.word.Load()
		switch {
		case tells(w) > 1:
			if e.word.CompareAndSwap(w, w-oneTell) {
				return Refused
			}
		case w&flags == busy|live|told: // and the entity has a Value: see Leave
			if e.word.CompareAndSwap(w, (w-oneTell)&^(busy|told)) {
				return Refused
			}
		default:
			if e.word.CompareAndSwap(w, (w-oneTell)&^told|wanted) {
				return Withdrawn
			}
		}
	}
}

// Leave ends a turn without the shard's lock. If it cannot, left is false, and the driver must call
// End. The holder of the turn may call it, however the turn began. If more tells have joined the
// turn, only one tell is over: more is true, and the turn goes on.
func (e *Entity) Leave(now uint32) (left, more bool) {
	w := e.word.Load()
	if w&told == 0 {
		return w&flags == busy|live && e.Value != nil && e.word.CompareAndSwap(w, uint64(now)<<usedAt|live), false
	}
	for gone := e.Value == nil; ; w = e.word.Load() {
		switch {
		case tells(w) > 1:
			next := uint64(now)<<usedAt | uint64(uint32(w-oneTell)) // the next tell begins
			if gone {                                               // the turn has to end under the lock, whoever ends it
				next |= wanted
			}
			if e.word.CompareAndSwap(w, next) {
				return true, true
			}
		case w&flags == busy|live|told && !gone:
			if e.word.CompareAndSwap(w, uint64(now)<<usedAt|live) {
				return true, false
			}
		default:
			if e.word.CompareAndSwap(w, (w-oneTell)&^told|wanted) {
				return false, false
			}
		}
	}
}

// LeaveNoted ends a turn begun by Enter, as Leave does, and also returns the turn's note.
func (e *Entity) LeaveNoted(now uint32) (note uint32, left bool) {
	w := e.word.Load()
	return uint32(w) >> noteAt, w&flags == busy|live && e.Value != nil && e.word.CompareAndSwap(w, uint64(now)<<usedAt|live)
}

// listed reports whether the entity is in the list of active entities. The last entity's next
// points to itself, which saves a field.
func (e *Entity) listed() bool { return e.next != nil }

// The results of Enter, Join and Unjoin.
const (
	Refused Entry = iota // no turn has begun: try Begin, then Deliver
	Entered              // a turn has begun
	// Withdrawn is Refused, but somebody began to wait for the entity meanwhile: the driver must
	// first call End for the entity.
	Withdrawn
	Full // from Join: no further tell may wait
)
