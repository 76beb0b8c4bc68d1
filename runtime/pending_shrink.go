package shard

import "slices"

const (
	// keptPlaces is how many places a pendingTable always keeps, and keptOf of how
	// many one is in use where it keeps them all.
	keptPlaces, keptOf = 1 << 10, 8
	// shrinkAfter is how many sweeps in a row must find fewer in use: 5 s.
	shrinkAfter = 100
)

// shrink lets go of three of four places when few were in use for a while: a burst of
// calls is over, and each sweep looks at all places. Those that calls still have go
// when they are free. Only the sweep calls it.
func (t *pendingTable) shrink() {
	n, inUse, limit := len(*t.slots.Load()), int(t.coalescer.underWay()), int(t.limit.Load())
	switch {
	case limit != 0 && inUse > limit/2:
		t.keepAll()
		fallthrough
	case limit != 0 || n <= keptPlaces || inUse > n/keptOf:
		t.few = 0
		return
	}
	if t.few++; t.few < shrinkAfter {
		return
	}
	t.few = 0
	t.grow.Lock()
	t.limit.Store(int64(max(keptPlaces, n/4)))
	t.grow.Unlock()
	for i := range t.shards {
		s := &t.shards[i]
		var free []*pendingCall
		s.mu.Lock()
		s.free, free = nil, s.free
		s.mu.Unlock()
		for _, c := range free {
			t.free(c, uint64(i))
		}
	}
}

// letGo takes a free place out of use if it lies beyond the limit, and reports that;
// when all that do are, they go. A place that is made later goes on with their numbers,
// so that a late answer to a call of theirs is nobody's.
func (t *pendingTable) letGo(c *pendingCall) bool {
	t.grow.Lock()
	defer t.grow.Unlock()
	slots, limit := *t.slots.Load(), int(t.limit.Load())
	if limit == 0 || c.index() < limit {
		return false
	}
	t.gone = append(t.gone, c)
	if len(t.gone) < len(slots)-limit {
		return true
	}
	for _, c := range t.gone {
		t.uses = max(t.uses, c.last/maxSlots)
	}
	kept := slices.Clone(slots[:limit])
	t.slots.Store(&kept)
	t.gone = nil
	t.limit.Store(0)
	return true
}

// keepAll is for calls that are many again.
func (t *pendingTable) keepAll() {
	t.grow.Lock()
	t.limit.Store(0)
	gone := t.gone
	t.gone = nil
	t.grow.Unlock()
	for i, c := range gone {
		t.free(c, uint64(i))
	}
}
