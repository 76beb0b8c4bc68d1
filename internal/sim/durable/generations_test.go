package durable

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// few are limits under which a generation ends after four commits.
var few = durable.Limits{TailCommits: 8}

// lose makes the server lose all appends of the shard after a position. The judge forgets them too.
func (d *desk) lose(shard int, behind store.Position) {
	k, truth := d.server.shards[shard], d.server.judge.shards[shard]
	k.log = slices.DeleteFunc(k.log, func(a store.Append) bool { return a.Position > behind })
	for id := range truth.entities {
		truth.entities[id] = slices.DeleteFunc(truth.entities[id], func(c commit) bool { return c.position > behind })
		if len(truth.entities[id]) == 0 {
			delete(truth.entities, id)
		}
	}
	clear(d.server.judge.applied)
}

// last returns the position of the shard's last append.
func (d *desk) last(shard int) store.Position {
	log := d.server.shards[shard].log
	return log[len(log)-1].Position
}

// TestCheckpointsLeaveOutWhatTheLogHas: an entity that changes all the time gets no record,
// although the log is trimmed. An entity that has not changed for a while gets a record. The next
// home has both entities.
func TestCheckpointsLeaveOutWhatTheLogHas(t *testing.T) {
	d := newCashier(t, 1)
	a := d.limited(0, 1, few).open()
	a.commit("cold", "1")
	for i := range 40 {
		a.commit("hot", fmt.Sprint(i))
		if n := len(d.server.shards[0].log); n > few.TailCommits+4 {
			t.Fatalf("the log has %d appends, of which a home needs %d", n, few.TailCommits)
		}
	}
	if n := len(d.server.shards[0].records["ehot"]); n > 0 {
		t.Errorf("%d records of an entity that the log has", n)
	}
	if n := len(d.server.shards[0].records["ecold"]); n != 1 {
		t.Errorf("%d records of an entity that has rested, want 1", n)
	}
	b := d.limited(0, 2, few).open()
	b.want("cold", "1", 1)
	b.want("hot", "39", 40)
	b.save("hot", "cold")
	if n := len(d.server.shards[0].records["ehot"]); n != 1 {
		t.Errorf("%d records after all was to be written, want 1", n)
	}
	d.limited(0, 3, few).open().want("hot", "39", 40)
}

// TestAppendsLostDuringACheckpoint: a server loses the commits that replace older ones. No more
// than these are lost, even if a checkpoint that relied on them was under way, and the home dies
// before it has appended them again.
func TestAppendsLostDuringACheckpoint(t *testing.T) {
	d := newCashier(t, 1)
	a := d.limited(0, 1, few).open()
	for i := range 3 {
		a.commit("hot", fmt.Sprint(i))
	}
	kept := d.last(0)
	a.commit("hot", "3") // this ends a generation
	a.hold = only(durable.OpPut)
	for i := 4; len(a.held) == 0; i++ {
		if i > 20 {
			t.Fatal("no checkpoint begins")
		}
		a.commit("hot", fmt.Sprint(i))
	}
	d.lose(0, kept)
	put := a.held[0]
	a.hold = func(r durable.Request) bool { return r.Op == durable.OpAppend && r.Expect != store.Any }
	a.apply("other", durable.Command{Source: durable.Source{Incarnation: 1}, Number: 99, Hash: 1}, "1")
	a.run()
	for i, r := range a.held { // the append that meets the loss
		if r.Op == durable.OpAppend && r.Expect != store.Any {
			a.held = slices.Delete(a.held, i, i+1)
			a.bring(r)
			break
		}
	}
	a.run()
	if !a.has(durable.Resent) {
		t.Fatalf("events %+v: want that the home appends again what was lost", a.events)
	}
	a.bring(put)
	a.run()
	d.limited(0, 2, few).open().want("hot", "2", 3)
}

// TestAppendsLostAfterAGeneration is TestAppendsLostDuringACheckpoint, but the next checkpoint
// begins when the first of the lost appends is in the log again.
func TestAppendsLostAfterAGeneration(t *testing.T) {
	d := newCashier(t, 1)
	a := d.limited(0, 1, few).open()
	for i := range 7 { // then the log is trimmed, and another generation begins
		a.commit("hot", fmt.Sprint(i))
	}
	a.commit("other", "0")
	kept := d.last(0)
	a.commit("other", "1")
	a.commit("hot", "7")
	d.lose(0, kept)
	a.apply("other", durable.Command{Source: durable.Source{Incarnation: 1}, Number: 99, Hash: 1}, "2")
	again := 0
	a.hold = func(r durable.Request) bool {
		if r.Op == durable.OpAppend && r.Expect != store.Any {
			again++ // the one that finds out, "other" = "1", and "hot" = "7"
		}
		return again > 2
	}
	a.run()
	if !a.has(durable.Resent) || len(a.held) == 0 {
		t.Fatalf("events %+v, held %d: want that the home appends again what was lost", a.events, len(a.held))
	}
	if l := d.limited(0, 2, few).open().state("hot"); l.Version != 7 {
		t.Errorf("the entity is at version %d: want what the server has kept, 7", l.Version)
	}
}

// TestKeysOfAGeneration: if a commit of a generation has a key, a checkpoint begins only when the
// tail of the log is full, and writes records of all entities.
func TestKeysOfAGeneration(t *testing.T) {
	d := newCashier(t, 1)
	a := d.limited(0, 1, few).open()
	a.key("a", "one", "1")
	a.key("a", "two", "2")
	for i := range few.TailCommits - 4 { // the claim is an entry of the tail too
		a.commit("hot", fmt.Sprint(i))
	}
	if n := len(d.server.shards[0].records); n > 0 {
		t.Errorf("%d records before the tail is full", n)
	}
	a.commit("hot", "last")
	for _, id := range []string{"ea", "ehot"} {
		if n := len(d.server.shards[0].records[id]); n != 1 {
			t.Errorf("%d records of %s, want 1", n, id)
		}
	}
	for i := range 3 * few.TailCommits { // the next generations have no keys
		a.commit("hot", fmt.Sprint(i))
	}
	if n := len(d.server.shards[0].records["ehot"]); n != 1 {
		t.Errorf("%d records of an entity that the log has, want 1", n)
	}
	b := d.limited(0, 2, few).open()
	b.pass(11 * time.Minute) // callers are forgotten
	b.verdict("a", keyed("one"), durable.Replay, "answer to 1")
	b.verdict("a", keyed("two"), durable.Replay, "answer to 2")
}

// TestEventsAreWrittenOnce: most commits have only events, which need the state before them. Then a
// checkpoint begins only when the tail of the log is full, and writes records of all entities.
func TestEventsAreWrittenOnce(t *testing.T) {
	d := newCashier(t, 1)
	a := d.limited(0, 1, few)
	a.journal = true
	a.claim(1)
	a.open()
	for i := range 40 {
		a.commit("a", fmt.Sprint(i))
	}
	if n, most := len(d.server.shards[0].records["ea"]), 40/few.TailCommits; n > most {
		t.Errorf("%d records of 40 commits, want at most %d", n, most)
	}
}

// TestManyGenerations: more generations begin than the number of a generation can distinguish.
func TestManyGenerations(t *testing.T) {
	d := newCashier(t, 1)
	a := d.limited(0, 1, durable.Limits{TailCommits: 2}).open()
	a.commit("idle", "1")
	for i := range 600 {
		a.apply("hot", durable.Command{Source: durable.Source{Incarnation: 1}, Number: uint64(1000 + i), Floor: uint64(1000 + i), Hash: 1}, fmt.Sprint(i))
		for range 4 {
			for _, r := range a.core.Take().Requests {
				a.bring(r)
			}
			if err := a.core.Check(); err != nil {
				t.Fatal(err)
			}
		}
	}
	a.want("idle", "1", 1)
}
