package durable

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// blindCashier returns a desk whose server loses appends and uses their positions again. Its judge
// checks nothing.
func blindCashier(t *testing.T) *desk {
	d := newCashier(t, 1)
	d.server.judge.blind = true
	return d
}

// late returns a function that brings a late claim to the store. The claim is of a home that did
// not get the shard.
func (d *desk) late(epoch uint64) (bring func()) {
	z := d.seat(0, epoch)
	z.hold = only(durable.OpAppend)
	z.run()
	return func() { z.bring(z.held[0]) }
}

// wait runs a seat for the time d, even while a request is unanswered.
func (s *seat) wait(d time.Duration) {
	for end := s.d.w.now + d; s.d.w.now < end; {
		out := s.core.Take()
		s.events = append(s.events, out.Events...)
		s.ready = max(s.ready, out.Durable)
		for _, r := range out.Requests {
			if s.hold == nil || !s.hold(r) {
				s.bring(r)
			}
		}
		s.d.w.now += 10 * time.Millisecond
		s.core.Tick(s.now())
	}
}

// begun applies a command, and does not wait for its append.
func (s *seat) begun(id, state string) durable.Ticket {
	s.d.seats++
	return s.apply(id, durable.Command{Source: durable.Source{Incarnation: 1}, Number: s.d.seats, Hash: 1}, state)
}

// TestClaimsInDoubtHideNothing: claims whose answers are lost get the positions of commits that the
// log has lost. Nevertheless the home writes these commits to records.
func TestClaimsInDoubtHideNothing(t *testing.T) {
	d := blindCashier(t)
	a := d.seat(0, 1).open()
	a.commit("z", "1")
	kept := d.last(0)
	a.commit("x", "1")
	b := d.seat(0, 2).open()
	d.lose(0, kept)
	n := 0
	b.hold = func(r durable.Request) bool {
		if r.Op != durable.OpAppend || r.Expect != store.Any || n == 2 {
			return false
		}
		n++
		b.core.Done(b.now(), durable.Response{ID: b.unanswered(r).ID, Outcome: durable.Uncertain})
		return true
	}
	b.commit("y", "1")
	if !b.has(durable.Orphaned) {
		t.Errorf("events %+v: want Orphaned", b.events)
	}
	d.seat(0, 3).open().want("x", "1", 1)
}

// checkpointUntrimmed makes a checkpoint of all entities, without trimming the log.
func (s *seat) checkpointUntrimmed() {
	s.hold = only(durable.OpTrim)
	s.core.Checkpoint(s.now())
	s.run()
}

// TestClaimAtSince: the log is lost from the head's Since on, and the home's claim gets that
// position. The home writes a checkpoint, and the next home has all its commits.
func TestClaimAtSince(t *testing.T) {
	d := blindCashier(t)
	a := d.seat(0, 1).open()
	a.commit("w", "0")
	a.commit("w", "1")
	a.checkpointUntrimmed()
	since := d.server.head(0).Since
	a.commit("x", "1")
	b := d.seat(0, 2)
	b.hold = only(durable.OpTrim)
	b.open().want("x", "1", 1)
	d.lose(0, since-1)
	b.commit("y", "1")
	if now := d.server.head(0).Since; now <= since {
		t.Errorf("since is %d: want that of a checkpoint, above %d", now, since)
	}
	c := d.seat(0, 3).open()
	c.want("y", "1", 1)
	c.want("x", "1", 1)
}

// TestClaimAtSinceOfAnother is TestClaimAtSince, but all states are in records, and the append at
// Since was the claim of a former home. The next home opens the shard.
func TestClaimAtSinceOfAnother(t *testing.T) {
	d := blindCashier(t)
	a := d.seat(0, 1).open()
	a.commit("w", "1")
	a.save("w")
	a = d.seat(0, 2).open()
	a.checkpointUntrimmed()
	b := d.seat(0, 3).open()
	d.lose(0, d.server.head(0).Since-1)
	b.commit("y", "1")
	c := d.seat(0, 4).open()
	c.want("y", "1", 1)
	c.want("w", "1", 1)
}

// TestClaimsOfOlderHomesAreNoCommits: the server loses the claim that opened the shard. The home
// does not report lost commits.
func TestClaimsOfOlderHomesAreNoCommits(t *testing.T) {
	d := blindCashier(t)
	a := d.seat(0, 1).open()
	a.commit("x", "1")
	kept := d.last(0)
	b := d.seat(0, 2).open()
	d.lose(0, kept)
	b.begun("y", "1")
	b.run()
	if b.has(durable.Orphaned) || b.has(durable.Resent) {
		t.Errorf("events %+v: want none of lost appends", b.events)
	}
}

// TestClaimsComeToSince: homes that cannot open the shard append claims, until the log reaches the
// position Since from which the head needs it. No later home takes these claims for the lost
// appends.
func TestClaimsComeToSince(t *testing.T) {
	d := blindCashier(t)
	a := d.seat(0, 1).open()
	for i := range 4 {
		a.commit("w", fmt.Sprint(i))
	}
	a.checkpointUntrimmed()
	since := d.server.head(0).Since
	a.commit("x", "1")
	d.lose(0, since-3)
	for epoch := uint64(2); epoch < 10; epoch++ {
		b := d.seat(0, epoch)
		b.run()
		if len(b.events) != 1 || b.events[0].Err == nil {
			t.Fatalf("epoch %d: events %+v: want that the shard is not opened", epoch, b.events)
		}
	}
}

// TestHeadOnItsWayDuringALoss: a checkpoint has sent a head, and the store loses the log that this
// head needs. The home acknowledges nothing that a later home could not find. It goes on once that
// head can no longer arrive, and gives the shard up if the head has arrived.
func TestHeadOnItsWayDuringALoss(t *testing.T) {
	for _, sparse := range []bool{false, true} {
		for _, comes := range []bool{false, true} {
			headDuringALoss(t, sparse, comes)
		}
	}
}

func headDuringALoss(t *testing.T, sparse, comes bool) {
	t.Helper()
	{
		d := newCashier(t, 1)
		a := d.seat(0, 1).open()
		a.commit("z", "1")
		kept := d.last(0)
		if sparse {
			d.server.position += 30 // other logs
		}
		for i := range 4 {
			a.commit(fmt.Sprint("a", i), "1")
		}
		b := d.seat(0, 2).open()
		b.hold = only(durable.OpSetHead)
		b.core.Checkpoint(b.now())
		b.run()
		d.lose(0, kept)
		d.server.judge.blind = true
		ticket := b.begun("y", "0")
		b.run()
		if b.ready >= ticket {
			t.Error("acknowledged while the head is on its way")
		}
		sent, mend := b.held[0], b.held[1]
		b.held, b.hold = nil, nil
		if comes {
			sent, mend = mend, sent
		}
		b.bring(mend)
		b.bring(sent)
		b.run()
		if !comes {
			c := d.seat(0, 3).open()
			for i := range 4 {
				c.want(fmt.Sprint("a", i), "1", 1)
			}
			c.want("y", "0", 1)
			return
		}
		if b.wait(time.Minute); b.ready >= ticket || b.core.State() != durable.Dropped {
			t.Errorf("acknowledged %v, events %+v: want that the home ends", b.ready >= ticket, b.events)
		}
	}
}

// TestClaimIsLostAlone: a home claims again after a conflict, and a checkpoint under way moves
// Since beyond that claim. Then the claim is lost. The next home has all commits of this one.
func TestClaimIsLostAlone(t *testing.T) {
	d := newCashier(t, 1)
	stray := d.late(1)
	a := d.limited(0, 2, few).open()
	a.commit("x", "1")
	kept := d.last(0)
	stray()
	d.server.position += 30
	a.hold = func(r durable.Request) bool { return own(r) && a.has(durable.Reclaimed) }
	a.begun("y", "1")
	a.run()
	held := a.held
	a.held, a.hold = nil, only(durable.OpPut)
	a.core.Checkpoint(a.now())
	a.run()
	d.lose(0, kept)
	d.server.judge.blind = true
	for _, r := range held {
		a.bring(r)
	}
	a.run()
	a.release()
	for i := range 3 {
		a.commit("y", fmt.Sprint(i))
	}
	d.seat(0, 3).open().want("y", "2", 4)
}

// TestTwoLosses: a home claims again after a loss, and a generation begins after that claim. The
// claim is lost before the lost commits are appended again. No head needs the log beyond its end,
// and the next home has all commits.
func TestTwoLosses(t *testing.T) {
	d := newCashier(t, 1)
	a := d.limited(0, 1, few).open()
	a.commit("z", "1")
	kept := d.last(0)
	a.commit("x", "1")
	d.lose(0, kept)
	d.server.position = 100 // the stream has kept later appends of other shards
	a.hold = own
	a.begun("y", "1")
	a.run()
	first := a.held[0] // this append meets the conflict
	a.held = nil
	a.bring(first)
	a.run()
	d.lose(0, kept)
	d.server.judge.blind = true
	a.release()
	for i := range 6 {
		a.commit("y", fmt.Sprint(i))
		a.commit("v", fmt.Sprint(i))
		if since := d.server.head(0).Since; since > d.last(0) {
			t.Fatalf("since %d is beyond the log's end %d", since, d.last(0))
		}
	}
	c := d.seat(0, 3).open()
	c.want("x", "1", 1)
	c.want("v", "5", 6)
}

// TestConflictWhileTheHeadIsOutstanding: a home has claimed again after a conflict, and has sent a
// head that needs the log only from that claim on. After the next conflict it does not take its
// older appends for lost.
func TestConflictWhileTheHeadIsOutstanding(t *testing.T) {
	d := newCashier(t, 1)
	first, second := d.late(1), d.late(2)
	a := d.seat(0, 3).open()
	a.commit("x", "1")
	first()
	a.hold = func(r durable.Request) bool { return own(r) && a.has(durable.Reclaimed) }
	ticket := a.begun("y", "1")
	a.run()
	held := a.held
	var answer durable.Response
	a.hold = func(r durable.Request) bool {
		if r.Op == durable.OpSetHead {
			answer = a.unanswered(r)
		}
		return r.Op == durable.OpSetHead
	}
	a.core.Checkpoint(a.now())
	a.run()
	second()
	for _, r := range held {
		a.bring(r)
	}
	a.wait(time.Second)
	a.core.Done(a.now(), answer)
	a.run()
	if a.ready < ticket || a.has(durable.Resent) || a.has(durable.Orphaned) {
		t.Errorf("acknowledged %v, events %+v: want that nothing is taken for lost", a.ready >= ticket, a.events)
	}
}

// unanswered makes the store carry out a request, and returns the answer for later.
func (s *seat) unanswered(r durable.Request) durable.Response {
	s.d.t.Helper()
	a, err := s.d.server.serve(s.home, s.shard, r)
	if err != nil {
		s.d.t.Fatal(err)
	}
	a.ID = r.ID
	return a
}

// TestTrimmedWhileTheHeadIsOutstanding: a checkpoint's head is written, and its answer is still
// missing. Another shard's trim of the common stream then removes the log before that head's Since.
// After a conflict the home reads the log from the new Since, and takes nothing for lost.
func TestTrimmedWhileTheHeadIsOutstanding(t *testing.T) {
	for _, earlier := range []bool{false, true} { // whether the shard has had a checkpoint before
		d := newCashier(t, 1)
		stray := d.late(1)
		a := d.seat(0, 2).open()
		a.commit("x", "1")
		if earlier {
			a.core.Checkpoint(a.now())
			a.run()
		}
		a.commit("x", "2")
		var answer durable.Response
		a.hold = func(r durable.Request) bool {
			if r.Op == durable.OpSetHead {
				answer = a.unanswered(r)
			}
			return r.Op == durable.OpSetHead
		}
		a.core.Checkpoint(a.now())
		a.run()
		a.bring(durable.Request{Op: durable.OpTrim, Head: d.server.head(0)})
		stray()
		ticket := a.begun("y", "1")
		a.wait(2 * time.Second)
		a.core.Done(a.now(), answer)
		a.run()
		if a.ready < ticket || a.has(durable.Ended) || a.has(durable.Orphaned) || a.has(durable.Resent) {
			t.Errorf("acknowledged %v, events %+v: want that it goes on", a.ready >= ticket, a.events)
		}
	}
}
