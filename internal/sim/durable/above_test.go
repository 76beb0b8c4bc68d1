package durable

import (
	"testing"

	"github.com/shardgen/shardgen/internal/core/durable"
)

// TestSingletonOpensAfterFullRestarts: no coordinator gives epochs to a singleton's shard, and the
// processes count from 1 after each start. So a claim takes an epoch above that of the head.
// Otherwise no claim would open the shard.
func TestSingletonOpensAfterFullRestarts(t *testing.T) {
	d := newCashier(t, 1)
	for i, state := range []string{"1", "2", "3"} {
		s := d.single().open()
		if i > 0 {
			s.want("singleton", []string{"1", "2"}[i-1], uint64(i))
		}
		s.commit("singleton", state)
		if got := s.core.Epoch(); got != uint64(i+1) {
			t.Errorf("%s claimed under %d, want %d", s.home.name, got, i+1)
		}
	}
	b := d.seat(0, 1)
	b.run()
	if b.core.State() != durable.Dropped {
		t.Error("a claim that does not go above the head opens too: the scenario shows nothing")
	}
}

// TestSingletonEndsItsPredecessor: a home that was taken for dead goes on after another home has
// claimed the shard. The next commit of the former home is not acknowledged, and that home drops
// the shard.
func TestSingletonEndsItsPredecessor(t *testing.T) {
	d := newCashier(t, 1)
	a := d.single().open()
	a.commit("singleton", "1")
	b := d.single().open()
	late := a.apply("singleton", durable.Command{Source: durable.Source{Incarnation: 1}, Number: 99}, "late")
	a.run()
	if a.ready >= late || a.core.State() != durable.Dropped {
		t.Errorf("the former home acknowledges a commit behind another's claim, state %d", a.core.State())
	}
	b.want("singleton", "1", 1)
	b.commit("singleton", "2")
	d.single().open().want("singleton", "2", 2)
}

// TestSingletonGoesAboveAHeadThatItMeets: two homes have read the same head and chosen the same
// epoch. The second home's write meets the first one's head, and the second home then takes a
// higher epoch.
func TestSingletonGoesAboveAHeadThatItMeets(t *testing.T) {
	d := newCashier(t, 1)
	d.single().open().commit("singleton", "1")
	b := d.single()
	b.hold = only(durable.OpSetHead)
	b.run()
	a := d.single().open()
	a.commit("singleton", "2")
	b.hold = nil
	b.bring(b.held[0])
	b.open().want("singleton", "2", 2)
	if a.core.Epoch() != 2 || b.core.Epoch() != 3 {
		t.Errorf("epochs %d and %d, want 2 and 3", a.core.Epoch(), b.core.Epoch())
	}
	a.apply("singleton", durable.Command{Source: durable.Source{Incarnation: 1}, Number: 99}, "late")
	a.run()
	if a.core.State() != durable.Dropped {
		t.Errorf("the first home goes on, state %d", a.core.State())
	}
}

// TestSingletonDoesNotClimbBehindItsClaim: a home whose claim is in the log does not take a higher
// epoch. If its successor has trimmed the log, it does not take the shard back.
func TestSingletonDoesNotClimbBehindItsClaim(t *testing.T) {
	d := newCashier(t, 1)
	a := d.single()
	a.hold = only(durable.OpRead)
	a.run()
	b := d.single().open()
	b.commit("singleton", "1")
	b.core.Checkpoint(d.w.clock())
	b.run()
	a.hold = nil
	a.bring(a.held[0])
	a.run()
	if a.core.State() != durable.Dropped || a.core.Epoch() != 1 {
		t.Errorf("state %d, epoch %d: want that it ends under 1", a.core.State(), a.core.Epoch())
	}
	b.commit("singleton", "2")
	d.single().open().want("singleton", "2", 2)
}

// TestSingletonStartsAboveItsOwn: a process that claims again starts above all epochs that it has
// used, even if a stale replica shows it an older head. Otherwise an append of its former tenure
// could still arrive.
func TestSingletonStartsAboveItsOwn(t *testing.T) {
	d := newCashier(t, 1)
	a := d.single()
	a.hold = only(durable.OpSetHead)
	a.run()
	former := a.core.Epoch()
	a.core.Drop()
	a.hold, a.held = nil, nil
	a.claim(former + 1)
	a.open().commit("singleton", "1")
	if got := a.core.Epoch(); got <= former {
		t.Errorf("claimed under %d, after %d", got, former)
	}
}

// TestSingletonGoesAboveTheLog: the head was put back to the time before a claim that the log has.
// A claim that is only above the head's epoch is void. It reports the epoch that it met, and a
// claim above that epoch ends the former home.
func TestSingletonGoesAboveTheLog(t *testing.T) {
	d := newCashier(t, 1)
	d.single().open().commit("singleton", "1")
	older := d.server.head(0)
	a := d.seat(0, 1<<32).open()
	a.commit("singleton", "2")
	d.server.putBack(0, older)

	b := d.single()
	b.run()
	if met := b.events[len(b.events)-1]; met.Kind != durable.Ended || met.Epoch != a.core.Epoch() {
		t.Fatalf("the claim above the head ends with %+v: want that it met %d", met, a.core.Epoch())
	}
	b.claim(b.core.Epoch() + 1)
	if b.run(); b.core.State() != durable.Dropped {
		t.Error("a claim that goes above the head alone opens too: the scenario shows nothing")
	}
	b.claim(a.core.Epoch() + 1)
	b.open().want("singleton", "2", 2)
	late := a.apply("singleton", durable.Command{Source: durable.Source{Incarnation: 1}, Number: 99}, "late")
	a.run()
	if a.ready >= late || a.core.State() != durable.Dropped {
		t.Errorf("the former home acknowledges a commit behind another's claim, state %d", a.core.State())
	}
	b.commit("singleton", "3")
	d.single().open().want("singleton", "3", 3)
}
