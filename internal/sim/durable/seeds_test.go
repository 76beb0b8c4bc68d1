package durable

import (
	"flag"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/invariant"
)

var (
	seeds = flag.Int("seeds", usual(), "how many seeds TestSeeds and TestLosses run")
	first = flag.Int("first", 0, "the first of these seeds")
	seed  = flag.Int("seed", -1, "the only seed that TestSeeds runs, with its trace")
)

// plenty is how many seeds must reach every fault.
const plenty = 300

func usual() int {
	if invariant.Race {
		return 10
	}
	return 60
}

// TestSeeds runs random runs, one in twenty of them twice, which must come to the same.
func TestSeeds(t *testing.T) {
	if *seed >= 0 {
		r := Run(uint64(*seed), func(line string) { t.Log(line) })
		t.Logf("%+v", r.Counts)
		if r.Err != nil {
			t.Error(r.Err)
		}
		return
	}
	var (
		next    atomic.Int64
		wg      sync.WaitGroup
		mu      sync.Mutex
		all     Counts
		slowest time.Duration
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(*seeds) && !t.Failed(); i = next.Add(1) - 1 {
				n := i + int64(*first)
				r := Run(uint64(n), nil)
				if n%20 == 0 {
					if again := Run(uint64(n), nil); again.Hash != r.Hash {
						t.Errorf("seed %d: two runs differ: %016x, %016x", n, r.Hash, again.Hash)
					}
				}
				if r.Err != nil {
					t.Errorf("seed %d: %v\ngo test ./internal/sim/durable -run TestSeeds -seed %d -v", n, r.Err, n)
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
	v := reflect.ValueOf(all)
	for i := range v.NumField() {
		if v.Field(i).Int() == 0 && *seeds >= plenty && *first == 0 {
			t.Errorf("the faults do not reach everything: %s is 0", v.Type().Field(i).Name)
		}
	}
}

// TestUnsynced runs random runs in which the server loses what was not on its disk, with the flags of TestSeeds.
func TestUnsynced(t *testing.T) {
	if *seed >= 0 {
		r := RunUnsynced(uint64(*seed), func(line string) { t.Log(line) })
		t.Logf("%+v", r.Counts)
		if r.Err != nil {
			t.Error(r.Err)
		}
		return
	}
	var (
		next atomic.Int64
		wg   sync.WaitGroup
		mu   sync.Mutex
		all  Counts
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(*seeds) && !t.Failed(); i = next.Add(1) - 1 {
				n := i + int64(*first)
				r := RunUnsynced(uint64(n), nil)
				if r.Err != nil {
					t.Errorf("seed %d: %v\ngo test ./internal/sim/durable -run TestUnsynced -seed %d -v", n, r.Err, n)
				}
				mu.Lock()
				all.add(r.Counts)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d seeds: %+v", *seeds, all)
}

func (c *Counts) add(o Counts) {
	sum, more := reflect.ValueOf(c).Elem(), reflect.ValueOf(o)
	for i := range sum.NumField() {
		sum.Field(i).SetInt(sum.Field(i).Int() + more.Field(i).Int())
	}
}
