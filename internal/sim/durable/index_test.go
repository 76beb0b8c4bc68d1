package durable

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/util/ordered"
	"github.com/shardgen/shardgen/internal/wire"
)

// keyOf returns the key of a state for a program. The key begins with the program's name.
func keyOf(program string, state []byte) []byte {
	return ordered.AppendString(ordered.AppendField(nil, 1), program+string(state))
}

// of makes the seat run a program with an index, or without one if the name is empty. A state that
// begins with "bad" is unreadable for all programs.
func (s *seat) of(program string, epoch uint64) *seat {
	s.d.t.Helper()
	if s.index = nil; program != "" {
		s.index = &durable.Index{Fields: program, Keys: func(_ string, _ uint32, state []byte, _ [][]byte) ([]byte, error) {
			if strings.HasPrefix(string(state), "bad") {
				return nil, errors.New("unreadable")
			}
			return keyOf(program, state), nil
		}}
	}
	s.claim(epoch)
	return s.open()
}

// write commits a state, for which the program's index has a key.
func (s *seat) write(id, state string, expires time.Duration) {
	s.d.t.Helper()
	t := durable.Turn{Entity: id, State: []byte(state)}
	if expires > 0 {
		t.Expires = s.now().Add(expires).UnixMilli()
	}
	if s.index != nil {
		t.Index = keyOf(s.index.Fields, t.State)
	}
	s.turn(t)
}

// finds requires that the index of the shard has exactly these entities, each with its state.
func (s *seat) finds(want ...string) {
	s.d.t.Helper()
	s.pages = nil
	s.core.List(s.now(), durable.Query{Of: durable.Keys, Limit: 100})
	s.run()
	var got []string
	for _, p := range s.pages {
		if p.Err != nil || p.More {
			s.d.t.Errorf("%s finds %+v", s.home.name, p)
		}
		got = append(got, p.IDs...)
	}
	var keys []string
	for _, w := range want {
		id, state, _ := strings.Cut(w, " ")
		keys = append(keys, string(keyOf(s.index.Fields, []byte(state)))+id)
	}
	if slices.Sort(keys); !slices.Equal(got, keys) {
		s.d.t.Errorf("%s finds %q, want %q", s.home.name, got, keys)
	}
}

// TestIndexIsGained: a program with a new index finds entities that programs without that index
// have written, in records only or in the log. While the index is built, the program can list them.
func TestIndexIsGained(t *testing.T) {
	for name, save := range map[string]func(s *seat){"records": func(s *seat) { s.save("x", "y") }, "log": func(*seat) {}} {
		t.Run(name, func(t *testing.T) {
			d := newCashier(t, 1)
			a := d.seat(0, 1).of("", 2)
			a.write("x", "1", 0)
			a.write("y", "2", 0)
			save(a)
			b := d.seat(0, 3)
			b.of("p", 4)
			b.finds("x 1", "y 2")
			b.write("x", "3", 0)
			save(b)
			c := d.seat(0, 5).of("q", 6)
			c.lists("x", "y")
			c.finds("x 3", "y 2")
			c.state("y")
			c.turn(durable.Turn{Entity: "y", Ended: true})
			save(c)
			c.finds("x 3")
			e := d.seat(0, 7).of("", 8)
			e.lists("x")
			e.write("x", "4", 0)
			e.write("z", "5", 0)
			save(e)
			f := d.seat(0, 9).of("q", 10)
			f.finds("x 4", "z 5")
			save(f)
			d.seat(0, 11).of("q", 12).finds("x 4", "z 5")
		})
	}
}

// TestFindWaitsForTheWalk: while a walk reads the records, pages of an index fail, and pages of
// lists do not.
func TestFindWaitsForTheWalk(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).of("", 2)
	a.write("x", "1", 0)
	a.save("x")
	b := d.seat(0, 3)
	b.hold = only(durable.OpList)
	b.of("p", 4)
	b.lists("x")
	b.pages = nil
	b.core.List(b.now(), durable.Query{Of: durable.Keys, Limit: 10})
	b.run()
	if len(b.pages) != 1 || !errors.Is(b.pages[0].Err, durable.ErrIndexing) || b.core.Lists(durable.Keys) || !b.core.Lists(durable.IDs) {
		t.Errorf("got %+v, want ErrIndexing", b.pages)
	}
	b.hold = nil
	b.bring(b.held[0])
	b.run()
	b.finds("x 1")
}

// TestUnreadableHasNoKeys: an entity whose state the program cannot read is listed. A find does not
// return it.
func TestUnreadableHasNoKeys(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).of("", 2)
	a.write("x", "1", 0)
	a.write("y", "bad", 0)
	a.save("x", "y")
	a.write("z", "bad", 0)
	b := d.seat(0, 3).of("p", 4)
	b.finds("x 1")
	b.lists("x", "y", "z")
	b.write("y", "2", 0)
	b.finds("x 1", "y 2")
}

// TestExpiredLosesItsKeys: when an expired entity is removed, its keys are removed too, whether the
// home has its state from a record or from the log.
func TestExpiredLosesItsKeys(t *testing.T) {
	for name, save := range map[string]func(s *seat){"record": func(s *seat) { s.save("x") }, "log": func(s *seat) { s.core.Passivated("x") }} {
		t.Run(name, func(t *testing.T) {
			d := newCashier(t, 1)
			a := d.seat(0, 1).of("p", 2)
			a.write("x", "1", time.Hour)
			a.save()
			a.write("x", "2", 2*time.Hour)
			a.write("y", "1", 0)
			save(a)
			b := d.seat(0, 3).of("p", 4)
			b.pass(3 * time.Hour)
			b.absent("x")
			b.finds("y 1")
			b.save("x")
			b.finds("y 1")
			d.seat(0, 5).of("p", 6).finds("y 1")
		})
	}
}

// TestUnchangedKeysAreNotCommitted: a commit carries the keys of its state only if they have
// changed.
func TestUnchangedKeysAreNotCommitted(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).of("p", 2)
	write := func(state, key string) {
		a.turn(durable.Turn{Entity: "x", State: []byte(state), Index: keyOf("p", []byte(key))})
	}
	write("1", "a")
	write("2", "a")
	a.save("x")
	write("3", "a")
	write("4", "b")
	var keys []bool
	for _, entry := range d.server.shards[0].log {
		w := &wire.DurableAppend{}
		if err := decode(entry.Data, w); err != nil {
			t.Fatal(err)
		}
		for _, e := range w.GetEntries() {
			if c := e.GetCommit(); c != nil {
				keys = append(keys, c.GetIndex() != nil)
			}
		}
	}
	if want := []bool{false, true}; !slices.Equal(keys[len(keys)-2:], want) {
		t.Errorf("the last commits carry keys: %v, want %v", keys, want)
	}
}

// TestRecordHasRoomForKeys: a commit is refused if its entity's record could not hold the keys beside
// the state, although the commit does not carry them.
func TestRecordHasRoomForKeys(t *testing.T) {
	d := newCashier(t, 1)
	a := d.limited(0, 1, durable.Limits{AppendBytes: 700}).of("p", 2)
	key := keyOf("p", []byte(strings.Repeat("k", 300)))
	a.turn(durable.Turn{Entity: "x", State: []byte("1"), Index: key})
	_, err := a.core.Commit(a.now(), &durable.Turn{Entity: "x", State: make([]byte, 500), Index: key})
	if !errors.Is(err, durable.ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}
