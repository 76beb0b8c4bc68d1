package region

// Enter begins a turn of a local caller without the shard's lock, of an entity
// that is live and idle in a shard that is open, with no gate closed. hash is
// [Hash] of id. It may be called at any time, from any goroutine.
//
// When ok is false no turn has begun, and the caller goes the long way: Begin,
// then Deliver. If an entity is returned all the same, the driver first calls End
// for it: somebody began to wait for it while Enter looked at it.
//
// This and [Shard.Leave] are all that goes round the lock. They touch nothing but
// the entity's word, and whoever has the lock sees to it that this is enough:
//
//   - One turn at a time: whoever begins one does so by a compare-and-swap of the
//     word from not busy to busy.
//   - Turns begin here only while the shard is Open: only an Open shard has
//     entities that are live and not wanted. Who closes it makes every entity
//     wanted or not live, one by one, and counts those that are busy then. A turn
//     that began before is counted; none begins after. What is not in the index any
//     more is not live, so a stale look at the index does no harm.
//   - No turn begins behind a closed gate. Both sides write first and look then:
//     Enter writes the word and looks at gated, CloseGate writes gated before it
//     returns. In the one order of all atomic operations one of them comes first:
//     either Enter sees the gate, or its turn began before the gate was closed.
//   - Nobody waits in vain. Who puts a call into a mailbox, counts a turn, or makes
//     an orphan, makes the busy entity wanted by a compare-and-swap; so the one that
//     would end the turn here fails, and its End, under the lock, finds what waits.
//   - What a turn did happens before the next turn, for both touch the word.
//   - live is the lock's way of knowing who has a Value without reading it, for
//     Value is the turn's. A turn that changes it from or to nil ends under the lock.
func (s *Shard) Enter(hash uint64, id string) (e *Entity, ok bool) {
	e = s.entities.find(hash, id)
	if e == nil {
		return nil, false
	}
	w := e.word.Load()
	if w&flags != live || !e.word.CompareAndSwap(w, w|busy) {
		return nil, false
	}
	if !s.gated.Load() {
		return e, true
	}
	if e.word.CompareAndSwap(w|busy, w) {
		return nil, false
	}
	return e, false
}

// Leave ends a turn without the shard's lock, and reports whether it did: if not,
// the driver calls End. It may be called by whoever holds the turn, however it
// began.
func (s *Shard) Leave(e *Entity, now uint32) bool {
	w := e.word.Load()
	return w&flags == busy|live && e.Value != nil && e.word.CompareAndSwap(w, uint64(now)<<usedAt|live)
}
