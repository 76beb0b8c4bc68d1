package durable

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// closed requires that the seat has given the shard up because of a lost head, and that no home
// opens it.
func (s *seat) closed() {
	s.d.t.Helper()
	s.run()
	last := s.events[len(s.events)-1]
	if last.Kind != durable.Ended || last.Err == nil || !strings.Contains(last.Err.Error(), "wrote a head") {
		s.d.t.Fatalf("%s: events %+v: want that it names the lost head", s.home.name, s.events)
	}
	if known := s.core.Mark(); known.Epoch == 0 {
		s.d.t.Errorf("%s knows no head after it has ended", s.home.name)
	}
	for epoch := uint64(100); epoch < 103; epoch++ {
		next := s.d.seat(s.shard, epoch)
		next.run()
		if last := next.events[len(next.events)-1]; last.Kind != durable.Ended || last.Err == nil {
			s.d.t.Fatalf("%s opens the shard: %+v", next.home.name, next.events)
		}
	}
	if snap := durable.Snap(s.d.server.head(s.shard), nil, nil, nil); len(snap.Problems) == 0 {
		s.d.t.Error("shardctl store verify names nothing")
	}
}

// TestOlderHead: the server comes back with the state before a checkpoint. Once the living home
// sees the older head, it neither goes on nor opens the shard again. No other home opens it.
func TestOlderHead(t *testing.T) {
	for name, find := range map[string]func(*seat){
		"by an append":    func(a *seat) { a.apply("b", number(90, 1), "2") },
		"by a checkpoint": func(a *seat) { a.core.Checkpoint(a.now()) },
		"by Verify":       func(a *seat) { a.core.Verify(a.now()) },
		"by a record":     func(a *seat) { a.core.Load(a.now(), "a") },
		"by the next claim": func(a *seat) {
			known := a.core.Mark()
			a.core.Drop()
			a.core = durable.New(a.now(), durable.Config{Epoch: 2, Known: known, Node: a.home.name, Incarnation: a.home.incarnation})
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := blindCashier(t)
			a := d.seat(0, 1).open()
			a.commit("a", "1")
			disk := d.server.sync()
			a.save("a")
			a.commit("b", "1")
			high := d.server.revision
			d.server.putBackTo(disk, name != "by a record", true)
			if name == "by a record" { // other shards have written more since
				d.server.revision = high + 5
			}
			find(a)
			a.closed()
		})
	}
}

// TestOlderHeadWithoutRecords is TestOlderHead without records of entities. The home has all
// commits in memory, and goes on.
func TestOlderHeadWithoutRecords(t *testing.T) {
	for name, lose := range map[string]func(a *seat) image{
		"the claim": func(a *seat) (disk image) {
			disk = a.d.server.sync()
			a.claim(1)
			a.open().commit("a", "1")
			return disk
		},
		"an empty checkpoint": func(a *seat) (disk image) {
			a.claim(1)
			a.open()
			disk = a.d.server.sync()
			a.hold = only(durable.OpTrim)
			a.core.Advance(a.now())
			a.run()
			a.commit("a", "1")
			return disk
		},
	} {
		for _, logs := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", logs ", logs), func(t *testing.T) {
				d := blindCashier(t)
				a := d.seat(0, 1)
				disk := lose(a)
				d.server.putBackTo(disk, logs, true)
				a.core.Verify(a.now())
				a.run()
				a.commit("a", "2")
				a.save("a")
				a.commit("b", "1")
				if a.core.State() != durable.Open {
					t.Fatalf("events %+v: want that the home goes on", a.events)
				}
				b := d.seat(0, 2).open()
				b.want("a", "2", 2)
				b.want("b", "1", 1)
			})
		}
	}
}

// TestRecordsOfACheckpointUnderWay: the server loses records that a checkpoint has written before
// its head. They are written again.
func TestRecordsOfACheckpointUnderWay(t *testing.T) {
	for _, late := range []durable.Op{durable.OpPut, durable.OpSetHead} {
		d := blindCashier(t)
		a := d.seat(0, 1).open()
		large := strings.Repeat("1", 200<<10)
		for i := range 8 { // enough for two Puts
			a.begun(fmt.Sprint("e", i), large)
		}
		a.run()
		disk := d.server.sync()
		puts := 0
		a.hold = func(r durable.Request) bool {
			if r.Op == durable.OpPut {
				puts++
			}
			return r.Op == late && (late != durable.OpPut || puts > 1)
		}
		a.core.Checkpoint(a.now())
		a.run()
		for i := range 8 {
			a.core.Passivated(fmt.Sprint("e", i))
		}
		d.server.putBackTo(disk, false, true)
		a.core.Verify(a.now())
		a.release()
		a.run()
		b := d.seat(0, 2).open()
		for i := range 8 {
			b.want(fmt.Sprint("e", i), large, 1)
		}
	}
}

// TestJournalPutBack: the server loses events that were written to the journal, while the head
// stays. The home writes them again, even if it has meanwhile written the journal's index, which
// then names all events.
func TestJournalPutBack(t *testing.T) {
	large := strings.Repeat("x", 20<<10) // a chunk for each event
	for name, c := range map[string]struct {
		event string
		more  bool // the home writes to the journal before it verifies the store
		late  bool // a Put is under way when the home verifies the store
	}{
		"one chunk":                          {event: "\x02"},
		"several chunks":                     {event: large},
		"several chunks, written meanwhile":  {event: large, more: true},
		"several chunks, a Put is under way": {event: large, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := blindCashier(t)
			a := d.seat(0, 1)
			a.journal = true
			a.claim(1)
			a.open()
			n := 0
			commit := func() {
				n++
				a.lasting(fmt.Sprint("e", n), "x", time.Hour, []byte(c.event))
				a.pass(time.Second)
			}
			commit()
			disk := d.server.sync()
			for range 5 {
				commit()
			}
			d.server.putBackTo(disk, false, true)
			if c.late {
				a.hold = only(durable.OpPut)
			}
			if c.more || c.late {
				commit()
			}
			a.core.Verify(a.now())
			a.hold = nil
			for _, r := range a.held {
				a.bring(r)
			}
			a.run()
			a.pass(time.Second)
			commit()
			place, read := durable.Place{}, 0
			for {
				events, after, err := place.Look(func(keys ...string) (all []store.Record, err error) {
					for _, key := range keys {
						all = append(all, d.server.record(0, key))
					}
					return all, nil
				})
				if err != nil {
					t.Fatalf("behind %d events of %d: %v", read, n, err)
				}
				if len(events) == 0 && after == place {
					break
				}
				read, place = read+len(events), after
			}
			if read != n {
				t.Errorf("a follower reads %d events of %d", read, n)
			}
		})
	}
}

// TestJournalSettled: events that were written to the journal before the shard's head are not
// written again.
func TestJournalSettled(t *testing.T) {
	d := blindCashier(t)
	a := d.seat(0, 1)
	a.journal = true
	a.claim(1)
	a.open().commit("a", "1")
	a.pass(time.Second)
	a.save("a")
	puts := 0
	a.hold = func(r durable.Request) bool {
		if r.Op == durable.OpPut {
			puts++
		}
		return false
	}
	a.core.Verify(a.now())
	a.run()
	a.pass(time.Second)
	if puts > 0 {
		t.Errorf("%d Puts: want none", puts)
	}
}

// TestVerifyWhileClaiming: a shard is asked to verify the store while it is being claimed. It does
// so once it is open, because the claim may have read data that the store has lost since.
func TestVerifyWhileClaiming(t *testing.T) {
	appends := func(verify bool) int {
		d := blindCashier(t)
		a := d.seat(0, 1)
		if verify {
			a.core.Verify(a.now())
		}
		a.open()
		a.run()
		return len(d.server.shards[0].log)
	}
	if without, with := appends(false), appends(true); with != without+1 {
		t.Errorf("%d appends, and %d with Verify: want one more", without, with)
	}
}
