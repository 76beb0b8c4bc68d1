package singleton

import (
	"flag"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/invariant"
)

var (
	seeds = flag.Int("seeds", usual(), "how many seeds TestSeeds runs")
	first = flag.Int("first", 0, "the first of the seeds that TestSeeds runs")
	seed  = flag.Int("seed", -1, "the only seed that TestSeeds runs, with its trace")
)

func usual() int {
	if invariant.Race {
		return 40
	}
	return 200
}

// TestSeedsThatFailed runs the seeds that found bugs.
func TestSeedsThatFailed(t *testing.T) {
	for seed, bug := range map[uint64]string{
		2000379: "a member that came back was heard by a node that joined, which formed a cluster beside it all the same",
	} {
		if r := Run(seed, nil); r.Err != nil {
			t.Errorf("seed %d: %v (before: %s)", seed, r.Err, bug)
		}
	}
}

// TestSeeds runs random runs.
func TestSeeds(t *testing.T) {
	all := runSeeds(t, Run)
	if *seed < 0 && (all.Started == 0 || all.Handed == 0 || all.Tasks == 0 || all.Turns == 0 || all.Died == 0 || all.Leases == 0 || all.LeasesLost == 0 || all.Halves == 0 || all.Found == 0) {
		t.Errorf("the faults do not reach everything: %+v", all)
	}
}

// TestLeaves runs random runs of planned leaves.
func TestLeaves(t *testing.T) {
	all := runSeeds(t, RunLeaves)
	if *seed < 0 && (all.Handed == 0 || all.Tasks == 0 || all.Turns == 0 || all.Leases == 0) {
		t.Errorf("the leaves do not reach everything: %+v", all)
	}
}

// runSeeds makes the runs of all seeds, one in twenty of them twice, which must come to the
// same.
func runSeeds(t *testing.T, run func(seed uint64, trace func(line string)) Result) (all Counts) {
	if *seed >= 0 {
		r := run(uint64(*seed), func(line string) { t.Log(line) })
		t.Logf("%+v", r)
		if r.Err != nil {
			t.Error(r.Err)
		}
		return all
	}
	var (
		next    atomic.Int64
		wg      sync.WaitGroup
		mu      sync.Mutex
		slowest time.Duration
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(*seeds); i = next.Add(1) - 1 {
				n := i + int64(*first)
				r := run(uint64(n), nil)
				if n%20 == 0 {
					if again := run(uint64(n), nil); again.Hash != r.Hash {
						t.Errorf("seed %d: two runs differ: %016x, %016x", n, r.Hash, again.Hash)
					}
				}
				if r.Err != nil {
					t.Errorf("seed %d: %v\ngo test ./internal/sim/singleton -run %s -seed %d -v", n, r.Err, t.Name(), n)
				}
				mu.Lock()
				all.add(r.Counts)
				slowest = max(slowest, r.Settled)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d seeds: %+v; all was well after %v at the latest", *seeds, all, slowest)
	return all
}

func (c *Counts) add(o Counts) {
	c.Started += o.Started
	c.Handed += o.Handed
	c.Refused += o.Refused
	c.Tasks += o.Tasks
	c.Turns += o.Turns
	c.Died += o.Died
	c.Found += o.Found
	c.Leases += o.Leases
	c.LeasesLost += o.LeasesLost
	c.Halves += o.Halves
}
