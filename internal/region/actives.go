package region

// actives lists the entities of a shard that are active, so that passivation need not
// look at those that are not. The list runs through the entities themselves, and begins with
// those that were looked at longest ago. An entity joins it when a turn ends that
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

// ended notes that a turn of an entity in the index has ended. was and is report whether the
// entity was live before the turn and is live now.
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
