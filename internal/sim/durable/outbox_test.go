package durable

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
)

// tellOf is a tell to an entity of shard 1.
func tellOf(entity, body string) durable.Tell {
	return durable.Tell{Target: durable.Target{Log: logName, Shard: 1}, Entity: entity, Body: []byte(body)}
}

// bodies are what a seat has sent since they were taken last, each once.
func (s *seat) bodies() (all []string) {
	for _, tell := range s.tells {
		if text := fmt.Sprintf("%s %s", tell.Entity, tell.Body); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	s.tells = nil
	return all
}

// TestTellsToOneEntityComeOneAfterTheOther: the next one leaves when the one before has been
// committed at its receiver, by this home or by the next; those to others do not wait.
func TestTellsToOneEntityComeOneAfterTheOther(t *testing.T) {
	d := newDesk(t, 2)
	a := d.seat(0, 1).open()
	a.apply("a", number(1, 1), "1", tellOf("x", "1"), tellOf("x", "2"), tellOf("y", "3"))
	a.run()
	a.apply("b", number(2, 1), "1", tellOf("x", "4"))
	a.run()
	want := func(s *seat, bodies ...string) {
		t.Helper()
		if got := s.bodies(); fmt.Sprint(got) != fmt.Sprint(bodies) {
			t.Fatalf("%s sends %q, want %q", s.home.name, got, bodies)
		}
	}
	target := durable.Target{Log: logName, Shard: 1}
	want(a, "x 1", "y 3")
	a.core.Arrived(d.w.clock(), target, 1)
	a.run()
	want(a, "x 2")
	d.w.now += 2 * time.Second
	a.core.Tick(d.w.clock()) // the acknowledgement of the first is appended
	a.run()
	want(a, "x 2", "y 3")

	b := d.seat(0, 2).open()
	want(b, "x 2", "y 3")
	b.core.Arrived(d.w.clock(), target, 2)
	b.run()
	want(b, "x 4", "y 3")
}

// TestOldTellsAreSentBeforeTheyAreGivenUp: all processes were away for longer than a tell may
// wait. Whether it has arrived nobody knows, so it is sent first.
func TestOldTellsAreSentBeforeTheyAreGivenUp(t *testing.T) {
	d := newDesk(t, 2)
	a := d.seat(0, 1).open()
	a.apply("a", number(1, 1), "1", tellOf("x", "1"), tellOf("y", "2"))
	a.run()
	d.w.now += 7 * 24 * time.Hour
	b := d.seat(0, 2).open()
	b.core.Tick(d.w.clock())
	b.run()
	if b.has(durable.DeadLetter) || len(b.bodies()) != 2 {
		t.Fatalf("events %+v: want that both are sent, and none is given up yet", b.events)
	}
	b.core.Arrived(d.w.clock(), durable.Target{Log: logName, Shard: 1}, 1)
	for range 120 {
		d.w.now += time.Second
		b.core.Tick(d.w.clock())
		b.run()
	}
	dead := 0
	for _, e := range b.events {
		if e.Kind == durable.DeadLetter {
			dead++
			if e.Tell.Entity != "y" {
				t.Errorf("%+v is given up, which has arrived", e.Tell)
			}
		}
	}
	if dead != 1 {
		t.Errorf("%d are given up, want the one that did not arrive", dead)
	}
}

// TestAcknowledgementNeedsNoOtherAppend: a shard that becomes idle notes in its log what has
// arrived, so that the next home does not send it again.
func TestAcknowledgementNeedsNoOtherAppend(t *testing.T) {
	d := newDesk(t, 2)
	a := d.seat(0, 1).open()
	a.apply("a", number(1, 1), "1", tellOf("x", "1"))
	a.run()
	a.core.Arrived(d.w.clock(), durable.Target{Log: logName, Shard: 1}, 1)
	d.w.now += 1500 * time.Millisecond
	a.core.Tick(d.w.clock())
	a.run()
	if got := d.seat(0, 2).open().bodies(); len(got) > 0 {
		t.Errorf("the next home sends %q again", got)
	}
}

// TestNestedCallsOfTellsHaveFloorsOfTheirOwn: numbers of one log are counted by receiver, so
// what is finished at one says nothing about those at another.
func TestNestedCallsOfTellsHaveFloorsOfTheirOwn(t *testing.T) {
	d := newDesk(t, 2)
	b := d.seat(1, 1).open()
	nested := durable.Command{
		Source: durable.Source{Log: logName, To: durable.Target{Log: logName, Shard: 7}}, Number: 100, Floor: 100, Path: "p", Hash: 1,
	}
	b.apply("x", nested, "nested")
	b.run()
	if got := b.core.Admit(d.w.clock(), &durable.Command{Source: durable.Source{Log: logName}, Number: 1, Floor: 1, Hash: 2}); got.Verdict != durable.Run {
		t.Errorf("the first tell that the same log sends here: verdict %d, want that it runs", got.Verdict)
	}
	if got := b.core.Admit(d.w.clock(), &nested); got.Verdict != durable.Replay {
		t.Errorf("the nested call again: verdict %d, want that it is replayed", got.Verdict)
	}
	d.w.now += 3 * time.Hour
	b.core.Tick(d.w.clock())
	b.run()
	if got := b.core.Admit(d.w.clock(), &nested); got.Verdict != durable.Run {
		t.Errorf("the nested call after hours: verdict %d, want that it was forgotten", got.Verdict)
	}
}
