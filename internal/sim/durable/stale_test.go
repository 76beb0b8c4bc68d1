package durable

import (
	"slices"
	"testing"

	"github.com/shardgen/shardgen/internal/core/durable"
)

// TestStaleKeyComesBack: a key of the catalog is to be removed. It stays if a checkpoint under way
// has meanwhile given it to its entity again.
func TestStaleKeyComesBack(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.hasty = true
	clock := a.now().UnixMilli()
	soon, later := reminderAt(clock+1000), reminderAt(clock+100_000)
	a.remind("a", soon)
	a.save("a")
	b := d.seat(0, 2).open()
	b.hasty = true
	b.due(clock+1500, "a") // read from a leaf of the catalog
	b.remind("a", later)
	b.save()
	b.remind("a", soon)
	b.hold = only(durable.OpPut)
	b.core.Checkpoint(b.now())
	b.hasty = false
	b.run()
	b.remind("a", later)
	b.core.Looked(b.now(), "a", 0) // the leaf's key is stale
	b.hold, b.hasty = nil, true
	for _, r := range b.held {
		b.bring(r)
	}
	b.run()
	b.remind("a", soon)
	b.save("a")
	d.seat(0, 3).open().due(clock+1500, "a")
}

// due requires that the core looks at an entity.
func (s *seat) due(clock int64, id string) {
	s.d.t.Helper()
	for range 10 {
		if slices.Contains(s.core.Due(s.now(), clock), id) {
			return
		}
		s.run()
	}
	s.d.t.Fatalf("%s: %s is not looked at", s.home.name, id)
}
