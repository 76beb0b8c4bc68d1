package region

import "github.com/shardgen/shardgen/runtime/placement"

// Look finds an entity without the shard's lock; nil: there is none, or the index changes
// just now. hash is [Hash] of id. It may be called at any time, from any goroutine, and
// its result may be kept for later calls.
func (s *Shard) Look(hash uint64, id string) *Entity { return s.entities.find(hash, id) }

// Peek is the entity that Look looks at first for an id with that hash; nil: there is
// none. It may be another id's: it is there to be read early, so that Look need not wait
// for memory. It may be called at any time, from any goroutine.
func (s *Shard) Peek(hash uint64) *Entity { return s.entities.peek(hash) }

// An Entry is the result of Enter.
type Entry uint8

// The ways to enter.
const (
	Refused Entry = iota // no turn: Begin is the long way, then Deliver
	Entered              // a turn has begun
	// Withdrawn is Refused, but somebody began to wait for the entity while Enter
	// looked at it: the driver calls End for it first.
	Withdrawn
)

// Enter begins a turn of a local caller without the shard's lock, of an entity that
// is live and idle in a shard that is open, with no barrier closed, and to which calls
// are direct. The entity comes from Look, Begin or Deliver, now or long ago. It may
// be called at any time, from any goroutine.
//
// This, EnterUnder and Leave are all that goes round the lock. They touch only the
// entity's word. The code that runs under the lock makes sure that this is enough:
//
//   - One turn at a time: each begins by a compare-and-swap of the word from not busy to
//     busy.
//   - Turns begin here only while the shard is Open: only an Open shard has
//     entities that are live and not wanted. Closing it makes every entity wanted or
//     not live, one by one, and counts those that are busy then. A turn
//     that began before is counted; none begins after. An entity that has left the
//     index is not live, and never will be, so it does no harm to keep it.
//   - No turn begins behind a closed barrier, or when calls are not direct any more.
//     Enter writes the word and looks at barred then; CloseBarrier and Direct write barred
//     before they return. In the one order of all atomic operations either Enter sees
//     what they wrote, or its turn began before.
//   - No call is left waiting. Putting a call into a mailbox, counting a turn, or making an
//     orphan makes the busy entity wanted by a compare-and-swap. So the compare-and-swap
//     that would end the turn here fails, and its End, under the lock, finds the waiting
//     calls.
//   - The changes of a turn happen before the next turn, because both touch the word.
//   - live shows under the lock whether the entity has a Value, which only the turn may
//     read. A turn that changes it from or to nil ends under the lock.
func (e *Entity) Enter() Entry { return e.enter(0) }

// EnterUnder is Enter for a call that came straight from another process, whose sender
// believes the shard to be placed under that epoch, which is not zero: it must be the one
// that the shard opened under. Calls of another epoch go through Deliver. So do calls
// that may be cancelled or that others wait for, because turns that begin here cannot be
// found.
func (e *Entity) EnterUnder(epoch placement.Epoch) Entry { return e.enter(epoch) }

// passable reports whether a turn may begin outside the lock: of a local caller, or of one
// that knows of that epoch.
func (s *Shard) passable(epoch placement.Epoch) bool {
	return !s.barred.Load() && (epoch == 0 || s.opened.Load() == uint64(epoch))
}

func (e *Entity) enter(epoch placement.Epoch) Entry {
	w := e.word.Load()
	if w&flags != live || !e.shard.passable(epoch) || !e.word.CompareAndSwap(w, w|busy) {
		return Refused
	}
	if e.shard.passable(epoch) {
		return Entered
	}
	if e.word.CompareAndSwap(w|busy, w) {
		return Refused
	}
	return Withdrawn
}

// Leave ends a turn without the shard's lock, and reports whether it did: if not, the
// driver calls End. The holder of the turn may call it, however the turn began.
func (e *Entity) Leave(now uint32) bool {
	w := e.word.Load()
	return w&flags == busy|live && e.Value != nil && e.word.CompareAndSwap(w, uint64(now)<<usedAt|live)
}
