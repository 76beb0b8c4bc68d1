package region

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

// Live is the number of entities that had a value when their last turn ended.
func (s *Shard) Live() int { return s.entities.actives.live }

// Listed is how many entities Survey has to look at to have seen every active one.
func (s *Shard) Listed() int { return s.entities.actives.n }

// Survey looks at n entities of those that may be active, or at all if they are fewer,
// beginning with those that it has not looked at for longest. It calls f for each that
// has a value and no turn, with the time of its last use by the driver's coarse clock.
// To look at few at a time keeps the time short for which the driver has the lock.
func (s *Shard) Survey(n int, f func(e *Entity, used uint32)) {
	a := &s.entities.actives
	for range min(n, a.n) {
		e := a.pop()
		w := e.word.Load()
		if w&(busy|live) == 0 {
			a.dead = max(a.dead-1, 0) // it may have left the index
			continue
		}
		a.push(e)
		if w&(busy|live) == live {
			f(e, lastUsed(w))
		}
	}
}

// RestIdle begins a turn, for passivation, of an entity that Survey has shown, and reports
// whether it did: the shard is open, and the entity is still active, has no turn and was
// last used before t. The driver passivates it and calls End.
func (s *Shard) RestIdle(e *Entity, t uint32) bool {
	w := e.word.Load()
	return s.state == Open && w&(busy|live) == live && lastUsed(w) < t && e.word.CompareAndSwap(w, w|busy|wanted)
}
