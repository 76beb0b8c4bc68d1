package durable

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// A name is a command's among those of its source.
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

// An applied is a command that runs, or was applied.
type applied struct {
	hash    uint64
	running bool
	reply   []byte
	ticket  Ticket // of its commit
}

// A known is the part of the table about one source.
type known struct {
	floor uint64
	low   uint64              // no lower number is kept
	wire  *wire.DurableSource // the source in commits; nil until one has it
	ids   map[name]*applied
	heard time.Time // when a command of it came last, or its shard was opened
}

// A table has the commands that a shard has applied or is applying.
//
// Invariants:
//  1. No id below its source's floor is kept.
//  2. count and bytes are the sums over all sources.
//  3. No id below its source's low is kept.
type table struct {
	sources map[Source]*known
	count   int
	bytes   int // of replies and paths
}

// named is the source in commits. It is not to be changed.
func (k *known) named(s Source) *wire.DurableSource {
	if k.wire == nil {
		k.wire = s.wire()
	}
	return k.wire
}

func (t *table) source(s Source, now time.Time) *known {
	k := t.sources[s]
	if k == nil {
		k = &known{ids: map[name]*applied{}, heard: now}
		t.sources[s] = k
	}
	return k
}

// raise raises the source's floor, and forgets the commands below it. Commands that still run are
// forgotten too, since nobody waits for them.
func (t *table) raise(k *known, floor uint64) {
	if floor <= k.floor {
		return
	}
	k.floor = floor
	if floor <= k.low {
		return
	}
	k.low = math.MaxUint64
	//arch:order-free each id is judged by itself
	for n := range k.ids {
		if n.number < floor {
			t.drop(k, n)
		} else {
			k.low = min(k.low, n.number)
		}
	}
}

func (t *table) drop(k *known, n name) {
	if a := k.ids[n]; a != nil {
		t.count--
		t.bytes -= len(a.reply) + len(n.path)
		delete(k.ids, n)
	}
}

// admit decides on a command of the source.
func (k *known) admit(c Command) Admission {
	if c.Number < k.floor {
		return Admission{Verdict: BelowFloor}
	}
	a := k.ids[name{c.Number, c.Path}]
	switch {
	case a == nil:
		return Admission{Verdict: Run}
	case a.hash != c.Hash:
		return Admission{Verdict: Mismatch}
	case a.running:
		return Admission{Verdict: Running}
	}
	return Admission{Verdict: Replay, Reply: a.reply, Ticket: a.ticket}
}

// begin notes that the command runs.
func (t *table) begin(k *known, c Command) {
	k.ids[name{c.Number, c.Path}] = &applied{hash: c.Hash, running: true}
	k.low = min(k.low, c.Number)
	t.count++
	t.bytes += len(c.Path)
}

// end notes the command's reply, unless its source's floor has passed it.
func (t *table) end(k *known, c *wire.DurableCommand, ticket Ticket) {
	n := name{c.GetNumber(), Path(c.GetPath())}
	if n.number < k.floor {
		return
	}
	a := k.ids[n]
	if a == nil {
		a = &applied{}
		k.ids[n] = a
		k.low = min(k.low, n.number)
		t.count++
		t.bytes += len(n.path)
	}
	t.bytes += len(c.GetReply()) - len(a.reply)
	*a = applied{hash: c.GetHash(), reply: c.GetReply(), ticket: ticket}
}

// forget forgets processes, and the turns of tells, that were silent since a time, unless one
// of their commands runs. It does not forget logs: they may send again after any time.
func (t *table) forget(process, nested time.Time) {
	//arch:order-free each source is judged by itself
	for s, k := range t.sources {
		if !s.silent(k.heard, process, nested) || k.runs() {
			continue
		}
		//arch:order-free all of them go
		for n := range k.ids {
			t.drop(k, n)
		}
		delete(t.sources, s)
	}
}

func (k *known) runs() bool {
	//arch:order-free whether there is one
	for _, a := range k.ids {
		if a.running {
			return true
		}
	}
	return false
}

// recover takes a part of a stored table.
func (t *table) recover(part *wire.DurableTable, now time.Time) {
	for _, w := range part.GetSources() {
		k := t.source(sourceOf(w.GetSource()), now)
		t.raise(k, w.GetFloor())
		for _, c := range w.GetCommands() {
			t.end(k, c, 0)
		}
	}
}

// replay takes a commit from the log.
func (t *table) replay(c *wire.DurableCommand, ticket Ticket, now time.Time) {
	k := t.source(sourceOf(c.GetSource()), now)
	t.raise(k, c.GetFloor())
	t.end(k, c, ticket)
}

// snapshot returns the table as of a ticket, as messages of a part of it each: floors, and
// the commands that were applied.
func (t *table) snapshot(acked Ticket) (all []*wire.DurableKnown) {
	for _, s := range slices.SortedFunc(maps.Keys(t.sources), Source.compare) {
		k := t.sources[s]
		all = append(all, &wire.DurableKnown{Source: s.wire(), Floor: k.floor})
		for _, n := range slices.SortedFunc(maps.Keys(k.ids), name.compare) {
			if a := k.ids[n]; !a.running && a.ticket <= acked {
				all = append(all, &wire.DurableKnown{Source: s.wire(), Commands: []*wire.DurableCommand{
					{Number: n.number, Path: []byte(n.path), Hash: a.hash, Reply: a.reply},
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
		for _, n := range slices.SortedFunc(maps.Keys(k.ids), name.compare) {
			count, bytes = count+1, bytes+len(n.path)+len(k.ids[n].reply)
			if n.number < k.low {
				return fmt.Errorf("invariant 3 of the table: number %d of %v, below %d", n.number, s, k.low)
			}
			if n.number < k.floor {
				return fmt.Errorf("invariant 1 of the table: number %d of %v, floor %d", n.number, s, k.floor)
			}
		}
	}
	if count != t.count || bytes != t.bytes {
		return fmt.Errorf("invariant 2 of the table: %d ids and %d bytes, counted %d and %d", t.count, t.bytes, count, bytes)
	}
	return nil
}
