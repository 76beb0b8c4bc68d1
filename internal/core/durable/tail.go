package durable

import (
	"fmt"
	"maps"
	"slices"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// tail has the part of the log that records may lack, and the home's own appends in case a server
// loses them.
//
// Invariants:
//  1. bytes and commits are the sums over the batches.
//  2. Positions of batches do not fall.
//  3. An entity's acknowledged version is at most its last one.
//  4. An entity that is neither active nor dirty nor has a commit under way is not kept.
//  5. An entity of the present generation is dirty: the log has its acknowledged commit behind
//     boundary.
//  6. The state of a dirty entity is in memory, for the next checkpoint.
type tail struct {
	entities map[string]*entity
	batches  []batch
	bytes    int
	commits  int

	// boundary is the end of the log when the present generation of commits began, and young counts
	// the commits since then. A checkpoint may leave out older commits that these have replaced.
	boundary   store.Position
	generation uint8
	young      young
}

// young counts the commits of the tail's present generation.
type young struct {
	bytes, commits int
	partial        int // commits that need older commits or a record: see version.whole
	// reach is the counter of the last append in which an entity got its first commit of this
	// generation while its record lacked older commits; 0 means none. A scopeOlder checkpoint
	// leaves out those older commits, so without the append an outdated record would count.
	reach uint64
}

// turn begins a new generation of commits, behind position p.
func (t *tail) turn(p store.Position) {
	t.boundary, t.young = p, young{}
	if t.generation++; t.generation == 0 {
		t.generation = 1
	}
}

func (t *tail) at(id string) *entity {
	e := t.entities[id]
	if e == nil {
		e = &entity{id: id}
		t.entities[id] = e
	}
	return e
}

func (t *tail) add(b batch) {
	t.batches = append(t.batches, b)
	t.bytes += b.bytes
	t.commits += b.commits
	t.young.bytes += b.bytes
	t.young.commits += b.commits
}

func (t *tail) recover(a *wire.DurableAppend, p store.Position, bytes int) {
	for _, e := range a.GetEntries() {
		if c := e.GetCommit(); c != nil {
			t.at(string(c.GetEntity())).recover(c)
		}
	}
	t.add(batch{
		counter: a.GetCounter(), epoch: a.GetEpoch(), commits: len(a.GetEntries()), bytes: bytes, position: p,
		bare: claimOf(a) != nil || len(a.GetEntries()) == 0,
	})
}

func (t *tail) ack(b batch) {
	for _, e := range b.entries {
		c := e.GetCommit()
		if c == nil {
			continue
		}
		if e.entity == nil {
			e.entity = t.at(string(c.GetEntity()))
		}
		if e.entity.dirty && e.entity.generation != t.generation {
			t.young.reach = b.counter
		}
		e.entity.ack(c)
		if e.entity.generation = t.generation; !e.entity.acked.whole() {
			t.young.partial++
		}
	}
	b.entries = nil
	t.add(b)
}

// missing removes and returns the home's own appends that the log has lost. These are the appends
// whose counter is above the given one and whose position is not before position since.
func (t *tail) missing(counter uint64, since store.Position) (lost []batch) {
	kept := t.batches[:0]
	for _, b := range t.batches {
		if !b.own || b.counter <= counter || b.position < since {
			kept = append(kept, b)
			continue
		}
		lost = append(lost, b)
		t.bytes -= b.bytes
		t.commits -= b.commits
	}
	t.batches = kept
	return lost
}

func (t *tail) unknown(a *wire.DurableAppend) bool {
	return !slices.ContainsFunc(t.batches, func(b batch) bool { return !b.own && b.epoch == a.GetEpoch() && b.counter == a.GetCounter() })
}

// orphaned counts the appends of older homes that a claim found missing. Nobody can append them
// again. The tail has their commits, and a checkpoint writes these.
func (t *tail) orphaned(c *claim) (n int) {
	for i := range t.batches {
		b := &t.batches[i]
		if b.own || !c.misses(b.position) {
			continue
		}
		b.position = min(b.position, c.position) // the log goes on there
		if !b.bare {
			n++
		}
	}
	return n
}

func (t *tail) dirty() (all []*entity) {
	for _, id := range slices.Sorted(maps.Keys(t.entities)) {
		if e := t.entities[id]; e.dirty {
			all = append(all, e)
		}
	}
	return all
}

func (t *tail) isYoung(e *entity) bool { return e.generation == t.generation }

// saved ends a checkpoint. It drops the batches before position since. It also drops the passivated
// entities, if their records have all their commits. It returns the number of dropped batches.
func (t *tail) saved(since store.Position, acked Ticket, c *catalog) (gone int) {
	for gone < len(t.batches) && t.batches[gone].position < since {
		t.bytes -= t.batches[gone].bytes
		t.commits -= t.batches[gone].commits
		gone++
	}
	if gone >= cap(t.batches)/4 { // as many are likely to come until the next checkpoint
		left := copy(t.batches, t.batches[gone:])
		clear(t.batches[left:])
		t.batches = t.batches[:left]
	} else {
		t.batches = slices.Clone(t.batches[gone:])
	}
	//arch:order-free each entity is judged by itself
	maps.DeleteFunc(t.entities, func(_ string, e *entity) bool {
		forgotten := e.saved(acked)
		if forgotten {
			c.forget(e)
		}
		return forgotten
	})
	return gone
}

// kept ends a checkpoint that saved nothing.
func (t *tail) kept() {
	//arch:order-free each entity by itself
	for _, e := range t.entities {
		e.saving = 0
	}
}

func (t *tail) check() error {
	bytes, commits := 0, 0
	for i, b := range t.batches {
		bytes, commits = bytes+b.bytes, commits+b.commits
		if i > 0 && b.position < t.batches[i-1].position {
			return fmt.Errorf("invariant 2 of the tail: a batch at position %d follows a batch at position %d", b.position, t.batches[i-1].position)
		}
	}
	if bytes != t.bytes || commits != t.commits {
		return fmt.Errorf("invariant 1 of the tail: bytes and commits are %d and %d, but the batches have %d and %d", t.bytes, t.commits, bytes, commits)
	}
	for _, id := range slices.Sorted(maps.Keys(t.entities)) {
		if e := t.entities[id]; e.loaded && e.last.number < e.acked.number && !e.last.ended {
			return fmt.Errorf("invariant 3 of the tail: entity %q has version %d, but version %d is acknowledged", id, e.last.number, e.acked.number)
		} else if !e.dirty && t.isYoung(e) {
			return fmt.Errorf("invariant 5 of the tail: entity %q is not dirty, but has the present generation %d", id, e.generation)
		} else if e.dirty && e.bare {
			return fmt.Errorf("invariant 6 of the tail: entity %q is dirty, but its state is in its record only", id)
		}
	}
	return nil
}
