package chaos

import (
	"context"
	"fmt"
	"sync"
)

// A Sweep is many runs.
type Sweep struct {
	First uint64
	Seeds int
	// Workers is how many runs go on at a time. At least 1.
	Workers int
	// Twice is every how many seeds one is run twice, which must come to the same
	// hash. 0: none.
	Twice int
	// Cheap leaves out the seeds that take long: large clusters, many faults.
	Cheap bool
	// Done, if set, is told each result; one call at a time.
	Done func(Result)
}

// Totals are the sums over a sweep.
type Totals struct {
	Runs, Twice, Failed, Nodes int
	Steps                      uint64
	Counts                     Counts
}

// Run makes the runs, and stops early when ctx ends.
func (s Sweep) Run(ctx context.Context) Totals {
	var (
		totals Totals
		mu     sync.Mutex
		next   = s.First
		taken  = 0
		wg     sync.WaitGroup
	)
	take := func() (seed uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil || taken == s.Seeds {
			return 0, false
		}
		for s.Cheap && !cheap(next) {
			next++
		}
		taken++
		next++
		return next - 1, true
	}
	for range s.Workers {
		wg.Go(func() {
			for seed, ok := take(); ok; seed, ok = take() {
				twice := s.Twice > 0 && seed%uint64(s.Twice) == 0
				r := Run(Options{Seed: seed})
				if twice {
					r.compare(Run(Options{Seed: seed}))
				}
				mu.Lock()
				totals.add(r, twice)
				if s.Done != nil {
					s.Done(r)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return totals
}

func (t *Totals) add(r Result, twice bool) {
	t.Runs++
	t.Nodes += r.Nodes
	t.Steps += r.Steps
	t.Counts.Add(r.Counts)
	if twice {
		t.Twice++
	}
	if r.Err != nil {
		t.Failed++
	}
}

// Replay is the command that replays a seed.
func Replay(seed uint64) string {
	return fmt.Sprintf("go run ./internal/sim/cmd/simulate -scenario random -seed %d -trace", seed)
}
