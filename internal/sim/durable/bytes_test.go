package durable

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// TestServerLosesAppends: a server has lost acknowledged appends. The home still has their commits.
// It appends them again in their order, before later commits.
func TestServerLosesAppends(t *testing.T) {
	for _, lost := range []int{1, 2, 3} {
		d := newCashier(t, 1)
		a := d.seat(0, 1).open()
		for _, state := range []string{"1", "2", "3", "4"} {
			a.commit("a", state)
			a.commit("b", state)
		}
		k := d.server.shards[0]
		k.log = k.log[:len(k.log)-lost]
		truth := d.server.judge.shards[0]
		for _, id := range []string{"a", "b"} { // the judge forgets the lost commits
			truth.entities[id] = slices.DeleteFunc(truth.entities[id], func(c commit) bool {
				return c.position > k.log[len(k.log)-1].Position
			})
		}
		clear(d.server.judge.applied)
		a.commit("c", "1")
		if i := slices.IndexFunc(a.events, func(e durable.Event) bool { return e.Kind == durable.Resent }); i < 0 || a.events[i].N != lost {
			t.Errorf("%d lost: events %+v", lost, a.events)
		}
		b := d.seat(0, 2).open()
		b.want("a", "4", 4)
		b.want("b", "4", 4)
		b.want("c", "1", 1)
		b.core.Checkpoint(d.w.clock())
		b.run()
		d.seat(0, 3).open().want("b", "4", 4)
	}
}

// TestUnreadableBytes: a record, append, head or table that is corrupt, or of a later version,
// leads to an error that says so. Such a record makes only its own entity unreadable.
func TestUnreadableBytes(t *testing.T) {
	spoil := func(b []byte) []byte {
		b = slices.Clone(b)
		b[len(b)/2] ^= 1
		return b
	}
	build := func(t *testing.T) *desk {
		d := newCashier(t, 1)
		a := d.seat(0, 1).open()
		a.commit("a", "1")
		a.commit("b", "1")
		a.core.Checkpoint(d.w.clock())
		a.run()
		return d
	}
	t.Run("record", func(t *testing.T) {
		d := build(t)
		b := d.seat(0, 2).open()
		recs := d.server.shards[0].records["ea"]
		recs[0].Value = spoil(recs[0].Value)
		d.server.shards[0].records["eb2"] = []store.Record{{Key: "eb2", Value: d.server.shards[0].records["eb"][0].Value, Revision: 1}}
		b.unreadable(t, "b2", durable.ErrCorrupt) // its record has the bytes of another entity
		// The last append is read again, so it has the state of b. The state of a is only in its
		// record.
		b.unreadable(t, "a", durable.ErrCorrupt)
		b.commit("b", "2")
	})
	ends := func(t *testing.T, d *desk, cause error, text string) {
		t.Helper()
		b := d.seat(0, 2)
		b.run()
		if len(b.events) != 1 || !errors.Is(b.events[0].Err, cause) || !strings.Contains(b.events[0].Err.Error(), text) {
			t.Errorf("events %+v: want that it ends with %q: %v", b.events, text, cause)
		}
	}
	t.Run("append", func(t *testing.T) {
		d := build(t)
		log := d.server.shards[0].log
		log[len(log)-1].Data = spoil(log[len(log)-1].Data)
		ends(t, d, durable.ErrCorrupt, "log at")
	})
	t.Run("head", func(t *testing.T) {
		d := build(t)
		heads := d.server.shards[0].head
		heads[len(heads)-1].Value = spoil(heads[len(heads)-1].Value)
		ends(t, d, durable.ErrCorrupt, "head")
	})
	t.Run("table", func(t *testing.T) {
		d := build(t)
		recs := d.server.shards[0].records["t1/0"]
		recs[0].Value = spoil(recs[0].Value)
		ends(t, d, durable.ErrCorrupt, "table")
	})
	t.Run("table of another generation", func(t *testing.T) {
		d := build(t)
		a := d.seat(0, 2).open()
		a.commit("a", "2")
		a.core.Checkpoint(d.w.clock())
		a.run()
		k := d.server.shards[0]
		k.records["t0/0"][0].Value = k.records["t1/0"][0].Value
		b := d.seat(0, 3)
		b.run()
		if len(b.events) != 1 || !errors.Is(b.events[0].Err, durable.ErrCorrupt) {
			t.Errorf("events %+v: want that it ends", b.events)
		}
	})
	t.Run("table that is missing", func(t *testing.T) {
		d := build(t)
		delete(d.server.shards[0].records, "t1/0")
		ends(t, d, durable.ErrCorrupt, "missing")
	})
	for name, end := range map[string]store.Position{"log that ends before since": 1, "log that lacks the append at since": 20} {
		t.Run(name, func(t *testing.T) {
			d := build(t)
			d.server.shards[0].log[0].Position = 1
			d.server.position = end
			b := d.seat(0, 2)
			b.run()
			if len(b.events) != 1 || b.events[0].Err == nil || !strings.Contains(b.events[0].Err.Error(), "lost") {
				t.Errorf("events %+v: want that it ends with what is lost", b.events)
			}
		})
	}
	t.Run("log whose claim was lost", func(t *testing.T) {
		d := build(t)
		b := d.seat(0, 2)
		lost := false
		b.hold = func(r durable.Request) bool {
			if log := d.server.shards[0].log; r.Op == durable.OpRead && !lost {
				lost = true
				log[len(log)-1].Data = log[0].Data // at the same position
			}
			return false
		}
		b.open().want("a", "1", 1)
	})
	t.Run("log that a replica lacks for a while", func(t *testing.T) {
		d := build(t)
		k := d.server.shards[0]
		since := k.log[0].Position
		k.log[0].Position = 1
		d.server.position += 10
		b := d.seat(0, 2)
		reads := 0
		b.hold = func(r durable.Request) bool {
			if r.Op == durable.OpRead {
				if reads++; reads == 4 {
					k.log[0].Position = since
				}
			}
			return false
		}
		b.open().want("a", "1", 1)
	})
}

// unreadable requires that an entity cannot be read, and that the error names it.
func (s *seat) unreadable(t *testing.T, id string, cause error) {
	t.Helper()
	if l := s.state(id); !errors.Is(l.Err, cause) || !strings.Contains(l.Err.Error(), id) {
		t.Errorf("%s: got %+v, want an error with its name: %v", id, l, cause)
	}
}

// TestAdvance: an idle shard appends something so that its Since can move. Otherwise its old Since
// would keep the store from trimming the stream, which other shards use too.
func TestAdvance(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.commit("a", "1")
	a.core.Advance(d.w.clock())
	a.run()
	k := d.server.shards[0]
	last := k.log[len(k.log)-1].Position
	if since := k.head[len(k.head)-1].Since; since != last || len(k.log) != 1 {
		t.Errorf("since %d, the log has %d appends up to %d: want since there, and one", since, len(k.log), last)
	}
	if a.core.Busy() {
		t.Error("it is busy, though all is done")
	}
	d.seat(0, 2).open().want("a", "1", 1)
}

// TestDeadLetters: a tell that is never acknowledged is given up by a commit. No home sends the
// tell again after that, and its number counts as finished.
func TestDeadLetters(t *testing.T) {
	d := newCashier(t, 2)
	target := durable.Target{Log: logName, Shard: 1}
	a := d.seat(0, 1).open()
	a.apply("a", number(1, 1), "1", durable.Tell{Target: target, Body: []byte("lost")})
	a.run()
	sent := len(a.tells)
	d.w.now += 30 * time.Second
	a.core.Tick(d.w.clock())
	a.run()
	if sent == 0 || len(a.tells) == sent || a.has(durable.DeadLetter) {
		t.Errorf("sent %d times, then %d, dead %v: want that it is sent again", sent, len(a.tells), a.has(durable.DeadLetter))
	}
	d.w.now += time.Hour
	a.core.Tick(d.w.clock())
	a.run()
	i := slices.IndexFunc(a.events, func(e durable.Event) bool { return e.Kind == durable.DeadLetter })
	if i < 0 || string(a.events[i].Tell.Body) != "lost" || a.events[i].Tell.Number != 1 {
		t.Fatalf("events %+v: want a dead letter", a.events)
	}
	a.tells = nil
	a.apply("a", number(2, 1), "2", durable.Tell{Target: target, Body: []byte("next")})
	a.run()
	b := d.seat(0, 2).open()
	for _, s := range []*seat{a, b} {
		if len(s.tells) == 0 {
			t.Errorf("%s tells nothing", s.home.name)
		}
		for _, tell := range s.tells {
			if string(tell.Body) != "next" || tell.Number != 2 || tell.Floor != 2 {
				t.Errorf("%s tells %q, number %d, floor %d: want the second alone", s.home.name, tell.Body, tell.Number, tell.Floor)
			}
		}
	}
}

// TestTellsAreAcknowledgedInTheLog: this home does not send an acknowledged tell again. After a
// later append or a checkpoint, the next home does not send it either. Numbers are never used
// twice.
func TestTellsAreAcknowledgedInTheLog(t *testing.T) {
	for _, checkpoint := range []bool{false, true} {
		d := newCashier(t, 2)
		target := durable.Target{Log: logName, Shard: 1}
		a := d.seat(0, 1).open()
		for n := range uint64(3) {
			a.apply("a", number(n+1, 1), "1", durable.Tell{Target: target, Entity: string(rune('a' + n)), Body: []byte{byte('1' + n)}})
		}
		a.run()
		a.core.Arrived(d.w.clock(), target, 2)
		a.core.Arrived(d.w.clock(), target, 1)
		a.core.Arrived(d.w.clock(), target, 7) // never sent
		a.tells = nil
		d.w.now += time.Minute
		a.core.Tick(d.w.clock())
		a.run()
		for _, tell := range a.tells {
			if tell.Number != 3 || tell.Floor != 3 {
				t.Errorf("tell %d, floor %d: want the third alone", tell.Number, tell.Floor)
			}
		}
		a.commit("b", "1")
		if checkpoint {
			a.core.Checkpoint(d.w.clock())
			a.run()
		}
		b := d.seat(0, 2).open()
		b.apply("a", number(9, 1), "2", durable.Tell{Target: target, Body: []byte("4")})
		b.run()
		var numbers []uint64
		for _, tell := range b.tells {
			if !slices.Contains(numbers, tell.Number) {
				numbers = append(numbers, tell.Number)
			}
		}
		if slices.Sort(numbers); !slices.Equal(numbers, []uint64{3, 4}) {
			t.Errorf("checkpoint %v: the next home tells %v, want 3 and 4", checkpoint, numbers)
		}
	}
}

// TestEndedEntity: an ended entity has no state, in the log and when its record is deleted. It may
// begin again.
func TestEndedEntity(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.commit("a", "1")
	a.core.Checkpoint(d.w.clock())
	a.run()
	a.state("a")
	end := durable.Command{Source: durable.Source{Incarnation: 7}, Number: 1, Hash: 1}
	if _, err := a.core.Commit(d.w.clock(), &durable.Turn{Entity: "a", Ended: true, Command: &end}); err != nil {
		t.Fatal(err)
	}
	a.commit("b", "1")
	if l := a.state("a"); l.Found {
		t.Errorf("an ended entity has %+v", l)
	}
	b := d.seat(0, 2).open()
	if l := b.state("a"); l.Found || l.State != nil {
		t.Errorf("the next home: an ended entity has %+v", l)
	}
	b.core.Checkpoint(d.w.clock())
	b.run()
	b.commit("b", "2")
	b.core.Checkpoint(d.w.clock())
	b.run()
	c := d.seat(0, 3).open()
	if l := c.state("a"); l.Found {
		t.Errorf("from its record: an ended entity has %+v", l)
	}
	c.commit("a", "again")
	d.seat(0, 4).open().want("a", "again", 1)
}

// TestTableOfManyParts: the table of known commands can take more than one record.
func TestTableOfManyParts(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.state("a")
	big := strings.Repeat("x", 100<<10)
	for n := range uint64(10) {
		c := number(n+1, 1)
		a.core.Admit(d.w.clock(), &c)
		if _, err := a.core.Commit(d.w.clock(), &durable.Turn{Entity: "a", State: []byte("s"), Command: &c, Answer: []byte(big)}); err != nil {
			t.Fatal(err)
		}
	}
	a.run()
	a.commit("a", "t")
	a.core.Checkpoint(d.w.clock())
	a.run()
	h := &wire.DurableHead{}
	heads := d.server.shards[0].head
	if err := decode(heads[len(heads)-1].Value, h); err != nil || h.GetParts() < 4 {
		t.Errorf("the table has %d parts, %v, want at least 4", h.GetParts(), err)
	}
	b := d.seat(0, 2).open()
	for n := range uint64(10) {
		if got := b.core.Admit(d.w.clock(), new(number(n+1, 1))); got.Verdict != durable.Replay || string(got.Answer) != big {
			t.Errorf("command %d: verdict %d and an answer of %d bytes", n+1, got.Verdict, len(got.Answer))
		}
	}
}
