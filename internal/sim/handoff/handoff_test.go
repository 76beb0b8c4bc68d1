package handoff

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/call"
	"github.com/shardgen/shardgen/runtime/region"
)

// plans are the kinds of runs. Only where processes are killed, or cut off for
// longer than a gate waits, may an acknowledged call be lost; order and
// exactly-once hold always.
var plans = []plan{
	{name: "moves", hosts: 3, clients: 2, shards: 2, moves: 12, stale: 100 * time.Millisecond},
	{name: "two homes", hosts: 2, clients: 2, shards: 1, moves: 20, stale: 300 * time.Millisecond},
	{name: "stale tables", hosts: 4, clients: 2, shards: 1, moves: 12, stale: 2 * time.Second},
	{name: "aborts", hosts: 3, clients: 2, shards: 2, moves: 12, aborts: true, stale: 300 * time.Millisecond},
	{name: "breaks", hosts: 3, clients: 2, shards: 2, moves: 12, breaks: 8, stale: 300 * time.Millisecond},
	{name: "breaks and aborts", hosts: 4, clients: 1, shards: 2, moves: 12, breaks: 8, aborts: true, stale: time.Second},
	{name: "leaves", hosts: 4, clients: 2, shards: 3, moves: 6, leaves: 2, stale: 300 * time.Millisecond},
	{name: "kill", hosts: 4, clients: 2, shards: 3, moves: 12, kills: 1, mayLose: true, stale: 300 * time.Millisecond},
	{name: "kills and breaks", hosts: 5, clients: 1, shards: 3, moves: 15, kills: 3, breaks: 5, aborts: true, mayLose: true, stale: time.Second},
	{name: "blocks", hosts: 3, clients: 2, shards: 2, moves: 15, blocks: 4, mayLose: true, stale: 300 * time.Millisecond},
	{name: "everything", hosts: 5, clients: 2, shards: 3, moves: 15, kills: 2, leaves: 1, breaks: 5, blocks: 2, aborts: true, mayLose: true, stale: 2 * time.Second},
}

// seeds is how many seeds of each plan a test runs: 209 in all.
const seeds = 19

// TestHandoff runs every plan for some seeds, and more with SHARDGEN_SEEDS=n (n
// times as many; 48 make 10,000). SHARDGEN_SEED=n runs one seed and prints its
// trace.
func TestHandoff(t *testing.T) {
	for _, p := range plans {
		t.Run(strings.ReplaceAll(p.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			if s := os.Getenv("SHARDGEN_SEED"); s != "" {
				seed, err := strconv.ParseUint(s, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				trace := &strings.Builder{}
				if err := simulate(seed, p, trace).err; err != nil {
					t.Errorf("seed %d: %v\n%s", seed, err, trace)
				}
				return
			}
			turns, cuts, losses := 0, 0, 0
			for seed := range uint64(seeds * factor(t)) {
				w := simulate(seed, p, nil)
				if w.err != nil {
					t.Fatalf("seed %d: %v", seed, w.err)
				}
				turns += len(w.oracle.ran)
				cuts += w.oracle.cuts
				losses += w.oracle.losses
			}
			t.Logf("%d turns, %d gates timed out, %d calls lost", turns, cuts, losses)
		})
	}
}

func factor(t *testing.T) int {
	s := os.Getenv("SHARDGEN_SEEDS")
	if s == "" {
		return 1
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("SHARDGEN_SEEDS=%q: want a number from 1", s)
	}
	return n
}

// simulate runs a plan: traffic and faults, then quiet, in which everything must
// come to an end.
func simulate(seed uint64, p plan, trace *strings.Builder) *world {
	p.duration = 1500 * time.Millisecond
	w := newWorld(seed, p)
	w.trace = trace
	threads := w.threads()
	w.faults()
	w.run(p.duration)
	w.calm = true
	w.run(15 * time.Second)
	if w.err == nil {
		w.settled(threads)
	}
	return w
}

// settled tells whether the world has come to rest.
func (w *world) settled(threads []*thread) {
	for _, t := range threads {
		if t.busy && t.process.alive {
			w.fail("%s still waits", t.name)
		}
	}
	for _, p := range w.procs {
		if !p.alive {
			continue
		}
		for _, id := range w.shardIDs() {
			w.restingShard(p, w.coord.shards[id])
		}
		for _, l := range p.sortedLinks() {
			if !l.gone && l.core.Acked() != l.core.Next()-1 {
				w.fail("%s: %s acknowledged %d of %d", p.name, l.peer.Name, l.core.Acked(), l.core.Next()-1)
			}
		}
	}
	if missing := w.oracle.missing(); len(missing) > 0 && !w.plan.mayLose {
		w.fail("never ran: %v", missing)
	}
}

func (w *world) restingShard(p *process, s *placed) {
	r := p.routes[s.id]
	if r.core.State != call.Known || r.core.Owner != s.owner.self.Address || r.core.Held() > 0 {
		w.fail("%s: route of %v is %v to %s and holds %d, want known to %s",
			p.name, s.id, r.core.State, r.core.Owner.Name, r.core.Held(), s.owner.name)
	}
	h := p.shards[s.id]
	if h == nil {
		return
	}
	core := h.core
	switch {
	case s.move != nil:
		w.fail("%v still moves", s.id)
	case s.owner == p && core.State() != region.Open:
		w.fail("%v is %v at its owner %s", s.id, core.State(), p.name)
	case s.owner != p && core.State() != region.Closed && core.State() != region.Forwarding:
		w.fail("%v is %v at %s, and belongs to %s", s.id, core.State(), p.name, s.owner.name)
	case core.Waiting() > 0 || core.Gated() || core.Running() > 0:
		w.fail("%v at %s: %d wait, %d gates, %d turns", s.id, p.name, core.Waiting(), core.Gates(), core.Running())
	}
}

// TestReplays: a seed is worth something only if it always gives the same run.
func TestReplays(t *testing.T) {
	for _, p := range plans {
		var traces [2]strings.Builder
		for i := range traces {
			simulate(1, p, &traces[i])
		}
		if a, b := traces[0].String(), traces[1].String(); a != b || a == "" {
			t.Errorf("%s: two runs of one seed differ", p.name)
		}
	}
}
