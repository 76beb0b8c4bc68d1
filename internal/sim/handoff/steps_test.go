package handoff

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/region"
)

// TestMoveKilledAtEachStep kills the old or the new home at every moment of a
// move. In the end one node has the shard and every call has come to an end; and
// while a copy of the state lives, no turn that was answered is undone.
func TestMoveKilledAtEachStep(t *testing.T) {
	const (
		moments = 130
		every   = 500 * time.Microsecond
	)
	met := map[string]int{}
	for i := range moments * 2 {
		k := &killing{after: time.Duration(i/2) * every, oldHome: i%2 == 0}
		if err := k.run(uint64(i), nil); err != nil {
			trace := &strings.Builder{}
			_ = (&killing{after: k.after, oldHome: k.oldHome}).run(uint64(i), trace)
			t.Fatalf("killed %s: %v\n%s", k.met, err, trace)
		}
		met[k.met]++
	}
	for _, step := range []string{
		"the old home: open, closed", "the old home: sent, closed", "the old home: sent, prepared",
		"the old home: forwarding, prepared", "the old home: forwarding, open",
		"the new home: open, closed", "the new home: sent, closed", "the new home: sent, prepared",
		"the new home: forwarding, prepared", "the new home: forwarding, open",
	} {
		if met[step] == 0 {
			t.Errorf("nobody was killed at %s; met %v", step, met)
		}
	}
	t.Logf("%v", met)
}

// A killing is one run with one move and one death.
type killing struct {
	after   time.Duration // of the move's begin
	oldHome bool
	met     string // who was killed, and the states of the old and the new home then
}

func (k *killing) run(seed uint64, trace *strings.Builder) error {
	w := newWorld(seed, plan{
		name: "one move", hosts: 3, clients: 2, shards: 1, mayLose: true,
		stale: 100 * time.Millisecond, duration: 600 * time.Millisecond,
	})
	w.trace = trace
	threads := w.threads()
	w.after(200*time.Millisecond, func() {
		s := w.coord.shards[w.shardIDs()[0]]
		old, to := s.owner, w.coord.pick(s.owner)
		w.coord.begin(s, to)
		w.after(k.after, func() { k.strike(w, old, to) })
	})
	w.run(w.plan.duration)
	w.calm = true
	w.run(15 * time.Second)
	if w.err == nil {
		w.settled(threads)
	}
	return w.err
}

// strike kills one side. The oracle goes on to hold turns to the state that they
// should find, unless the only copy dies.
func (k *killing) strike(w *world, old, to *process) {
	id := w.shardIDs()[0]
	from, target := old.shards[id].core.State(), to.shards[id].core.State()
	victim, who := to, "the new home"
	// Once Ready is on its way the old home may let its copy go at any moment.
	copied := target == region.Closed || target == region.Preparing
	if k.oldHome {
		victim, who = old, "the old home"
		copied = target == region.Prepared || target == region.Open
	}
	k.met = fmt.Sprintf("%s: %v, %v", who, from, target)
	if !copied {
		w.kill(victim)
		return
	}
	w.log("%s killed, its state lives", victim.name)
	victim.alive = false
	w.bury(victim, time.Second)
}
