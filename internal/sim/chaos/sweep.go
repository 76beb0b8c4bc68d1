package chaos

import (
	"context"
	"fmt"

	"github.com/shardgen/shardgen/internal/sim"
)

// A Sweep makes the runs of many seeds.
type Sweep struct {
	First uint64
	Seeds int
	Table bool // as in Options
	// Twice makes every Twice-th seed run twice, and both runs must have the same hash. 0 means
	// none.
	Twice int
	// Cheap leaves out seeds whose runs take long: those with large clusters and with many faults.
	Cheap bool
	// Done, if set, gets each result. Calls of Done are never concurrent.
	Done func(Result)
}

// Totals has the sums over all runs of a sweep.
type Totals struct {
	Runs, Twice, Failed, Nodes int
	Steps                      uint64
	Counts                     Counts
}

// Run makes the runs until all are done or ctx ends.
func (s Sweep) Run(ctx context.Context) (totals Totals) {
	sim.Sweep[Result]{
		First: s.First, Seeds: s.Seeds, Twice: s.Twice,
		Skip:    func(seed uint64) bool { return s.Cheap && !cheap(seed) },
		Run:     func(seed uint64) Result { return Run(Options{Seed: seed, Table: s.Table}) },
		Outcome: func(r Result) (uint64, error) { return r.Hash, r.Err },
		Done: func(_ uint64, r Result, twice bool, err error) {
			r.Err = err
			totals.add(r, twice)
			if s.Done != nil {
				s.Done(r)
			}
		},
	}.Do(ctx)
	return totals
}

func (t *Totals) add(r Result, twice bool) {
	t.Runs++
	t.Nodes += r.Nodes
	t.Steps += r.Steps
	sim.AddCounts(&t.Counts, r.Counts)
	if twice {
		t.Twice++
	}
	if r.Err != nil {
		t.Failed++
	}
}

// Replay returns the command that replays a seed, with the members agreeing by a table or by gossip.
func Replay(seed uint64, table bool) string {
	by := ""
	if table {
		by = " -membership table"
	}
	return fmt.Sprintf("go run ./internal/sim/cmd/simulate -scenario random%s -seed %d -trace", by, seed)
}
