package durable

import (
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
)

// TestClock: setting a clock changes the wall time, but not the time between two readings.
func TestClock(t *testing.T) {
	w := &world{}
	c := &clock{w: w}
	first := c.now()
	w.now += time.Second + 7
	c.skew = -time.Hour
	second := c.now()
	if d := second.Sub(first); d != time.Second+7 || !first.Before(second) {
		t.Errorf("%v passed, want %v", d, time.Second+7)
	}
	if want := w.clock().Add(-time.Hour); second.UnixNano() != want.UnixNano() || !second.Round(0).Equal(want) {
		t.Errorf("the wall time is %v, want %v", second.Round(0), want)
	}
	if later := second.Add(time.Minute); later.Sub(first) != time.Minute+time.Second+7 || later.Unix() != second.Unix()+60 {
		t.Errorf("%v, a minute after %v", later, second)
	}
}

// set sets the clock of a seat's process.
func (s *seat) set(skew time.Duration) {
	s.home.clock.skew = skew
	s.d.server.judge.skew = max(s.d.server.judge.skew, skew.Abs())
}

// saved makes the core write all commits to records.
func (s *seat) saved(id string) { s.save(id) }

// swept runs a sweep that finds an entity expired.
func (s *seat) swept(id string) {
	s.save(id)
	s.core.Advance(s.now())
	s.run()
	s.set(2 * time.Hour)
	s.hold = func(r durable.Request) bool { return r.Op == durable.OpPut || r.Op == durable.OpAppend }
	if !s.core.Sweep(s.now(), []string{id}) {
		s.d.t.Fatal("no sweep begins")
	}
	s.run()
	s.state(id)
	s.hold = nil
	for _, r := range s.held {
		if r.Op == durable.OpAppend {
			s.bring(r)
		}
	}
	s.hold = only(durable.OpPut)
	s.run()
}

// TestClocksDiffer: a home whose clock is ahead has treated an entity as expired. The entity does
// not come back at a home whose clock is right. (Found by seeds when clocks first differed.)
func TestClocksDiffer(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(a *seat, id string)
	}{
		{"in the log", func(a *seat, id string) {}},
		{"in its record", (*seat).saved},
		{"its record is deleted by a checkpoint", func(a *seat, id string) {
			a.set(2 * time.Hour)
			a.save(id)
		}},
		{"a sweep has found its record", (*seat).swept},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newCashier(t, 1)
			a := d.seat(0, 1).open()
			a.lasting("a", "1", time.Hour)
			c.do(a, "a")
			a.set(2 * time.Hour)
			a.absent("a")
			a.run()
			if a.core.Seen("a") > a.ready {
				t.Fatal("that it has expired is not in the log")
			}
			a.set(0)
			a.core.Passivated("a")
			a.absent("a")
			b := d.seat(0, 2).open()
			b.absent("a")
			b.lasting("a", "2", time.Hour)
			d.seat(0, 3).open()
		})
	}
}

// TestClockIsSetBackDuringACheckpoint: a checkpoint writes a state that has expired. The clock is
// set back, and the entity commits events before the checkpoint has ended. These events need the
// state.
func TestClockIsSetBackDuringACheckpoint(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1)
	a.journal = true
	a.claim(2)
	a.open()
	a.lasting("a", "\x02", time.Hour, []byte{2})
	a.hold = only(durable.OpPut)
	a.set(2 * time.Hour)
	a.core.Checkpoint(a.now())
	a.run()
	a.set(0)
	a.lasting("a", "\x04", time.Hour, []byte{2})
	a.hold = nil
	for _, r := range a.held {
		a.bring(r)
	}
	a.run()
	b := d.seat(0, 3)
	b.journal = true
	b.claim(4)
	b.open()
	if l := b.state("a"); !l.Found || string(l.State) != "\x02" || len(l.Since) != 1 {
		t.Errorf("the state is lost: %+v", l)
	}
}

// TestTellOfAClockThatWasAhead: the clock was years ahead when a tell was committed, and is then
// set back. The tell is still given up after its time.
func TestTellOfAClockThatWasAhead(t *testing.T) {
	d := newCashier(t, 2)
	a := d.limited(0, 1, durable.Limits{DeadAfter: time.Minute}).open()
	a.set(100_000 * time.Hour)
	a.apply("a", number(1, 1), "1", tellOf("x", "1"))
	a.run()
	a.set(0)
	a.pass(50 * time.Second)
	if a.has(durable.DeadLetter) {
		t.Fatal("it is given up before its time")
	}
	a.pass(2 * time.Minute)
	a.run()
	if !a.has(durable.DeadLetter) {
		t.Error("it is sent for years")
	}
}
