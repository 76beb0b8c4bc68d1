package region

import (
	"sync/atomic"

	"github.com/shardgen/shardgen/runtime/codegen"
)

// An Entity is one entity of a shard: active with a Value, passivated with its encoded
// State, or both nil when the next call makes it fresh. An active entity's State has the
// fields of its loaded state that its program does not know: nil, unless a newer program
// wrote that state.
//
// ID and shard never change. Value, State and Why belong to the goroutine that holds the
// turn. The driver may prefetch the memory that Value points to at any time, and decides
// nothing by it. word is atomic (see Enter); all other fields are guarded by the shard's
// lock. The fields for a call of an idle entity come first, in one cache line.
type Entity struct {
	ID    string
	hash  uint64
	word  atomic.Uint64 // flags, and above them the driver's coarse clock at the last use
	Value any
	shard *Shard
	State []byte
	// Why is the reason that the next activation gives the entity.
	Why codegen.Activation

	next    *Entity // behind it in the shard's list of active entities; see actives
	turn    *Call   // the call whose turn it is; nil when idle or when anonymous
	mailbox queue
}

// The flags of an entity's word.
const (
	busy   = 1 << iota // a turn is under way
	live               // it had a Value when its last turn ended
	wanted             // its next turn begins, or the one under way ends, under the lock
	orphan             // the shard was lost during this turn: End counts for nothing
	flags  = 1<<8 - 1
	usedAt = 32 // by how much the time of the last use is shifted
)

func newEntity(s *Shard, id string) *Entity { return &Entity{ID: id, hash: Hash(id), shard: s} }

// Shard is the shard that the entity is one of, or was before that left.
func (e *Entity) Shard() *Shard { return e.shard }

// Busy reports whether a turn is under way.
func (e *Entity) Busy() bool { return e.has(busy) }

// Lost reports whether the shard was lost during the turn under way: the changes of the
// turn are dropped.
func (e *Entity) Lost() bool { return e.has(orphan) }

// Turn is the call whose turn is under way; nil when there is none or when it
// began by Begin or Enter.
func (e *Entity) Turn() *Call { return e.turn }

// Mailbox is the number of calls that wait.
func (e *Entity) Mailbox() int { return e.mailbox.len() }

func (e *Entity) has(flag uint64) bool { return e.word.Load()&flag != 0 }

// change replaces the flags by f of them, and returns the former ones.
func (e *Entity) change(f func(was uint64) uint64) (was uint64) {
	for {
		w := e.word.Load()
		was = w & flags
		if e.word.CompareAndSwap(w, w&^flags|f(was)) {
			return was
		}
	}
}

// take begins a turn that ends under the lock, and reports whether the entity
// was idle. If it was not, the turn under way ends under the lock.
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

// want makes the next end or beginning of a turn one under the lock, and reports
// whether a turn is under way.
func (e *Entity) want() bool {
	return e.change(func(was uint64) uint64 { return was | wanted })&busy != 0
}

// abandon is for an entity that leaves the index with its shard. If a turn is under
// way, it is the last. It returns busy, live, or neither.
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

// rest ends the turn, whose holder had the lock: from now on others may begin one
// without it, if the entity is live and not wanted.
func (e *Entity) rest(flag uint64, now uint32) { e.word.Store(uint64(now)<<usedAt | flag) }

func lastUsed(word uint64) uint32 { return uint32(word >> usedAt) }
