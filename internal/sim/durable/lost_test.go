package durable

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// own reports whether a request is an append with commits, not a claim.
func own(r durable.Request) bool { return r.Op == durable.OpAppend && r.Expect != store.Any }

// loses makes the server lose all appends after a position. The home notices the loss, and its next
// appends are held.
func (s *seat) loses(kept store.Position) {
	s.d.t.Helper()
	s.d.lose(s.shard, kept)
	s.d.server.judge.blind = true
	s.held, s.hold = nil, own
	s.apply("finder", durable.Command{Source: durable.Source{Incarnation: 1}, Number: 999, Hash: 1}, "1")
	s.run()
	first := s.held[0] // this append meets the conflict
	s.held = slices.Delete(s.held, 0, 1)
	s.bring(first)
	s.run()
	if !s.has(durable.Resent) {
		s.d.t.Fatalf("%s: events %+v: want that it appends again what was lost", s.home.name, s.events)
	}
}

// release brings the held requests to the store, and then all others.
func (s *seat) release() {
	s.d.t.Helper()
	held := s.held
	s.held, s.hold = nil, nil
	for _, r := range held {
		s.bring(r)
	}
	s.run()
}

// TestCheckpointBeforeTheRepetition: a checkpoint is wanted while lost commits wait to be appended
// again. It forgets neither states nor keys of these commits' entities, which are passivated.
func TestCheckpointBeforeTheRepetition(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.key("k", "one", "1")
	kept := d.last(0)
	a.key("k", "two", "2")
	a.commit("a", "1")
	a.commit("a", "2")
	a.core.Passivated("a")
	a.core.Passivated("k")
	a.run()
	a.loses(kept)
	a.core.Checkpoint(a.now())
	a.run()
	a.release()
	a.want("a", "2", 2)
	a.save("a", "k")
	a.want("a", "2", 2)
	b := d.seat(0, 2).open()
	b.want("a", "2", 2)
	b.pass(11 * time.Minute) // callers are forgotten
	b.verdict("k", keyed("one"), durable.Replay, "answer to 1")
	b.verdict("k", keyed("two"), durable.Replay, "answer to 2")
}

// TestHalfOfTheRepetition is TestCheckpointBeforeTheRepetition with so many lost commits that a
// checkpoint begins when a part of them is appended again.
func TestHalfOfTheRepetition(t *testing.T) {
	d := newCashier(t, 1)
	a := d.limited(0, 1, few).open()
	var kept store.Position
	for i := range 10 {
		id := fmt.Sprint("e", i)
		a.commit(id, fmt.Sprint(i))
		a.core.Passivated(id)
		if i == 3 {
			kept = d.last(0)
		}
	}
	d.lose(0, kept)
	d.server.judge.blind = true
	a.commit("other", "1")
	if !a.has(durable.Resent) {
		t.Fatalf("events %+v: want that the home appends again what was lost", a.events)
	}
	for i := range 10 {
		a.want(fmt.Sprint("e", i), fmt.Sprint(i), 1)
	}
	a.core.Checkpoint(a.now())
	a.run()
	b := d.limited(0, 2, few).open()
	for i := range 10 {
		b.want(fmt.Sprint("e", i), fmt.Sprint(i), 1)
	}
}

// lossDuringACheckpoint returns a home and the position kept. While the home's checkpoint of all
// entities was under way, the server lost all appends after kept, which are the commits of "a". The
// checkpoint has ended since. The appends that repeat the commits are held.
func lossDuringACheckpoint(t *testing.T) (a *seat, kept store.Position) {
	t.Helper()
	d := newCashier(t, 1)
	a = d.seat(0, 1).open()
	a.commit("x", "1")
	kept = d.last(0)
	a.commit("a", "1")
	a.commit("a", "2")
	a.core.Passivated("a")
	a.hold = only(durable.OpPut)
	a.core.Checkpoint(a.now())
	a.run()
	put := a.held[0]
	a.loses(kept)
	a.bring(put)
	a.run()
	return a, kept
}

// TestCheckpointOfAllDuringALoss: a checkpoint of all entities is under way when commits are lost.
// It does not move Since beyond the log's end, and forgets nothing.
func TestCheckpointOfAllDuringALoss(t *testing.T) {
	a, _ := lossDuringACheckpoint(t)
	d := a.d
	b := d.seat(0, 2).open() // as if a had died
	b.want("a", "2", 2)
	b.want("x", "1", 1)
	d.seat(0, 3).open().want("a", "2", 2)
}

// TestCheckpointAfterTheRepetition: the checkpoint of lossDuringACheckpoint is made again when the
// log has all commits again. The home has all of them too.
func TestCheckpointAfterTheRepetition(t *testing.T) {
	a, kept := lossDuringACheckpoint(t)
	d := a.d
	if since := d.server.head(0).Since; since != store.Start {
		t.Errorf("since is %d before the log has all again", since)
	}
	a.release()
	a.want("a", "2", 2)
	if since := d.server.head(0).Since; since <= kept {
		t.Errorf("since is %d: want that of another checkpoint, above %d", since, kept)
	}
	d.seat(0, 2).open().want("a", "2", 2)
}

// TestPositionsUsedAgain: the log goes on after the last append that a server has kept. So commits
// that are appended again may get positions after the one at which a later generation began.
func TestPositionsUsedAgain(t *testing.T) {
	for after := 1; after < 6; after++ {
		d := newCashier(t, 1)
		d.server.judge.blind = true
		a := d.limited(0, 1, few).open()
		a.commit("hot", "1")
		kept := d.last(0)
		a.commit("cold", "1")
		a.commit("hot", "2")
		a.commit("hot", "3") // a generation ends
		d.lose(0, kept)
		for i := range after {
			a.commit("hot", fmt.Sprint(i))
		}
		if !a.has(durable.Resent) {
			t.Fatalf("events %+v: want that the home appends again what was lost", a.events)
		}
		d.limited(0, 2, few).open().want("cold", "1", 1)
	}
}

// TestEndedKeysOfADay: an entity with a key ends. The log has events of it whose state is only in
// its record. When the key is a day old, nothing is left of the entity, and the next home opens the
// shard.
func TestEndedKeysOfADay(t *testing.T) {
	d := newCashier(t, 1)
	a := d.limited(0, 1, durable.Limits{TailCommits: 64})
	a.journal = true
	a.claim(1)
	a.open()
	turn := func(key, state string, ended bool) {
		t.Helper()
		a.state("a")
		d.seats++
		c := durable.Command{Source: durable.Source{Incarnation: 1}, Number: d.seats, Hash: 1}
		if key != "" {
			c = keyed(key)
		}
		a.core.Admit(a.now(), &c)
		turn := durable.Turn{Entity: "a", Ended: ended, Command: &c, Answer: []byte("answer")}
		if !ended {
			turn.State, turn.Events = []byte(state), [][]byte{{2}}
		}
		if _, err := a.core.Commit(a.now(), &turn); err != nil {
			t.Fatal(err)
		}
		a.run()
	}
	turn("k", "\x02", false)
	a.save() // now the entity has a record
	a.pass(23 * time.Hour)
	turn("", "\x04", false) // a whole state
	a.journal = false
	for i := range 32 { // this may end a generation
		a.commit(fmt.Sprint("n", i), "\x02")
	}
	turn("", "\x06", false) // only its event
	turn("", "", true)
	a.core.Passivated("a")
	a.pass(2 * time.Hour)
	for range 40 {
		a.commit("hot", "\x02")
	}
	b := d.limited(0, 2, few)
	b.journal = true
	b.claim(2)
	b.open()
}

// TestRepetitionOfRecords: lost commits whose states are in records are appended again. The home
// has forgotten their entities, or only the records have their states. The next checkpoint keeps
// these records.
func TestRepetitionOfRecords(t *testing.T) {
	for name, is := range map[string]struct{ active, reading, again bool }{
		"forgotten": {}, "read again": {again: true}, "being read": {reading: true},
		"active": {active: true}, "active, and read again": {active: true, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newCashier(t, 1)
			a := d.limited(0, 1, few).of("p", 2)
			var ids []string
			left := 0 // the number of appends whose commits are all in records, because of keys
			for i := 0; left == 0 && i < 50; i++ {
				ids = append(ids, fmt.Sprint(i))
				if a.write(ids[i], "of "+ids[i], 0); !is.active {
					a.core.Passivated(ids[i])
				}
				if h := d.server.head(0); len(d.server.shards[0].records["e"+ids[i]]) > 0 && h.Since > store.Start {
					left = int(d.last(0) - h.Since)
				}
			}
			if left == 0 {
				t.Fatal("the log has no commits that are in records")
			}
			a.loses(d.server.head(0).Since)
			if is.reading {
				a.hold = func(r durable.Request) bool { return own(r) || r.Op == durable.OpGet }
				for _, id := range ids {
					a.core.Load(a.now(), id)
				}
				a.run()
			}
			a.release()
			for _, id := range ids {
				a.core.Passivated(id)
				if is.again {
					a.want(id, "of "+id, 1)
					a.core.Passivated(id)
				}
			}
			a.save()
			b := d.limited(0, 3, few).of("p", 3)
			for _, id := range ids {
				b.want(id, "of "+id, 1)
			}
		})
	}
}
