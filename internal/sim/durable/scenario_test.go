package durable

import (
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// TestTrimDuringTakeOver: the new home takes over when the old home's checkpoint has written its
// records, and its head is under way. Only the head that is written trims the log. A home that
// claims keeps the Since of the head that it replaces.
func TestTrimDuringTakeOver(t *testing.T) {
	for _, c := range []struct {
		name  string
		first bool // the old home's head arrives before the new home's
	}{{"the claim's head first", false}, {"the checkpoint's head first", true}} {
		t.Run(c.name, func(t *testing.T) {
			d := newCashier(t, 1)
			a := d.seat(0, 1).open()
			a.commit("a", "1")
			a.commit("b", "1")
			a.commit("a", "2")
			a.hold = only(durable.OpSetHead)
			a.core.Checkpoint(d.w.clock())
			a.run()
			a.commit("a", "3") // the old home goes on meanwhile

			b := d.seat(0, 2)
			b.hold = only(durable.OpSetHead)
			b.run() // the new home has read the head
			a.hold, b.hold = nil, nil
			held := [2]*seat{b, a}
			if c.first {
				held = [2]*seat{a, b}
			}
			for _, s := range held {
				s.bring(s.held[0])
				s.run()
			}
			b.open().want("a", "3", 3)
			b.want("b", "1", 1)
			b.commit("b", "2")
			a.run()
			if a.core.State() == durable.Open {
				late := a.apply("a", durable.Command{Source: durable.Source{Incarnation: 1}, Number: 99}, "late")
				a.run()
				if a.ready >= late || a.core.State() != durable.Dropped {
					t.Errorf("the old home acknowledges commits behind another's claim, state %d", a.core.State())
				}
			}
			d.seat(0, 3).open().want("b", "2", 2)
		})
	}
}

// TestCancelledMoveWithALateClaim: the new home has written the head, its claim is under way, and
// the move is cancelled. The old home claims again, under the epoch with which it goes on. The late
// claim is void. A home that finds it at the end of the log claims again.
func TestCancelledMoveWithALateClaim(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.commit("a", "1")
	b := d.seat(0, 2)
	b.hold = only(durable.OpAppend)
	b.run()

	a.core.Drop()
	a.claim(3)
	a.open().commit("a", "2")
	if got := b.bring(b.held[0]); got.Outcome != durable.OK {
		t.Fatalf("the late claim: outcome %d, want that it is appended", got.Outcome)
	}
	b.hold = nil
	b.run()
	if b.core.State() != durable.Dropped {
		t.Errorf("the claim of a cancelled move holds the shard, state %d", b.core.State())
	}
	a.commit("a", "3")
	if !a.has(durable.Reclaimed) {
		t.Error("the shard was not claimed again behind the late claim")
	}
	a.want("a", "3", 3)
	d.seat(0, 4).open().want("a", "3", 3)
}

// TestLateClaimOnTopOfAnother is TestCancelledMoveWithALateClaim with no append between the two
// claims.
func TestLateClaimOnTopOfAnother(t *testing.T) {
	d := newCashier(t, 1)
	b := d.seat(0, 2)
	b.hold = only(durable.OpAppend)
	b.run()
	a := d.seat(0, 3).open()
	b.bring(b.held[0])
	c := d.seat(0, 4).open() // the third home ignores the void claim
	a.run()
	c.commit("a", "1")
	d.seat(0, 5).open().want("a", "1", 1)
}

// TestLostTermRecord: a coordinator that has lost its term record places a shard under an epoch
// that is below the head's, or that another home has. The home reports the epoch that it met. Under
// a higher epoch the shard opens.
func TestLostTermRecord(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 7).open()
	a.commit("a", "1")
	for _, epoch := range []uint64{1, 6, 7} {
		b := d.seat(0, epoch)
		b.run()
		if b.core.State() != durable.Dropped || len(b.events) != 1 || b.events[0].Epoch != 7 {
			t.Fatalf("a claim under %d: state %d, events %+v: want that it ends with epoch 7", epoch, b.core.State(), b.events)
		}
	}
	a.commit("a", "2")
	d.seat(0, 8).open().want("a", "2", 2)
}

// TestLostTermRecordWithAStaleHead: the home reads a stale head, and the compare-and-set of its
// claim meets the newer head.
func TestLostTermRecordWithAStaleHead(t *testing.T) {
	d := newCashier(t, 1)
	b := d.seat(0, 3)
	b.hold = only(durable.OpSetHead)
	b.run()
	a := d.seat(0, 3).open()
	a.commit("a", "1")
	b.hold = nil
	b.bring(b.held[0])
	b.run()
	if b.core.State() != durable.Dropped || b.events[0].Epoch != 3 {
		t.Fatalf("state %d, events %+v: want that it ends with epoch 3", b.core.State(), b.events)
	}
	a.commit("a", "2")
}

// TestShardOpensAfterALostTerm runs TestLostTermRecord with a coordinator. All processes die after
// it has lost its term record, so that only the store knows the epochs.
func TestShardOpensAfterALostTerm(t *testing.T) {
	r := lostTerm(without{})
	if r.Err != nil {
		t.Error(r.Err)
	}
	if r = lostTerm(without{lostTerm: true}); r.Err == nil {
		t.Error("a coordinator that does not go above the epochs that were met opens the shards too: the scenario shows nothing")
	}
}

// TestTellAgainAfterAWeek: the receiver has committed a tell, its acknowledgement is lost, and the
// sender's home is gone for a week. Then the tell is sent again. It is not applied again, whether
// the receiver's home is still the same or another home has recovered the shard.
func TestTellAgainAfterAWeek(t *testing.T) {
	for _, moved := range []bool{false, true} {
		d := newCashier(t, 2)
		a, b := d.seat(0, 1).open(), d.seat(1, 1).open()
		a.apply("a", durable.Command{Source: durable.Source{Incarnation: 1}, Number: 1}, "told",
			durable.Tell{Target: durable.Target{Log: logName, Shard: 1}, Entity: "b", Body: []byte("add")})
		a.run()
		if len(a.tells) == 0 {
			t.Fatal("nothing is told")
		}
		b.apply("b", told(a.tells[0]), "1")
		b.run()
		d.w.now += 7 * 24 * time.Hour
		b.core.Tick(d.w.clock())
		b.run()
		if moved {
			b.core.Checkpoint(d.w.clock())
			b.run()
			b = d.seat(1, 2).open()
		}
		a = d.seat(0, 2).open()
		if len(a.tells) == 0 {
			t.Fatal("the tell is not sent again: it was neither acknowledged nor given up")
		}
		got := b.core.Admit(d.w.clock(), new(told(a.tells[0])))
		if got.Verdict != durable.Replay {
			t.Errorf("moved %v: the tell comes again: verdict %d, want that it is replayed", moved, got.Verdict)
		}
	}
}

// told returns the command of a tell from shard 0, as its receiver gets it.
func told(tell durable.Tell) durable.Command {
	return durable.Command{Source: durable.Source{Log: logName}, Number: tell.Number, Floor: tell.Floor, Hash: 7}
}

// TestNestedCallOfATurnThatBranches: a turn calls another entity and dies before its commit. It
// runs again, and may make other calls. The same call is replayed, and a call to another entity
// runs. A call with other arguments is an error, and never gets the first call's answer.
func TestNestedCallOfATurnThatBranches(t *testing.T) {
	d := newCashier(t, 2)
	a, b := d.seat(0, 1).open(), d.seat(1, 1).open()
	root := durable.Command{Source: durable.Source{Incarnation: 1}, Number: 5, Floor: 5, Hash: 1}
	nested := func(target string, hash uint64) durable.Command {
		var calls durable.Calls
		c := root
		c.Path, c.Hash = calls.Path(root.Path, target, "add"), hash
		return c
	}
	a.state("a")
	a.core.Admit(d.w.clock(), &root)
	first := b.apply("x", nested("x", 10), "first run")
	b.run()
	if b.ready < first {
		t.Fatal("the nested call is not committed")
	}

	a = d.seat(0, 2).open() // the home has died, and another command comes first
	a.commit("a", "other")
	if v := a.core.Admit(d.w.clock(), &root).Verdict; v != durable.Run {
		t.Fatalf("the command comes again: verdict %d, want that it runs", v)
	}
	for _, c := range []struct {
		name    string
		command durable.Command
		want    durable.Verdict
	}{
		{"the same call", nested("x", 10), durable.Replay},
		{"the same method with other arguments", nested("x", 11), durable.Mismatch},
		{"another entity", nested("y", 10), durable.Run},
	} {
		if got := b.core.Admit(d.w.clock(), &c.command); got.Verdict != c.want {
			t.Errorf("%s: verdict %d, want %d", c.name, got.Verdict, c.want)
		} else if c.want == durable.Replay && string(got.Answer) != "answer to first run" {
			t.Errorf("%s: answer %q", c.name, got.Answer)
		}
	}
}

// lostTerm runs callers, loses the term record, kills all processes, and ends the run.
func lostTerm(w without) Result {
	p := plan{homes: 3, shards: 2, accounts: 4, callers: 2, think: 10 * time.Millisecond, idle: time.Second, padding: 1, without: w}
	r := newRun(p, newRandom(1), nil)
	for i := range p.callers {
		newCaller(r).act(i)
	}
	r.w.run(3*time.Second, nil)
	for range 30 { // each move raises an epoch
		r.coordinator.move(0)
		r.coordinator.move(1)
		r.w.run(300*time.Millisecond, nil)
	}
	r.coordinator.forget()
	r.coordinator.epoch = 0
	for _, h := range append([]*home(nil), r.homes...) {
		r.crash(h)
	}
	return r.end()
}

// TestDoubtThatAClaimSettledIsOver: an append is in the log, its answer is lost, and a later claim
// finds the append. After a checkpoint the log is read from that claim on, so the append is not
// found again. It must not be taken for an append that the store has lost.
func TestDoubtThatAClaimSettledIsOver(t *testing.T) {
	d := newCashier(t, 1)
	b := d.seat(0, 1)
	b.hold = only(durable.OpAppend)
	b.run()
	again := b.held[0]
	a := d.seat(0, 2).open()
	a.state("a")
	a.hold = func(r durable.Request) bool {
		if r.Op != durable.OpAppend {
			return false
		}
		if _, err := d.server.serve(a.home, 0, r); err != nil {
			t.Fatal(err)
		}
		a.core.Done(d.w.clock(), durable.Response{ID: r.ID, Outcome: durable.Uncertain})
		a.hold = nil
		return true
	}
	a.apply("a", number(1, 1), "1")
	a.run()
	if !a.has(durable.Reclaimed) {
		t.Fatalf("events %+v: want that the doubt is settled by a claim", a.events)
	}
	a.core.Checkpoint(d.w.clock())
	a.run()
	if _, err := d.server.serve(b.home, 0, again); err != nil {
		t.Fatal(err)
	}
	a.commit("a", "2")
	if a.has(durable.Resent) {
		t.Error("appends that stand were appended again")
	}
	d.seat(0, 3).open().want("a", "2", 2)
}

// TestCheckpointInDoubtIsNotSettledByAStaleHead: the head of a checkpoint is written, and its
// answer is lost. The home then reads its former head. It must not conclude that the head was not
// written.
func TestCheckpointInDoubtIsNotSettledByAStaleHead(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.commit("a", "1")
	k := d.server.shards[0]
	former := k.headAt(d.server.revision)
	stale := 0
	a.hold = func(r durable.Request) bool {
		switch {
		case r.Op == durable.OpSetHead && stale == 0:
			stale++
			if _, err := d.server.serve(a.home, 0, r); err != nil {
				t.Fatal(err)
			}
			a.core.Done(d.w.clock(), durable.Response{ID: r.ID, Outcome: durable.Uncertain})
			return true
		case r.Op == durable.OpHead && stale < 3:
			stale++
			a.core.Done(d.w.clock(), durable.Response{ID: r.ID, Head: former})
			return true
		}
		return false
	}
	a.core.Checkpoint(d.w.clock())
	a.run()
	if stale < 3 || !a.has(durable.Checkpointed) {
		t.Fatalf("%d stale answers, events %+v", stale, a.events)
	}
	a.commit("a", "2")
	a.core.Checkpoint(d.w.clock())
	a.run()
	if a.core.Busy() {
		t.Error("the next checkpoint does not end")
	}
	d.seat(0, 2).open().want("a", "2", 2)
}

// TestStaleHeadOfATrimmedLog: another home has the shard and has trimmed the log. A home that
// claims again, and always reads its own stale head, does not take the log for lost.
func TestStaleHeadOfATrimmedLog(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.commit("x", "1")
	a.save("x")
	stale := d.server.head(0)
	b := d.seat(0, 2).open()
	b.commit("x", "2")
	b.save()
	a.hold = only(durable.OpHead)
	a.apply("y", durable.Command{Source: durable.Source{Incarnation: 1}, Number: 900}, "3")
	for range 20 {
		a.run()
		for _, r := range a.held {
			a.core.Done(a.now(), durable.Response{ID: r.ID, Head: stale})
		}
		a.held = nil
	}
	last := a.events[len(a.events)-1]
	if last.Kind != durable.Ended || last.Err != nil || last.Epoch != 1 {
		t.Errorf("events %+v: want that it gives the shard up, without an error", a.events)
	}
	b.want("x", "2", 2)
}

// TestForgedAppendsDoNotCount: appends under another claim than the highest are not recovered,
// whoever wrote them.
func TestForgedAppendsDoNotCount(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.commit("a", "1")
	k := d.server.shards[0]
	forged := k.log[len(k.log)-1]
	d.seat(0, 2).open().commit("a", "2")
	d.server.position++
	forged.Position = d.server.position
	k.log = append(k.log, forged)
	d.seat(0, 3).open().want("a", "2", 2)
}

// TestLoadMeetsAnotherHome: an entity that is not in memory is read together with the head. If the
// head is another home's, the shard is dropped, and nothing is loaded.
func TestLoadMeetsAnotherHome(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.commit("a", "0")
	a.core.Checkpoint(d.w.clock())
	a.run()
	d.seat(0, 2).open().commit("a", "1")
	a.core.Load(d.w.clock(), "a")
	a.run()
	if l, loaded := a.loaded["a"]; loaded || a.core.State() != durable.Dropped || a.events[len(a.events)-1].Epoch != 2 {
		t.Errorf("loaded %v %+v, state %d, events %+v: want that the shard is dropped for epoch 2", loaded, l, a.core.State(), a.events)
	}
}

// TestNewEntityOfNewShard: a shard that had no head reads nothing for an entity that it has not
// written. It reads an entity that it has written, and any entity once the shard has had another
// home.
func TestNewEntityOfNewShard(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	at := func(s *seat, id string) bool {
		_, there := s.core.Load(d.w.clock(), id)
		return there
	}
	if !at(a, "a") {
		t.Error("a new shard reads the record of a new entity")
	}
	a.commit("a", "1")
	a.core.Passivated("a")
	a.core.Checkpoint(d.w.clock())
	a.run()
	if at(a, "a") {
		t.Error("an entity is taken for a new one that has a record")
	}
	a.want("a", "1", 1)
	if !at(a, "b") {
		t.Error("a new entity is read after a checkpoint of others")
	}
	if b := d.seat(0, 2).open(); at(b, "b") {
		t.Error("a shard that had a home before does not read")
	}
}

// TestShardIsNotNewAfterAStaleRead: the answer to the write of a head is lost, and a lagging
// replica then shows no head of the shard. The shard does not count as new again.
func TestShardIsNotNewAfterAStaleRead(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.commit("a", "1")
	a.save("a")
	b := d.seat(0, 2)
	written, stale := false, false
	b.hold = func(r durable.Request) bool {
		switch {
		case r.Op == durable.OpSetHead && !written:
			written = true
			b.core.Done(b.now(), durable.Response{ID: b.unanswered(r).ID, Outcome: durable.Uncertain})
		case r.Op == durable.OpHead && written && !stale:
			stale = true
			b.core.Done(b.now(), durable.Response{ID: r.ID})
		default:
			return false
		}
		return true
	}
	b.open()
	if !stale {
		t.Fatal("the head was not read again")
	}
	b.want("a", "1", 1)
}

// TestLatePutOfTheJournal: a Put of the journal has an unknown outcome, so it is repeated, and the
// first one arrives late. It must not undo later Puts. Therefore the head changes before the later
// Puts.
func TestLatePutOfTheJournal(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1)
	a.journal = true
	a.claim(1)
	a.open()
	var late *durable.Request
	a.hold = func(r durable.Request) bool {
		if r.Op == durable.OpPut && late == nil {
			late = &r
			return true
		}
		return false
	}
	a.commit("a", "\x02")
	if late == nil {
		t.Fatal("events are not written to the journal by themselves")
	}
	a.core.Done(d.w.clock(), durable.Response{ID: late.ID, Outcome: durable.Uncertain})
	a.run()
	a.commit("a", "\x04")
	a.commit("a", "\x06")
	a.bring(*late)
	place, n := durable.Place{}, 0
	for range 5 {
		events, after, err := place.Look(func(keys ...string) (records []store.Record, err error) {
			for _, key := range keys {
				records = append(records, d.server.record(0, key))
			}
			return records, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		n, place = n+len(events), after
	}
	if n != 3 {
		t.Errorf("a follower reads %d events, want 3: a late Put has undone the journal", n)
	}
}

// TestEventsFollowARecord: when a checkpoint begins, commits with only events are under way. The
// log then has them after the head's Since, without the state that they follow. The next home takes
// the state from the record.
func TestEventsFollowARecord(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1)
	a.journal = true
	a.claim(1)
	a.open()
	a.commit("a", "\x02")
	a.hold = only(durable.OpAppend)
	a.apply("a", durable.Command{Source: durable.Source{Incarnation: 1}, Number: 900}, "\x04")
	a.run()
	a.core.Checkpoint(d.w.clock())
	a.run()
	a.hold = nil
	a.bring(a.held[0])
	a.run()
	b := d.seat(0, 2)
	b.journal = true
	b.claim(2)
	b.open()
	l := b.state("a")
	if got := fold(l.State, l.Since); got != 2 || l.Version != 2 {
		t.Errorf("the entity is %d, version %d, events since its state %q: want 2, version 2", got, l.Version, l.Since)
	}
}

// refused requires that the seat does not open the shard, because the store has lost a part of the
// log. why is a part of the error's text.
func (s *seat) refused(why string) {
	s.d.t.Helper()
	s.run()
	for _, e := range s.events {
		if e.Err != nil && strings.Contains(e.Err.Error(), why) && strings.Contains(e.Err.Error(), "shardctl store repair") {
			return
		}
	}
	s.d.t.Errorf("%s: state %d, events %+v: want that it refuses the shard, since %q", s.home.name, s.core.State(), s.events, why)
}

// TestHeadIsLost: the store has lost the head of a shard with a log. No home opens the shard,
// because the records that the shard had are unknown. This holds even after a first home has
// written a new head.
func TestHeadIsLost(t *testing.T) {
	d := blindCashier(t)
	a := d.seat(0, 1).open()
	a.commit("x", "1")
	d.server.shards[0].head = nil
	for epoch := range uint64(3) {
		d.seat(0, 2+epoch).refused("is older than the head")
	}
}

// TestLogLacksItsBeginning: the store has lost the first appends of a log that was never trimmed.
// No home opens the shard.
func TestLogLacksItsBeginning(t *testing.T) {
	d := blindCashier(t)
	a := d.seat(0, 1).open()
	a.commit("x", "1")
	a.commit("y", "1")
	log := d.server.shards[0].log
	if since := d.server.head(0).Since; since != store.Start {
		t.Fatalf("the head needs the log from %d, want from its start", since)
	}
	d.server.shards[0].log = log[len(log)-1:]
	for epoch := range uint64(2) {
		d.seat(0, 2+epoch).refused("is no claim")
	}
}

// TestHeadWithoutClaim: a home dies between its head and its claim, and another claim arrives late.
// Other homes can open the shard afterwards.
func TestHeadWithoutClaim(t *testing.T) {
	d := blindCashier(t)
	late := d.late(2)
	a := d.seat(0, 3)
	a.hold = only(durable.OpAppend)
	a.run()
	late()
	b := d.seat(0, 4).open()
	b.commit("x", "1")
	a.bring(a.held[0])
	d.seat(0, 5).open().want("x", "1", 1)
}
