package sim

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"time"
)

// A Result has the outcome of one run.
type Result[C any] struct {
	Err    error
	Hash   uint64
	Counts C // a struct of event counts, which show what the faults reach
	// Settled is how long after the last fault all conditions of the run were met.
	Settled time.Duration
}

// A Sweep makes the runs of many seeds on all processors.
type Sweep[R any] struct {
	First uint64
	Seeds int
	// Twice makes every Twice-th seed run twice, and both runs must have the same hash. 0 means
	// none.
	Twice int
	// Skip, if set, reports whether to leave out a seed. Such a seed does not count.
	Skip func(seed uint64) bool
	Run  func(seed uint64) R
	// Outcome returns the hash of a run, and an error if the run broke an invariant.
	Outcome func(R) (hash uint64, err error)
	// Done gets each result. Calls of Done are never concurrent. err is Outcome's error, or says
	// that two runs of the seed differ.
	Done func(seed uint64, r R, twice bool, err error)
}

// Do makes the runs until all are done or ctx ends.
func (s Sweep[R]) Do(ctx context.Context) {
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		next  = s.First
		taken = 0
	)
	take := func() (seed uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil || taken == s.Seeds {
			return 0, false
		}
		for s.Skip != nil && s.Skip(next) {
			next++
		}
		taken++
		next++
		return next - 1, true
	}
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed, ok := take(); ok; seed, ok = take() {
				r := s.Run(seed)
				hash, err := s.Outcome(r)
				twice := s.Twice > 0 && seed%uint64(s.Twice) == 0
				if twice && err == nil {
					if again, _ := s.Outcome(s.Run(seed)); again != hash {
						err = fmt.Errorf("two runs of the seed have different hashes: %016x, %016x", hash, again)
					}
				}
				mu.Lock()
				s.Done(seed, r, twice, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// AddCounts adds each field of more to the same field of sum. All fields must be integers.
func AddCounts[C any](sum *C, more C) {
	to, from := reflect.ValueOf(sum).Elem(), reflect.ValueOf(more)
	for i := range to.NumField() {
		to.Field(i).SetInt(to.Field(i).Int() + from.Field(i).Int())
	}
}
