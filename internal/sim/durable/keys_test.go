package durable

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
)

// keyed returns a command with a user's key, in the form that package durablehost makes.
func keyed(key string) durable.Command {
	return durable.Command{Source: durable.Source{Incarnation: 1, Log: key}, Number: 1, Floor: 1, Hash: 7, Key: key}
}

// key applies a command with a key.
func (s *seat) key(id, key, state string) {
	s.d.t.Helper()
	ticket := s.apply(id, keyed(key), state)
	s.run()
	if s.ready < ticket {
		s.d.t.Fatalf("%s is not acknowledged; events %+v", key, s.events)
	}
}

// verdict checks the verdict on a command that the shard's table has forgotten.
func (s *seat) verdict(id string, c durable.Command, want durable.Verdict, answer string) {
	s.d.t.Helper()
	s.state(id)
	if a := s.core.Admit(s.now(), &c); a.Verdict != durable.Run {
		s.d.t.Fatalf("%s: %s: the table says %d: it is to have forgotten it", s.home.name, c.Key, a.Verdict)
	}
	s.core.Discard(&c)
	a := s.core.Keyed(s.now(), id, &c)
	if a.Verdict != want || string(a.Answer) != answer {
		s.d.t.Errorf("%s: %s: verdict %d, answer %q: want %d, %q", s.home.name, c.Key, a.Verdict, a.Answer, want, answer)
	}
}

// pass lets time pass, so that every caller is forgotten.
func (s *seat) pass(d time.Duration) {
	s.d.w.now += d
	s.run()
}

// save makes the core write all commits to records.
func (s *seat) save(ids ...string) {
	for _, id := range ids {
		s.core.Passivated(id)
	}
	s.core.Checkpoint(s.now())
	s.run()
}

// TestKeysOutliveTheTable: for a day a key is known to its entity, passivated or active, after a
// move or a death. It is then in the record, the log, or both. After a day the key counts as new.
func TestKeysOutliveTheTable(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(*seat) // between the two keys
		after  func(*seat)
	}{
		{"in the log", func(*seat) {}, func(*seat) {}},
		{"in the record", func(*seat) {}, func(a *seat) { a.save("a") }},
		{"one in the record, one in the log", func(a *seat) { a.save("a") }, func(*seat) {}},
		{"one in the record of an active entity", func(a *seat) { a.save() }, func(*seat) {}},
		{"with commits without keys behind them", func(a *seat) { a.save("a") }, func(a *seat) { a.commit("a", "3") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newCashier(t, 1)
			a := d.seat(0, 1).open()
			a.key("a", "k1", "1")
			c.before(a)
			a.key("a", "k2", "2")
			c.after(a)
			look := func(s *seat) {
				t.Helper()
				s.verdict("a", keyed("k1"), durable.Replay, "answer to 1")
				s.verdict("a", keyed("k2"), durable.Replay, "answer to 2")
				s.verdict("a", keyed("k3"), durable.Run, "")
				s.verdict("b", keyed("k1 of b"), durable.Run, "") // the same key of another entity is another key
				other := keyed("k1")
				other.Hash++
				s.verdict("a", other, durable.Mismatch, "")
			}
			a.pass(time.Hour)
			look(a)
			b := d.seat(0, 2).open()
			b.pass(time.Hour)
			look(b)
			b.save("a", "b")
			b.pass(20 * time.Hour)
			look(b)
			e := d.seat(0, 3).open()
			e.pass(3 * time.Hour)
			e.verdict("a", keyed("k1"), durable.Run, "")
			again := keyed("k1")
			again.Number = 2 // another number, because the judge does not know keys
			e.apply("a", again, "4")
			e.pass(time.Hour)
			e.verdict("a", keyed("k1"), durable.Replay, "answer to 4")
		})
	}
}

// TestKeysOutliveTheirEntity: a command has ended its entity and is sent again. It is answered,
// because the entity's record is kept until its keys are a day old.
func TestKeysOutliveTheirEntity(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.key("a", "k1", "1")
	a.save("a")
	c := keyed("k2")
	a.state("a")
	a.core.Admit(d.w.clock(), &c)
	if _, err := a.core.Commit(d.w.clock(), &durable.Turn{Entity: "a", Ended: true, Command: &c, Answer: []byte("ended")}); err != nil {
		t.Fatal(err)
	}
	a.run()
	a.save("a")
	b := d.seat(0, 2).open()
	b.pass(time.Hour)
	if l := b.state("a"); l.Found {
		t.Errorf("the ended entity is there: %+v", l)
	}
	b.verdict("a", c, durable.Replay, "ended")
	b.save("a")
	b.pass(25 * time.Hour)
	b.verdict("a", c, durable.Run, "")
	b.core.Advance(d.w.clock())
	b.run()
	b.save("a")
	if r := d.server.record(0, "ea"); len(r.Value) > 0 {
		t.Errorf("the record of the ended entity is kept: %d bytes", len(r.Value))
	}
}

// TestKeysDoNotFillTheTable: keys leave room in the table for calls without a key. Keys for which
// the table has no room are known to their entities, at this home and the next.
func TestKeysDoNotFillTheTable(t *testing.T) {
	const entities, keys = 10, 1000
	d := newCashier(t, 1)
	a := d.limited(0, 1, durable.Limits{Commands: 50}).open()
	entity := func(i int) string { return fmt.Sprint("e", i%entities) }
	for i := range keys {
		a.apply(entity(i), keyed(fmt.Sprint("k", i)), fmt.Sprint(i))
		if i%100 == 99 {
			a.run()
		}
	}
	look := func(s *seat) {
		t.Helper()
		for i := range keys {
			c := keyed(fmt.Sprint("k", i))
			v := s.core.Admit(d.w.clock(), &c)
			if v.Verdict == durable.Run {
				s.state(entity(i))
				v = s.core.Keyed(d.w.clock(), entity(i), &c)
				s.core.Discard(&c)
			}
			if v.Verdict != durable.Replay || string(v.Answer) != fmt.Sprint("answer to ", i) {
				t.Fatalf("%s: key %d: verdict %d, answer %q: want its first answer", s.home.name, i, v.Verdict, v.Answer)
			}
		}
		if err := s.core.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if v := a.core.Admit(d.w.clock(), new(number(2, 1))).Verdict; v != durable.Run {
		t.Errorf("a call without a key: verdict %d, want that it runs", v)
	}
	look(a)
	look(d.limited(0, 2, durable.Limits{Commands: 50}).open())
	b := d.limited(0, 3, durable.Limits{Commands: 50}).open()
	b.save()
	look(d.limited(0, 4, durable.Limits{Commands: 50}).open())
}

// TestKeysThatRunAreKept: a key whose command is running is not forgotten to make room, so the
// command does not run twice at the same time.
func TestKeysThatRunAreKept(t *testing.T) {
	d := newCashier(t, 1)
	a := d.limited(0, 1, durable.Limits{Commands: 20}).open()
	runs := keyed("runs")
	if v := a.core.Admit(d.w.clock(), &runs).Verdict; v != durable.Run {
		t.Fatalf("verdict %d", v)
	}
	for i := range 100 {
		a.apply("a", keyed(fmt.Sprint("k", i)), fmt.Sprint(i))
	}
	if v := a.core.Admit(d.w.clock(), &runs).Verdict; v != durable.Running {
		t.Errorf("verdict %d, want that it runs already", v)
	}
	a.run()
}

// TestKeysAreBounded: an entity keeps its last 128 keys, or fewer if they exceed 64 KiB. Its record
// does not exceed the store's limit.
func TestKeysAreBounded(t *testing.T) {
	for _, c := range []struct {
		name          string
		keys, kept    int
		state, answer int
	}{
		{"by number", 140, durable.KeysKept, 10, 10},
		{"by bytes", 20, 15, 10, 4 << 10},
		{"by the record", 20, 3, 500 << 10, 3 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newCashier(t, 1)
			a := d.seat(0, 1).open()
			for i := range c.keys {
				k := keyed(fmt.Sprint("k", i))
				a.state("a")
				a.core.Admit(d.w.clock(), &k)
				turn := durable.Turn{Entity: "a", State: bytes.Repeat([]byte{byte(i)}, c.state), Command: &k, Answer: bytes.Repeat([]byte{1}, c.answer)}
				if _, err := a.core.Commit(d.w.clock(), &turn); err != nil {
					t.Fatal(err)
				}
				a.run()
			}
			a.save("a")
			b := d.seat(0, 2).open()
			b.pass(time.Hour)
			b.state("a")
			kept := 0
			for i := range c.keys {
				if b.core.Keyed(d.w.clock(), "a", new(keyed(fmt.Sprint("k", i)))).Verdict == durable.Replay {
					kept++
				} else if kept > 0 {
					t.Errorf("key %d is forgotten before an older one", i)
				}
			}
			if kept != c.kept {
				t.Errorf("%d keys are kept, want %d", kept, c.kept)
			}
		})
	}
}

// TestBusyKeysAreKnown: one entity gets more keys than it and the table have room for. Each key is
// known for ten minutes, with or without its answer, at every home. A key that could not be kept is
// refused. A call without a key is not refused.
func TestBusyKeysAreKnown(t *testing.T) {
	const keys = 600
	limits := durable.Limits{Commands: 50, Keys: keys, CommandBytes: 1 << 20}
	d := newCashier(t, 1)
	a := d.limited(0, 1, limits).open()
	try := func(s *seat, i int) durable.Verdict {
		t.Helper()
		s.hasty = true // run does not let time pass
		s.state("a")
		c := keyed(fmt.Sprint("k", i))
		v := s.core.Admit(s.now(), &c)
		if v.Verdict == durable.Run {
			if v = s.core.Keyed(s.now(), "a", &c); v.Verdict != durable.Run {
				s.core.Discard(&c)
			}
		}
		if v.Verdict == durable.Run {
			if _, err := s.core.Commit(s.now(), &durable.Turn{Entity: "a", State: []byte("1"), Command: &c, Answer: []byte(fmt.Sprint("answer to ", i))}); err != nil {
				t.Fatal(err)
			}
		}
		if v.Verdict == durable.Replay && string(v.Answer) != fmt.Sprint("answer to ", i) {
			t.Errorf("key %d is answered %q", i, v.Answer)
		}
		return v.Verdict
	}
	for i := range keys {
		if v := try(a, i); v != durable.Run {
			t.Fatalf("key %d: verdict %d, want that it runs", i, v)
		}
		if i%50 == 49 {
			a.run()
		}
	}
	look := func(s *seat) {
		t.Helper()
		forgotten := 0
		for i := range keys {
			switch v := try(s, i); v {
			case durable.Forgotten:
				forgotten++
			case durable.Replay:
			default:
				t.Fatalf("%s: key %d again: verdict %d, want that it is known", s.home.name, i, v)
			}
		}
		if forgotten < keys/2 {
			t.Errorf("%s: the answers to %d keys are forgotten: the scenario shows nothing", s.home.name, forgotten)
		}
		other := keyed("k0")
		other.Hash++
		s.verdict("a", other, durable.Mismatch, "")
		if v := try(s, keys); v != durable.Overloaded {
			t.Errorf("%s: a new key: verdict %d, want that it is refused", s.home.name, v)
		}
		plain := number(2, 1)
		if v := s.core.Admit(s.now(), &plain).Verdict; v != durable.Run {
			t.Errorf("%s: a call without a key: verdict %d, want that it runs", s.home.name, v)
		}
		s.core.Discard(&plain)
		if err := s.core.Check(); err != nil {
			t.Fatal(err)
		}
	}
	look(a)
	a.save()
	b := d.limited(0, 2, limits).open()
	look(b)
	b.pass(9 * time.Minute)
	look(b) // each command is sent again
	b.pass(9 * time.Minute)
	b.save()
	c := d.limited(0, 3, limits).open()
	look(c)
	c.hasty = false
	c.pass(11 * time.Minute)
	if v := try(c, keys+1); v != durable.Run {
		t.Errorf("a new key after ten minutes: verdict %d, want that it runs", v)
	}
	c.run()
}
