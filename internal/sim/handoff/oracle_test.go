package handoff

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/region"
)

// A value is an entity's: how many turns it has had.
type value struct{ turns uint64 }

// An oracle sees all turns of all processes. It holds:
//  1. at most one turn an entity is under way in the whole world;
//  2. an entity's state is what its turns made of it, unless its home was killed;
//  3. per (thread, entity), turns begin in the order in which they were asked for;
//  4. nothing runs twice;
//  5. nothing is lost, unless the plan allows it.
type oracle struct {
	w       *world
	running map[string]*process
	turns   map[string]uint64
	last    map[string]int // by thread and entity: the number of the last turn
	ran     map[string]bool
	asked   map[string]bool
	lossy   bool // a process was killed: state and calls may be lost
	cuts    int  // gates that timed out
	losses  int
	nested  int
}

func newOracle(w *world) *oracle {
	return &oracle{
		w: w, running: map[string]*process{}, turns: map[string]uint64{}, last: map[string]int{},
		ran: map[string]bool{}, asked: map[string]bool{},
	}
}

// payload names an operation: who, on what, and its number there.
func payload(thread, entity string, n int) string { return fmt.Sprintf("%s/%s/%d", thread, entity, n) }

func (o *oracle) ask(payload string) { o.asked[payload] = true }

func (o *oracle) killed(*process) { o.lossy = true }

// lose notes that an accepted call cannot run.
func (o *oracle) lose(e *wire.Envelope, format string, args ...any) {
	o.losses++
	what := fmt.Sprintf(format, args...)
	o.w.log("LOST %s: %s", label(e), what)
	if !o.w.plan.mayLose && e.Type == wire.TypeTell {
		o.w.fail("%s is lost: %s", label(e), what)
	}
}

// cut notes that gates have timed out.
func (o *oracle) cut(p *process, n int) {
	o.cuts += n
	if !o.w.plan.mayLose {
		o.w.fail("%d gates at %s timed out", n, p.name)
	}
}

// begin is the begin of a turn.
func (o *oracle) begin(s *hosted, e *region.Entity, payload string) {
	p := s.process
	o.w.log("%s: TURN %s", p.name, payload)
	key := entityKey(s.id, e.ID)
	if other := o.running[key]; other != nil && other.alive {
		o.w.fail("%s runs at %s and at %s", key, other.name, p.name)
	}
	o.running[key] = p
	v, ok := e.Value.(*value)
	if !ok {
		v = s.wake(e)
	}
	if want := o.turns[key]; v.turns != want && !o.lossy {
		o.w.fail("%s at %s has seen %d turns, want %d", key, p.name, v.turns, want)
	}
	v.turns++
	o.turns[key] = v.turns
	if o.ran[payload] {
		o.w.fail("%s ran twice, now at %s", payload, p.name)
	}
	o.ran[payload] = true
	var thread, entity string
	var n int
	if _, err := fmt.Sscan(strings.ReplaceAll(payload, "/", " "), &thread, &entity, &n); err != nil {
		o.w.fail("payload %q: %v", payload, err)
	}
	order := thread + " → " + entity
	if last := o.last[order]; n <= last {
		o.w.fail("%s: %d runs at %s after %d", order, n, p.name, last)
	}
	o.last[order] = n
}

func (o *oracle) end(s *hosted, e *region.Entity) {
	if key := entityKey(s.id, e.ID); o.running[key] == s.process {
		delete(o.running, key)
	}
}

func entityKey(id placement.ShardID, entity string) string { return entity }

// missing are the operations that were asked for and never ran.
func (o *oracle) missing() []string {
	var out []string
	for p := range o.asked {
		if !o.ran[p] {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}
