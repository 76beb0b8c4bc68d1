package durable

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/sim/seeds"
	"github.com/shardgen/shardgen/store"
)

// TestLosses runs random runs of one shard whose server loses acknowledged appends. No commit is
// lost as long as a home that made or read it lives, and appends something. The flags are those of
// TestSeeds.
func TestLosses(t *testing.T) {
	first, n := seeds.Range(usual())
	for i := range uint64(n) {
		seed := first + i
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { runLosing(t, seed) }) {
			return
		}
	}
}

// losingEntities is the number of entities in a run with losses.
const losingEntities = 4

// A losing is a run of one shard whose server loses acknowledged appends.
type losing struct {
	t      *testing.T
	d      *desk
	random *rand.Rand
	home   *seat
	epoch  uint64
	states map[string][]applied // the commits of each entity; index 0 is version 1
	gone   map[string][]string  // the states of each entity that stay lost, after the version and a colon
	events bool                 // entities have events, from which their states follow
	count  int
	lost   bool // the server has lost something, and the home has not noticed
	closed bool // no home can open the shard any more
	steps  []string
}

// An applied is an acknowledged commit.
type applied struct {
	state string
	key   string // of its command; "" means none
}

func runLosing(t *testing.T, seed uint64) {
	w := &world{random: rand.New(rand.NewPCG(seed, 1))}
	l := &losing{
		t: t, d: &desk{t: t, w: w, server: newServer(w, 1)},
		random: rand.New(rand.NewPCG(seed, 2)), states: map[string][]applied{}, gone: map[string][]string{}, events: seed%2 == 1,
	}
	newJudge(l.d.server)
	l.d.server.judge.blind, l.d.server.sparse = true, seed%4 >= 2
	defer func() {
		if t.Failed() {
			for _, s := range l.steps {
				t.Log(s)
			}
		}
	}()
	l.take()
	for range 5 + l.random.IntN(60) {
		if l.step(); l.closed || t.Failed() {
			return
		}
	}
	l.take()
}

func (l *losing) note(format string, args ...any) {
	l.steps = append(l.steps, fmt.Sprintf(format, args...))
}

func (l *losing) step() {
	id := l.id()
	switch n := l.random.IntN(20); {
	case n < 10:
		l.commit(id)
	case n < 13:
		l.note("passivate %s", id)
		l.home.core.Passivated(id)
	case n < 15:
		l.note("checkpoint")
		l.home.core.Checkpoint(l.home.now())
		l.home.run()
	case n < 16:
		l.note("checkpoint begins")
		l.home.hold = only(durable.OpPut)
		l.home.core.Checkpoint(l.home.now())
		l.home.run()
		if l.lose() {
			l.commit(id)
		}
		l.note("checkpoint ends")
		l.home.release()
	case n < 18:
		if !l.lose() {
			break
		}
		switch l.random.IntN(4) {
		case 0:
			l.take()
		case 1:
			l.verify()
		default:
			l.commit(id)
		}
	default:
		l.take()
	}
}

func (l *losing) id() string { return fmt.Sprint("e", l.random.IntN(losingEntities)) }

func (l *losing) commit(id string) {
	l.count++
	c := applied{state: strconv.Itoa(l.count)}
	l.note("commit %s = %s", id, c.state)
	if l.random.IntN(4) == 0 {
		c.key = "key of " + c.state
		l.home.key(id, c.key, c.state)
	} else {
		l.home.commit(id, c.state)
	}
	l.states[id] = append(l.states[id], c)
	l.appended()
}

// verify makes the home check whether the store has lost anything.
func (l *losing) verify() {
	l.note("verify")
	l.home.core.Verify(l.home.now())
	l.home.run()
	l.appended()
}

// appended records that the home has appended something, and so has found any loss.
func (l *losing) appended() {
	if !l.lost && (l.home.has(durable.Resent) || l.home.has(durable.Orphaned)) {
		l.t.Errorf("events %+v: nothing was lost", l.home.events)
	}
	l.home.events = nil
	l.lost = false
}

// lose makes the server lose appends after one that the head needs. It returns false if there are
// none.
func (l *losing) lose() bool {
	log, since := l.d.server.shards[0].log, l.d.server.head(0).Since
	kept := log[l.random.IntN(len(log))].Position
	if kept == l.d.last(0) || since != store.Start && kept < since {
		return false
	}
	l.note("lose behind %d of %d, since %d", kept, l.d.last(0), since)
	next := log[slices.IndexFunc(log, func(a store.Append) bool { return a.Position == kept })+1].Position
	l.d.lose(0, kept)
	l.d.server.position = kept + store.Position(l.random.IntN(int(next-kept))) // other logs may have kept later appends
	l.lost = true
	return true
}

// take makes another home open the shard, and compares what that home finds. Appends that were lost
// before, and whose loss no home had noticed, stay lost. If the head needs a part of them, the
// shard stays closed.
func (l *losing) take() {
	l.epoch++
	l.note("take over, lost %v", l.lost)
	l.home = l.d.limited(0, l.epoch, few)
	l.home.hasty, l.home.journal = true, l.events
	l.home.claim(l.epoch)
	head, log := l.d.server.head(0), l.d.server.shards[0].log
	if l.home.run(); l.lost && l.home.core.State() == durable.Dropped && durable.CheckEnd(head, log) != nil {
		l.home.refused("the log ends before append")
		l.closed = true
		return
	}
	l.home.open()
	for i := range losingEntities {
		id := fmt.Sprint("e", i)
		all, got := l.states[id], l.home.state(id)
		of := func(version uint64, state string) string { return fmt.Sprint(version, ":", state) }
		n := uint64(len(all))
		hidden := slices.Contains(l.gone[id], of(got.Version, string(got.State))) || len(got.Since) > 0 && got.Version > n
		switch {
		case l.lost && got.Version < n:
			for v, c := range all[got.Version:] {
				l.gone[id] = append(l.gone[id], of(got.Version+uint64(v)+1, c.state))
			}
			all = all[:got.Version]
		case l.lost && hidden:
			// An earlier lost commit had been written to a record. The log's later state hid that
			// record, and is lost now too.
			all = append(slices.Clone(all), make([]applied, got.Version-n)...)
			all[got.Version-1] = applied{state: string(got.State)}
		}
		l.states[id] = all
		want := ""
		if len(all) > 0 {
			want = all[len(all)-1].state
		}
		if got.Err != nil || got.Version != uint64(len(all)) || len(got.Since) == 0 && string(got.State) != want {
			l.t.Errorf("%s is %q, version %d, %v: want %q, version %d", id, got.State, got.Version, got.Err, want, len(all))
		}
		for _, c := range all {
			if c.key != "" {
				l.again(id, c)
			}
		}
	}
	l.lost = false
}

// again repeats a command with a key, and requires the first answer.
func (l *losing) again(id string, c applied) {
	command := keyed(c.key)
	a := l.home.core.Admit(l.home.now(), &command)
	if a.Verdict == durable.Run { // the table has forgotten the command
		l.home.core.Discard(&command)
		a = l.home.core.Keyed(l.home.now(), id, &command)
	}
	if a.Verdict != durable.Replay || string(a.Answer) != "answer to "+c.state {
		l.t.Errorf("%s: %s: verdict %d, answer %q: want that it is answered again", id, c.key, a.Verdict, a.Answer)
	}
}
