package durable

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/core/schedule"
	"github.com/shardgen/shardgen/internal/wire"
)

// reminderAt returns one reminder that is due at a Unix time in milliseconds.
func reminderAt(due int64, args ...byte) *wire.DurableReminders {
	return &wire.DurableReminders{All: []*wire.DurableReminder{{Name: "r", Method: "m", Kind: uint32(schedule.KindOnce), Due: due, Args: args}}}
}

// turn commits a turn of a new command.
func (s *seat) turn(turn durable.Turn) {
	s.d.t.Helper()
	s.state(turn.Entity)
	s.d.seats++
	c := durable.Command{Source: durable.Source{Incarnation: 1}, Number: s.d.seats, Hash: 1}
	if v := s.core.Admit(s.now(), &c).Verdict; v != durable.Run {
		s.d.t.Fatalf("verdict %d, want that it runs", v)
	}
	turn.Command = &c
	if _, err := s.core.Commit(s.now(), &turn); err != nil {
		s.d.t.Fatal(err)
	}
	s.run()
}

// remind commits an entity with the given reminders.
func (s *seat) remind(id string, all *wire.DurableReminders) {
	s.d.t.Helper()
	s.turn(durable.Turn{Entity: id, State: []byte("1"), Reminders: all})
}

// TestDelayedLooksHoldUpNoOthers: many entities are looked at with a delay, because their reminders
// fail. They do not keep other entities from being read from the catalog.
func TestDelayedLooksHoldUpNoOthers(t *testing.T) {
	const many = 300
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.hasty = true
	clock := a.now().UnixMilli()
	var ids []string
	for i := range many {
		ids = append(ids, fmt.Sprintf("failing-%d", i))
		a.remind(ids[i], reminderAt(clock+1000))
	}
	a.remind("late", reminderAt(clock+60_000))
	a.save(append(ids, "late")...)
	b := d.seat(0, 2).open()
	b.hasty = true
	for range 20 {
		for _, id := range b.core.Due(b.now(), clock+2000) {
			b.core.Looked(b.now(), id, clock+300_000)
		}
		b.run()
	}
	for range 20 {
		if slices.Contains(b.core.Due(b.now(), clock+70_000), "late") {
			return
		}
		b.run() // the home reads the catalog
	}
	t.Fatal("the entity that is due is not looked at")
}

// TestRemindersChangeDuringLook: the core looks at an entity, and the look ends with a delay. The
// delay does not apply to reminders that were set meanwhile.
func TestRemindersChangeDuringLook(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	clock := a.now().UnixMilli()
	a.remind("a", reminderAt(clock))
	if got := a.core.Due(a.now(), clock); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("due are %q, want a", got)
	}
	a.remind("a", reminderAt(clock+1000))
	a.core.Looked(a.now(), "a", clock+300_000)
	if got := a.core.Due(a.now(), clock+1000); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("due are %q, want a", got)
	}
}

// TestRecordWithReminders: a record with the keys and reminders of its entity does not exceed the
// store's limit.
func TestRecordWithReminders(t *testing.T) {
	d := newCashier(t, 1)
	limits := durable.Limits{AppendBytes: 8000}
	a := d.limited(0, 1, limits).open()
	a.remind("a", reminderAt(a.now().UnixMilli()+1000, bytes.Repeat([]byte{1}, 3000)...))
	for i := range 20 {
		a.key("a", fmt.Sprint("key ", i), strings.Repeat("x", 700))
	}
	largest := 0
	a.hold = func(r durable.Request) bool {
		for _, c := range r.Changes {
			if c.ID == durable.EntityKey("a") {
				largest = max(largest, len(c.Value))
			}
		}
		return false
	}
	a.save()
	if largest < 4000 || largest > limits.AppendBytes {
		t.Errorf("the largest record has %d bytes, want at most %d", largest, limits.AppendBytes)
	}
}

// TestFoldedRecordWithReminders: events are kept beside the state only as long as they fit in a
// record with the state and the reminders.
func TestFoldedRecordWithReminders(t *testing.T) {
	d := newCashier(t, 1)
	limits := durable.Limits{AppendBytes: 8000}
	a := d.limited(0, 1, limits)
	a.journal = true
	a.claim(1)
	a.open()
	state := bytes.Repeat([]byte{1}, 4500)
	for i := range 8 {
		turn := durable.Turn{Entity: "a", State: state, Events: [][]byte{make([]byte, 400)}}
		if i == 1 {
			turn.Reminders = reminderAt(a.now().UnixMilli()+1000, bytes.Repeat([]byte{1}, 2500)...)
		}
		a.turn(turn)
	}
	largest := 0
	a.hold = func(r durable.Request) bool {
		for _, c := range r.Changes {
			if c.ID == durable.EntityKey("a") {
				largest = max(largest, len(c.Value))
			}
		}
		return false
	}
	a.save()
	if largest < 4000 || largest > limits.AppendBytes {
		t.Errorf("the largest record has %d bytes, want at most %d", largest, limits.AppendBytes)
	}
}

// dues requires that the shard lists exactly these entities with reminders, each with its due time.
func (s *seat) dues(want ...string) {
	s.d.t.Helper()
	var got []string
	for q := (durable.Query{Of: durable.Dues, Limit: 2}); ; {
		s.pages = nil
		s.core.List(s.now(), q)
		s.run()
		if len(s.pages) != 1 || s.pages[0].Err != nil {
			s.d.t.Fatalf("%s: pages %+v", s.home.name, s.pages)
		}
		for _, key := range s.pages[0].IDs {
			at, id, _ := wire.ParseDueKey(key)
			got, q.After = append(got, fmt.Sprint(id, " ", at)), key
		}
		if !s.pages[0].More {
			break
		}
	}
	if !slices.Equal(got, want) {
		s.d.t.Errorf("%s lists %q, want %q", s.home.name, got, want)
	}
}

// TestListOfReminders: entities are listed in the order of their due times. This holds in records,
// in the log, and at the next home.
func TestListOfReminders(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	far := a.now().Add(time.Hour).UnixMilli()
	for i, id := range []string{"c", "b", "a", "d", "e"} {
		a.remind(id, reminderAt(far+int64(i)))
	}
	a.commit("none", "1")
	want := func(after int64) []string {
		return []string{fmt.Sprint("c ", far), fmt.Sprint("a ", far+2), fmt.Sprint("b ", far+after)}
	}
	a.save("a", "b", "c", "d", "none")
	a.remind("b", reminderAt(far+7))
	a.remind("e", &wire.DurableReminders{})
	a.turn(durable.Turn{Entity: "d", Ended: true})
	a.dues(want(7)...)
	a.save("a", "b", "c", "d", "e", "none")
	a.dues(want(7)...)
	a.remind("b", reminderAt(far+9))
	b := d.seat(0, 2).open()
	b.dues(want(9)...)
}
