package region

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
)

// openShard returns a shard that is open at node a.
func openShard() *Shard {
	s := New(placement.ShardID{Kind: "K", Shard: 1}, node("a"), Limits{Mailbox: 2, Waiting: 3})
	s.Place(node("a"), placement.MakeEpoch(1, 1), false, 0, time.Unix(1000, 0))
	return s
}

// awake makes n entities with a value, each used at another time.
func awake(s *Shard, n int) {
	for i := range n {
		e := s.Begin(fmt.Sprint(i), uint32(i))
		e.Value = "value"
		s.End(e, uint32(i))
	}
}

// TestSurveyTakesTurns: each survey continues behind the one before, and examines every active
// entity once before it examines one again.
func TestSurveyTakesTurns(t *testing.T) {
	s := openShard()
	awake(s, 10)
	for round := range 3 {
		seen := map[string]int{}
		for range 4 {
			s.Survey(3, func(e *Entity, used uint32) {
				seen[e.ID]++
				if fmt.Sprint(used) != e.ID {
					t.Errorf("%s was last used at %d", e.ID, used)
				}
			})
		}
		if len(seen) != 10 {
			t.Errorf("round %d: saw %d entities of 10", round, len(seen))
		}
		s.Survey(8, func(*Entity, uint32) {}) // the rest of the second time
	}
}

// TestSurveySkipsThePassivated: passivated entities cost later surveys nothing.
func TestSurveySkipsThePassivated(t *testing.T) {
	s := openShard()
	awake(s, 1000)
	var passivated []*Entity
	s.Survey(s.Listed(), func(e *Entity, used uint32) {
		if s.BeginPassivation(e, 990) {
			passivated = append(passivated, e)
		}
	})
	for _, e := range passivated {
		e.Value = nil
		e.SetState([]byte{}, codegen.Reactivated)
		s.End(e, 2000)
	}
	if len(passivated) != 990 || s.Live() != 10 {
		t.Fatalf("%d of 990 passivated, %d of 10 are live", len(passivated), s.Live())
	}
	s.Survey(s.Listed(), func(*Entity, uint32) {})
	if n := s.Listed(); n != 10 {
		t.Errorf("the next survey looks at %d entities, want the 10 active ones", n)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestForgottenLeaveTheList: the list does not keep entities that begin and end for good, even if
// nobody surveys it.
func TestForgottenLeaveTheList(t *testing.T) {
	s := openShard()
	awake(s, 10)
	for i := range 10_000 {
		e := s.Begin(fmt.Sprint("short-", i), 1)
		e.Value = "value"
		s.End(e, 1)
		e = s.Begin(e.ID, 1)
		e.Value = nil
		s.End(e, 1)
	}
	if n := s.Listed(); n > 10+2*(minDead+10) {
		t.Errorf("%d entities are in the list, and 10 in the shard", n)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestBeginPassivationRefuses: an entity from a survey is not passivated if it was used since, or
// lost with its shard.
func TestBeginPassivationRefuses(t *testing.T) {
	s := openShard()
	awake(s, 3)
	var shown []*Entity
	s.Survey(3, func(e *Entity, _ uint32) { shown = append(shown, e) })
	e := s.Begin("0", 50)
	if s.BeginPassivation(e, 100) {
		t.Error("an entity is passivated that has a turn")
	}
	s.End(e, 50)
	if s.BeginPassivation(e, 50) {
		t.Error("an entity is passivated that was used since")
	}
	s.BeginMove(node("b"), placement.MakeEpoch(1, 2))
	if s.BeginPassivation(shown[1], 100) {
		t.Error("an entity is passivated whose shard is leaving")
	}
	s.Place(node("c"), placement.MakeEpoch(1, 3), false, 0, time.Unix(1000, 0))
	s.Place(node("a"), placement.MakeEpoch(1, 4), false, 0, time.Unix(1000, 0))
	for _, e := range shown {
		if s.BeginPassivation(e, 100) {
			t.Errorf("%s is passivated, which was lost with its shard", e.ID)
		}
	}
}

// TestSeldomPartGoes: an entity's cold part for a turn under the lock goes with the turn, and
// serves another entity. It stays while there is a state, or data of the driver.
func TestSeldomPartGoes(t *testing.T) {
	s := openShard()
	turn := func(id string, f func(*Entity)) *Entity {
		e, v := s.Deliver(&Call{Entity: id, Epoch: s.Epoch()}, 1, time.Unix(1000, 0))
		if v != Run || e.Turn() == nil {
			t.Fatalf("%s: %v, turn %v", id, v, e.Turn())
		}
		f(e)
		s.End(e, 1)
		if e.Turn() != nil {
			t.Errorf("%s has the turn of a call after its end", id)
		}
		return e
	}
	wakes := func(e *Entity) { e.Value = "value"; e.SetState(nil, codegen.Fresh) }
	var part *entityCold
	x := turn("x", func(e *Entity) { wakes(e); part = e.cold.Load() })
	turn("y", func(e *Entity) {
		wakes(e)
		if e.cold.Load() != part {
			t.Error("the part is not used again")
		}
	})
	for name, step := range map[string]struct {
		keep, drop func(*Entity)
	}{
		"state":  {func(e *Entity) { e.SetState([]byte{}, codegen.Moved) }, wakes},
		"driver": {func(e *Entity) { e.SetData(&EntityData{"data"}) }, func(e *Entity) { e.SetData(nil) }},
	} {
		if x.cold.Load() != nil {
			t.Errorf("%s: an idle entity has the part for nothing", name)
		}
		if turn("x", step.keep); x.cold.Load() == nil {
			t.Errorf("%s: it is lost with the part", name)
		}
		turn("x", step.drop)
	}
	if x.cold.Load() != nil || x.Why() != codegen.Fresh {
		t.Error("an idle entity has the part for nothing, or a reason to be activated")
	}
	if len(s.spare) != 1 {
		t.Errorf("%d parts are kept for reuse, want 1: no two turns were under way", len(s.spare))
	}
}

// TestDriverDataMakesItsPart: SetData adds the cold part to an entity without one. It adds none to
// store nil, because then each entity would have one.
func TestDriverDataMakesItsPart(t *testing.T) {
	s := openShard()
	e := s.Begin("x", 1)
	if e.SetData(nil); e.cold.Load() != nil || e.Data() != nil {
		t.Errorf("with nothing to keep the entity has the part: %v, and data %v", e.cold.Load() != nil, e.Data())
	}
	for _, data := range []string{"data", "other"} {
		if e.SetData(&EntityData{data}); e.Data() != data {
			t.Errorf("the driver has %v, want %s", e.Data(), data)
		}
	}
	if e.SetData(nil); e.Data() != nil {
		t.Errorf("the driver has %v after it kept nothing", e.Data())
	}
}

// TestEntitySize: an entity, and the cold part that only some entities have, each fit in 64 bytes,
// and a slot of the table with its tag in 9.
func TestEntitySize(t *testing.T) {
	if size := unsafe.Sizeof(Entity{}); size > 64 {
		t.Errorf("an entity has %d bytes, want at most 64", size)
	}
	if size := unsafe.Sizeof(entityCold{}); size > 64 {
		t.Errorf("the part that an entity rarely has takes %d bytes, want at most 64", size)
	}
	x := newTable(64)
	if size := unsafe.Sizeof(x.slots[0])*64 + unsafe.Sizeof(x.tags[0])*uintptr(len(x.tags)); size > 64*9 {
		t.Errorf("64 slots have %d bytes, want at most 9 each", size)
	}
}
