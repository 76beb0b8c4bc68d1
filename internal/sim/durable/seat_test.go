package durable

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
)

// A desk is a store and its judge. The test itself moves each request between a home and the store.
type desk struct {
	t      *testing.T
	w      *world
	server *server
	seats  uint64
}

func newCashier(t *testing.T, shards int) *desk {
	w := &world{random: rand.New(rand.NewPCG(1, 1)), say: func(line string) { t.Log(line) }}
	d := &desk{t: t, w: w, server: newServer(w, shards)}
	newJudge(d.server)
	return d
}

// A seat is a home that holds one shard.
type seat struct {
	d       *desk
	home    *home
	shard   int
	core    *durable.Shard
	limits  durable.Limits
	journal bool
	index   *durable.Index
	above   bool              // the home takes an epoch above the head's: see durable.Config.Above
	hasty   bool              // run returns when there is nothing to do, without letting time pass
	held    []durable.Request // requests not brought to the store yet
	hold    func(durable.Request) bool

	tells  []durable.Tell
	events []durable.Event
	ready  durable.Ticket
	loaded map[string]durable.Loaded
	pages  []durable.Page
}

func (d *desk) seat(shard int, epoch uint64) *seat { return d.limited(shard, epoch, durable.Limits{}) }

func (d *desk) limited(shard int, epoch uint64, limits durable.Limits) *seat {
	d.seats++
	s := &seat{
		d: d, shard: shard, limits: limits, loaded: map[string]durable.Loaded{},
		home: &home{name: "n" + string(rune('0'+d.seats)), incarnation: 0x100 + d.seats, clock: clock{w: d.w}},
	}
	s.claim(epoch)
	return s
}

// single returns a seat of a singleton's shard, whose epochs come from no coordinator.
func (d *desk) single() *seat {
	s := d.seat(0, 1)
	s.above = true
	s.claim(1)
	return s
}

// now returns the time of the seat's process.
func (s *seat) now() time.Time { return s.home.clock.now() }

// claim makes the seat's process claim the shard under an epoch.
func (s *seat) claim(epoch uint64) {
	s.core = durable.New(s.now(), durable.Config{Epoch: epoch, Above: s.above, Node: s.home.name, Incarnation: s.home.incarnation, Limits: s.limits, Journal: durable.Journal{On: s.journal}, Index: s.index})
	s.ready = 0
}

// run brings all requests to the store, except those that are held. When there are none left, it
// lets up to four seconds pass.
func (s *seat) run() {
	s.d.t.Helper()
	for range 200 {
		out := s.core.Take()
		s.events = append(s.events, out.Events...)
		s.tells = append(s.tells, out.Tells...)
		s.ready = max(s.ready, out.Durable)
		for _, l := range out.Loaded {
			s.loaded[l.Entity] = l
		}
		s.pages = append(s.pages, out.Pages...)
		for _, r := range out.Requests {
			if s.hold != nil && s.hold(r) {
				s.held = append(s.held, r)
				continue
			}
			s.bring(r)
		}
		if len(out.Requests) == 0 {
			if s.hasty && (s.core.State() == durable.Dropped || !s.core.Busy()) {
				return
			}
			s.d.w.now += 20 * time.Millisecond
			s.core.Tick(s.now())
		}
		if err := s.core.Check(); err != nil {
			s.d.t.Fatal(err)
		}
	}
}

// bring makes the store carry out a request, and passes the answer to the home.
func (s *seat) bring(r durable.Request) durable.Response {
	s.d.t.Helper()
	a, err := s.d.server.serve(s.home, s.shard, r)
	if err != nil {
		s.d.t.Fatalf("%s: %s: %v", s.home.name, show(r), err)
	}
	a.ID = r.ID
	s.core.Done(s.now(), a)
	return a
}

// only returns a function that reports whether a request has the operation op.
func only(op durable.Op) func(durable.Request) bool {
	return func(r durable.Request) bool { return r.Op == op }
}

// state loads an entity and returns it.
func (s *seat) state(id string) durable.Loaded {
	s.d.t.Helper()
	l, ok := s.core.Load(s.now(), id)
	if !ok {
		s.run()
		if l, ok = s.loaded[id]; !ok {
			s.d.t.Fatalf("%s: %s is not loaded; events %+v", s.home.name, id, s.events)
		}
	}
	return l
}

// apply runs a command that changes an entity. It requires that the command is admitted.
func (s *seat) apply(id string, c durable.Command, state string, tells ...durable.Tell) durable.Ticket {
	s.d.t.Helper()
	s.state(id)
	if v := s.core.Admit(s.now(), &c).Verdict; v != durable.Run {
		s.d.t.Fatalf("%s: %s: verdict %d, want that it runs", s.home.name, id, v)
	}
	var events [][]byte
	if s.journal {
		events = [][]byte{{2}}
	}
	ticket, err := s.core.Commit(s.now(), &durable.Turn{
		Events: events,
		Entity: id, State: []byte(state), Command: &c, Answer: []byte("answer to " + state), Tells: tells,
	})
	if err != nil {
		s.d.t.Fatal(err)
	}
	return ticket
}

// commit applies a new command to an entity, and waits until it is acknowledged.
func (s *seat) commit(id, state string) {
	s.d.t.Helper()
	s.d.seats++
	ticket := s.apply(id, durable.Command{Source: durable.Source{Incarnation: 1}, Number: s.d.seats, Hash: 1}, state)
	s.run()
	if s.ready < ticket {
		s.d.t.Fatalf("%s: %s = %q is not acknowledged; events %+v", s.home.name, id, state, s.events)
	}
}

func (s *seat) has(kind durable.EventKind) bool {
	return slices.ContainsFunc(s.events, func(e durable.Event) bool { return e.Kind == kind })
}

// want checks the state and version of an entity.
func (s *seat) want(id, state string, version uint64) {
	s.d.t.Helper()
	if l := s.state(id); string(l.State) != state || l.Version != version || l.Err != nil {
		s.d.t.Errorf("%s: %s is %q, version %d, %v: want %q, version %d", s.home.name, id, l.State, l.Version, l.Err, state, version)
	}
}

func (s *seat) open() *seat {
	s.d.t.Helper()
	s.run()
	if s.core.State() != durable.Open {
		s.d.t.Fatalf("%s does not open the shard: events %+v", s.home.name, s.events)
	}
	return s
}

// tellOf returns a tell to an entity of shard 1.
func tellOf(entity, body string) durable.Tell {
	return durable.Tell{Target: durable.Target{Log: logName, Shard: 1}, Entity: entity, Body: []byte(body)}
}

// bodies returns the bodies of the tells that a seat has sent since the last call, each once.
func (s *seat) bodies() (all []string) {
	for _, tell := range s.tells {
		if text := fmt.Sprintf("%s %s", tell.Entity, tell.Body); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	s.tells = nil
	return all
}

// TestTellsToOneEntityComeOneAfterTheOther: a home sends a tell when the tell's receiver has
// committed the previous one. This holds at the next home, too. Tells to other entities do not
// wait.
func TestTellsToOneEntityComeOneAfterTheOther(t *testing.T) {
	d := newCashier(t, 2)
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
	a.core.Tick(d.w.clock()) // this appends the acknowledgement of the first tell
	a.run()
	want(a, "x 2", "y 3")

	b := d.seat(0, 2).open()
	want(b, "x 2", "y 3")
	b.core.Arrived(d.w.clock(), target, 2)
	b.run()
	want(b, "x 4", "y 3")
}

// TestOldTellsAreSentBeforeTheyAreGivenUp: all processes were away for longer than a tell may wait.
// It is unknown whether a tell has arrived, so each is sent once more before it is given up.
func TestOldTellsAreSentBeforeTheyAreGivenUp(t *testing.T) {
	d := newCashier(t, 2)
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

// TestAcknowledgementNeedsNoOtherAppend: a shard that becomes idle records in its log which tells
// have arrived, so that the next home does not send them again.
func TestAcknowledgementNeedsNoOtherAppend(t *testing.T) {
	d := newCashier(t, 2)
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

// TestNestedCallsOfTellsHaveFloorsOfTheirOwn: tells from one log have separate numbers for each
// receiver. So the numbers that are finished at one receiver say nothing about another.
func TestNestedCallsOfTellsHaveFloorsOfTheirOwn(t *testing.T) {
	d := newCashier(t, 2)
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
