// Package seeds runs many seeds of a simulation in a test. Flags of the test's program choose the
// seeds:
//
//	go test ./internal/sim/durable -run TestSeeds -seeds 10000 -first 500 -timeout 30m
//	go test ./internal/sim/durable -run TestSeeds -seed 42 -v    # with its trace
package seeds

import (
	"flag"
	"reflect"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/sim"
)

var (
	count = flag.Int("seeds", 0, "how many seeds each test runs (default: each test's own number)")
	first = flag.Uint64("first", 0, "the first of these seeds")
	only  = flag.Int("seed", -1, "the only seed that is run, with its trace")
)

// twice is the distance between two seeds that are run twice. Both runs of such a seed must have
// the same hash.
const twice = 10

// Range returns a test's first seed and number of seeds: usual, unless flags give another.
func Range(usual int) (from uint64, n int) {
	if *count > 0 {
		usual = *count
	}
	return *first, usual
}

// Run calls run for each seed of a test. usual is the number of seeds, unless flags set another
// number. Run returns the sums of the counts of all runs. one is true if the flag -seed asked for a
// single run, whose counts may be 0.
func Run[C any](t *testing.T, usual int, run func(seed uint64, trace func(line string)) sim.Result[C]) (all C, one bool) {
	t.Helper()
	if *only >= 0 {
		r := run(uint64(*only), func(line string) { t.Log(line) })
		t.Logf("%+v", r)
		if r.Err != nil {
			t.Error(r.Err)
		}
		return r.Counts, true
	}
	from, n := Range(usual)
	var slowest time.Duration
	sim.Sweep[sim.Result[C]]{
		First: from, Seeds: n, Twice: twice,
		Run:     func(seed uint64) sim.Result[C] { return run(seed, nil) },
		Outcome: func(r sim.Result[C]) (uint64, error) { return r.Hash, r.Err },
		Done: func(seed uint64, r sim.Result[C], _ bool, err error) {
			if err != nil {
				t.Errorf("seed %d: %v\ngo test -run '^%s$' -seed %d -v", seed, err, t.Name(), seed)
			}
			sim.AddCounts(&all, r.Counts)
			slowest = max(slowest, r.Settled)
		},
	}.Do(t.Context())
	t.Logf("%d seeds: %+v; all was well after %v at the latest", n, all, slowest)
	return all, false
}

// Want fails the test if a named field of counts is 0.
func Want(t *testing.T, counts any, names ...string) {
	t.Helper()
	for _, name := range names {
		if reflect.ValueOf(counts).FieldByName(name).Int() == 0 {
			t.Errorf("%s is 0: the faults of these seeds do not cause it", name)
		}
	}
}
