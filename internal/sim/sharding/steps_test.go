package sharding

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/sim/seeds"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
)

// TestMoveKilledAtEachStep kills the old home, the new home, the coordinator, or the coordinator
// with one of the two. It does so at or soon after each step of a move. In the end one process has
// the shard, and every call has ended. While a copy of the state lives, no answered turn is undone.
func TestMoveKilledAtEachStep(t *testing.T) {
	_, times := seeds.Range(6)
	kinds := []victims{{old: true}, {to: true}, {coord: true}, {coord: true, old: true}, {coord: true, to: true}}
	steps := []string{"open, closed", "draining, closed", "sent, closed", "sent, prepared", "forwarding, prepared", "forwarding, open"}
	met, seed := map[string]int{}, uint64(0)
	for range times {
		for _, v := range kinds {
			for _, step := range steps {
				seed++
				k := &killing{victims: v, step: step}
				if err := k.run(seed, nil); err != nil {
					trace := &strings.Builder{}
					_ = (&killing{victims: v, step: step}).run(seed, trace)
					t.Fatalf("seed %d, killed %s: %v\n%s", seed, k.met, err, trace)
				}
				met[k.met]++
			}
		}
	}
	for _, v := range kinds {
		for _, step := range steps {
			if met[v.String()+": "+step] == 0 {
				t.Errorf("nobody killed %v at %s; met %v", v, step, met)
			}
		}
	}
	t.Logf("%v", met)
}

// victims says which processes die.
type victims struct{ old, to, coord bool }

func (v victims) String() string {
	var who []string
	if v.coord {
		who = append(who, "coordinator")
	}
	if v.old {
		who = append(who, "old home")
	}
	if v.to {
		who = append(who, "new home")
	}
	return strings.Join(who, " and ")
}

// A killing is one run with one move, in which processes die at one moment.
type killing struct {
	victims victims
	step    string // the states of the old and the new home at which to kill
	met     string // who was killed, and the states of the old and the new home then
}

func (k *killing) run(seed uint64, trace *strings.Builder) error {
	w := newWorld(seed, plan{name: "one move", hosts: 4, clients: 1, shards: 1, mayLose: true, stale: 100 * time.Millisecond, loss: 0.05}, trace)
	for _, p := range w.procs {
		p.startThreads()
	}
	id := w.ids[0]
	var others []*process // all hosts except the coordinator's; the first is the old home, the second the new one
	w.oracle.onMove = func(at *process, e coordinator.Event) {
		if w.watch != nil || k.met != "" || len(others) == 0 || e.Peer != others[1].self.Address {
			return
		}
		old, to := w.process(e.Node), others[1]
		w.watch = func() {
			if states(old, to, id) != k.step {
				return
			}
			w.watch = nil
			at.control.setPin(id, "") // without its pin, the shard gets to the new home only by this move
			if w.one(2) {
				k.strike(w, at, old, to)
				return
			}
			w.after(w.upTo(2*time.Millisecond), func() { k.strike(w, at, old, to) })
		}
	}
	home := func(i int) {
		cs := w.coordinators()
		if len(cs) != 1 {
			w.fail("%d coordinators", len(cs))
			return
		}
		others = nil
		for _, p := range w.procs {
			if p.host && p != cs[0] {
				others = append(others, p)
			}
		}
		cs[0].control.setPin(id, others[i].name)
	}
	w.after(warmUp, func() { home(0) })
	w.after(warmUp+700*time.Millisecond, func() { home(1) })
	w.run(warmUp + 1300*time.Millisecond)
	for range 30 { // a move may be given up, and tried again
		if k.met == "" {
			w.run(100 * time.Millisecond)
		}
	}
	if k.met == "" {
		w.fail("the move did not come to %s", k.step)
	}
	w.rest()
	return w.err
}

func (k *killing) strike(w *world, coord, old, to *process) {
	k.met = k.victims.String() + ": " + states(old, to, w.ids[0])
	w.log("to be killed: %s", k.met)
	if k.victims.coord {
		w.kill(coord)
	}
	if k.victims.old {
		w.kill(old)
	}
	if k.victims.to {
		w.kill(to)
	}
}

func states(old, to *process, id placement.ShardID) string {
	return fmt.Sprintf("%v, %v", old.shards[id].Core.State(), to.shards[id].Core.State())
}
