package durable

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// number returns a command of the only caller, with a number and a floor.
func number(n, floor uint64) durable.Command {
	return durable.Command{Source: durable.Source{Incarnation: 9}, Number: n, Floor: floor, Hash: n}
}

// appends returns how many entries each of a shard's appends has. It leaves out claims.
func (d *desk) appends(shard int) (counts []int) {
	for _, p := range d.server.shards[shard].log {
		a := &wire.DurableAppend{}
		if err := decode(p.Data, a); err != nil {
			d.t.Fatal(err)
		}
		if a.GetCounter() > 0 {
			counts = append(counts, len(a.GetEntries()))
		}
	}
	return counts
}

// TestCommitsShareAnAppend: commits that come before an append begins, or while one is under way,
// share one append. Those that do not fit go into the next one.
func TestCommitsShareAnAppend(t *testing.T) {
	d := newCashier(t, 1)
	a := d.limited(0, 1, durable.Limits{AppendBytes: 1000}).open()
	state := strings.Repeat("x", 100)
	var last durable.Ticket
	for i := range uint64(8) {
		last = a.apply("a", number(i+1, 1), state)
	}
	a.run()
	if got := d.appends(0); !slices.Equal(got, []int{3, 3, 2}) {
		t.Errorf("appends of %v commits, want as many in each as fit in 1000 bytes", got)
	}
	if a.ready < last {
		t.Errorf("%d of %d are acknowledged", a.ready, last)
	}
	for _, p := range d.server.shards[0].log {
		if len(p.Data) > 1000 {
			t.Errorf("an append of %d bytes, want at most 1000", len(p.Data))
		}
	}
}

// TestCommitTooLarge: a commit that is too large fails only its turn, before it is sent.
func TestCommitTooLarge(t *testing.T) {
	d := newCashier(t, 1)
	a := d.limited(0, 1, durable.Limits{AppendBytes: 1000}).open()
	a.commit("a", "1")
	c := number(1, 1)
	a.core.Admit(d.w.clock(), &c)
	_, err := a.core.Commit(d.w.clock(), &durable.Turn{Entity: "a", State: make([]byte, 1000), Command: &c})
	if !errors.Is(err, durable.ErrTooLarge) || !strings.Contains(err.Error(), `"a"`) {
		t.Fatalf("got %v, want ErrTooLarge with the entity's name", err)
	}
	a.core.Discard(&c)
	a.want("a", "1", 1)
	a.commit("a", "2")
	if v := a.core.Admit(d.w.clock(), &c).Verdict; v != durable.Run {
		t.Errorf("the command comes again: verdict %d, want that it runs", v)
	}
}

// TestStoreTakesLess: the store's limit is lower than the shard assumes. An append of several
// commits is divided; one commit that is too large ends the shard with an error.
func TestStoreTakesLess(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	takes := 600
	less := func(r durable.Request) bool {
		if r.Op == durable.OpAppend && len(r.Data) > takes {
			a.core.Done(d.w.clock(), durable.Response{ID: r.ID, Outcome: durable.TooLarge, Err: &store.TooLargeError{Size: len(r.Data), Limit: takes}})
			return true
		}
		return false
	}
	a.hold = less
	var last durable.Ticket
	for i := range uint64(8) {
		last = a.apply("a", number(i+1, 1), strings.Repeat("x", 100))
	}
	a.run()
	if a.ready < last {
		t.Fatalf("%d of %d are acknowledged: appends of %v", a.ready, last, d.appends(0))
	}
	a = d.seat(0, 2).open()
	a.hold = less
	a.apply("a", number(9, 1), strings.Repeat("x", 700))
	a.run()
	if e := a.events[len(a.events)-1]; a.core.State() != durable.Dropped || !errors.Is(e.Err, store.ErrTooLarge) {
		t.Errorf("state %d, event %+v: want that it ends with the store's error", a.core.State(), e)
	}
}

// TestOverloaded: the number of commands that a shard remembers is bounded. Further calls are
// refused.
func TestOverloaded(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits durable.Limits
		answer int
		tell   int
		floor  bool // the caller reports its finished commands
		stuck  bool // the store takes no records
	}{
		{"ids", durable.Limits{Commands: 50}, 1, 0, false, false},
		{"answers", durable.Limits{CommandBytes: 50_000}, 1000, 0, false, false},
		{"tells", durable.Limits{Tells: 50}, 1, 1, true, false},
		{"bytes of tells", durable.Limits{TellBytes: 50_000}, 1, 1000, true, false},
		{"commits of the tail", durable.Limits{TailCommits: 20}, 1, 0, true, true},
		{"bytes of the tail", durable.Limits{TailBytes: 20_000}, 1, 0, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newCashier(t, 2)
			a := d.limited(0, 1, c.limits).open()
			a.state("a")
			if c.stuck {
				a.hold = only(durable.OpPut)
			}
			n := uint64(1)
			for ; n < 1000; n++ {
				command := number(n, 1)
				if c.floor {
					command.Floor = n
				}
				v := a.core.Admit(d.w.clock(), &command).Verdict
				if v == durable.Overloaded {
					break
				} else if v != durable.Run {
					t.Fatalf("command %d: verdict %d", n, v)
				}
				turn := durable.Turn{Entity: "a", State: make([]byte, 1000), Command: &command, Answer: make([]byte, c.answer)}
				if c.tell > 0 {
					turn.Tells = []durable.Tell{{Target: durable.Target{Log: logName, Shard: 1}, Body: make([]byte, c.tell)}}
				}
				if _, err := a.core.Commit(d.w.clock(), &turn); err != nil {
					t.Fatal(err)
				}
				if n%10 == 0 {
					a.core.Tick(d.w.clock())
					for _, r := range a.core.Take().Requests {
						if a.hold == nil || !a.hold(r) {
							a.bring(r)
						}
					}
				}
			}
			if n < 40 || n > 100 {
				t.Errorf("%d commands were taken, want about 50 to 80", n-1)
			}
			if v := a.core.Admit(d.w.clock(), new(number(1000, 1000))).Verdict; v == durable.Run && c.floor {
				t.Error("another caller's command runs")
			}
		})
	}
}

// TestFloor: a command that its caller has reported as finished is forgotten, and never runs again.
func TestFloor(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.apply("a", number(1, 1), "1")
	a.apply("a", number(2, 1), "2")
	a.run()
	for _, s := range []*seat{a, d.seat(0, 2)} {
		s.open()
		for n, want := range map[uint64]durable.Verdict{1: durable.Replay, 2: durable.Replay} {
			if got := s.core.Admit(d.w.clock(), new(number(n, 1))).Verdict; got != want {
				t.Errorf("%s: command %d: verdict %d, want %d", s.home.name, n, got, want)
			}
		}
	}
	b := d.seat(0, 3).open()
	b.apply("a", number(3, 3), "3") // 1 and 2 are finished
	b.run()
	b.commit("b", "another caller's is the last in the log")
	b.core.Checkpoint(d.w.clock())
	b.run()
	for _, s := range []*seat{b, d.seat(0, 4)} {
		s.open()
		for n, want := range map[uint64]durable.Verdict{1: durable.BelowFloor, 2: durable.BelowFloor, 3: durable.Replay} {
			if got := s.core.Admit(d.w.clock(), new(number(n, 1))).Verdict; got != want {
				t.Errorf("%s: command %d: verdict %d, want %d", s.home.name, n, got, want)
			}
		}
	}
}

// TestStuckCommandHoldsItsOwnIDAlone: while some commands of a source are stuck, any number of its
// other commands run and are finished. No finished command runs again, at this home or later ones.
// The stuck commands end like any others.
func TestStuckCommandHoldsItsOwnIDAlone(t *testing.T) {
	d := newCashier(t, 1)
	limits := durable.Limits{Commands: 20}
	a := d.limited(0, 1, limits).open()
	a.apply("a", number(1, 1), "1") // the caller does not get the answer
	if v := a.core.Admit(d.w.clock(), new(number(2, 1))).Verdict; v != durable.Run {
		t.Fatalf("verdict %d", v)
	}
	with := func(n, past uint64) durable.Command {
		c := number(n, 1)
		c.Past, c.Stuck = past, durable.NumbersOf([]uint64{1, 2})
		return c
	}
	const last = 500
	for n := uint64(3); n <= last; n++ {
		a.apply("a", with(n, n), "n")
		if n%100 == 0 {
			a.run()
		}
	}
	if v := a.core.Admit(d.w.clock(), new(with(2, last))).Verdict; v != durable.Running {
		t.Errorf("the stuck command comes again: verdict %d, want that it runs already", v)
	}
	a.run()
	a.core.Checkpoint(d.w.clock())
	a.run()
	look := func(s *seat, first, second durable.Verdict) {
		t.Helper()
		for n, want := range map[uint64]durable.Verdict{
			1: first, 2: second, 3: durable.BelowFloor, last / 2: durable.BelowFloor, last - 1: durable.BelowFloor, last: durable.Replay,
		} {
			// A delayed message names fewer finished commands.
			if got := s.core.Admit(d.w.clock(), new(number(n, 1))).Verdict; got != want {
				t.Errorf("%s: command %d: verdict %d, want %d", s.home.name, n, got, want)
			}
		}
	}
	look(a, durable.Replay, durable.Running)
	b := d.limited(0, 2, limits).open()
	look(b, durable.Replay, durable.Run)
	b.core.Discard(new(number(2, 1)))
	b.apply("a", with(2, last), "2")
	b.run()
	look(b, durable.Replay, durable.Replay)
	c := number(last+1, last)
	b.apply("a", c, "all are finished")
	b.run()
	look(b, durable.BelowFloor, durable.BelowFloor)
}

// TestFloorInTheLog: a home that reads the log learns from each command which earlier ones are
// finished.
func TestFloorInTheLog(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.apply("a", number(1, 1), "1")
	a.apply("a", number(5, 5), "5")
	a.run()
	b := d.seat(0, 2).open()
	if got := b.core.Admit(d.w.clock(), new(number(1, 1))).Verdict; got != durable.BelowFloor {
		t.Errorf("a finished command: verdict %d, want that it is below the floor", got)
	}
}

// TestSilentCallersAreForgotten: a caller that is silent for some time is forgotten, unless one of
// its commands runs.
func TestSilentCallersAreForgotten(t *testing.T) {
	d := newCashier(t, 1)
	a := d.limited(0, 1, durable.Limits{Commands: 4}).open()
	a.apply("a", number(1, 1), "1")
	a.run()
	other := durable.Command{Source: durable.Source{Incarnation: 8}, Number: 1, Hash: 1}
	if v := a.core.Admit(d.w.clock(), &other).Verdict; v != durable.Run {
		t.Fatalf("verdict %d, want that it runs", v)
	}
	third := durable.Command{Source: durable.Source{Incarnation: 7}, Number: 1, Hash: 1}
	if v := a.core.Admit(d.w.clock(), &third).Verdict; v != durable.Overloaded {
		t.Fatalf("verdict %d, want overloaded by two callers with a command each", v)
	}
	d.w.now += 11 * time.Minute
	a.core.Tick(d.w.clock())
	if v := a.core.Admit(d.w.clock(), &third).Verdict; v != durable.Run {
		t.Errorf("verdict %d, want that it runs: a caller was silent for 11 minutes", v)
	}
	if v := a.core.Admit(d.w.clock(), &other).Verdict; v != durable.Running {
		t.Errorf("verdict %d, want that the other's command still runs", v)
	}
}

// TestReplayWaitsForItsCommit: a command is repeated while its append is under way. It is answered
// when the append is acknowledged.
func TestReplayWaitsForItsCommit(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.state("a")
	a.hold = only(durable.OpAppend)
	ticket := a.apply("a", number(1, 1), "1")
	a.run()
	if got := a.core.Admit(d.w.clock(), new(number(1, 1))); got.Verdict != durable.Replay || got.Ticket != ticket || a.ready >= ticket {
		t.Errorf("%+v, ready %d: want a replay that waits for ticket %d", got, a.ready, ticket)
	}
	if got := a.core.Seen("a"); got != ticket {
		t.Errorf("a nested call waits for ticket %d, want %d", got, ticket)
	}
	if got := a.core.Observe(d.w.clock(), "a", true); got != ticket {
		t.Errorf("a read waits for ticket %d, want %d", got, ticket)
	}
}

// TestReadWithoutALease: a home without a lease proves by an append that it still has the shard,
// before it answers a read.
func TestReadWithoutALease(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.commit("a", "1")
	if got := a.core.Observe(d.w.clock(), "a", true); got > a.ready {
		t.Errorf("a read under the lease waits for ticket %d, %d is durable", got, a.ready)
	}
	got := a.core.Observe(d.w.clock(), "a", false)
	a.run()
	if a.ready < got {
		t.Errorf("a read without a lease: ticket %d, %d is durable", got, a.ready)
	}
	d.seat(0, 2).open()
	got = a.core.Observe(d.w.clock(), "a", false)
	a.run()
	if a.ready >= got {
		t.Error("the former home answers a read")
	}
	// A second read shares the append of an earlier one that was not sent yet.
	b := d.seat(0, 3).open()
	b.hold = only(durable.OpAppend)
	b.state("b")
	b.core.Observe(d.w.clock(), "b", false)
	one, two := b.core.Observe(d.w.clock(), "b", false), b.core.Observe(d.w.clock(), "b", false)
	if one != two || one <= b.ready {
		t.Errorf("two reads wait for tickets %d and %d, durable is %d: want the same, to come", one, two, b.ready)
	}
}

// TestFirstUnfinishedCommandIsTaken: ids above a source's floor fill the table. They are dropped
// only when the command at the floor is done, so that command is admitted.
func TestFirstUnfinishedCommandIsTaken(t *testing.T) {
	d := newCashier(t, 1)
	a := d.limited(0, 1, durable.Limits{Commands: 10}).open()
	a.state("a")
	n := uint64(2)
	for ; a.core.Admit(d.w.clock(), new(number(n, 1))).Verdict == durable.Run; n++ {
	}
	if v := a.core.Admit(d.w.clock(), new(number(1, 1))).Verdict; n > 20 || v != durable.Run {
		t.Errorf("after %d commands the first one that is not finished: verdict %d, want that it runs", n, v)
	}
}
